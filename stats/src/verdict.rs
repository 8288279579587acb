//! What may be said about a change.
//!
//! ```text
//!              -margin     0     +margin
//!   ──────────────┼────────┼────────┼──────────────────►  change
//!                 │  |--|  │        │                     SAME     the 90 % interval is inside the margin
//!                 │      |────|─────│──|                  UNCLEAR  it is not, and nothing is sure
//!                 │        │        │    |──●──|          BETTER   p is below alpha, the centre beyond the margin
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BLOCKS_MIN, Test};

/// A verdict about one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The new side is better, by more than the margin.
    Better,
    /// The new side is worse, by more than the margin.
    Worse,
    /// Shown to be equal: any change is inside the margin.
    Same,
    /// Not enough data for any of these.
    Unclear,
}

/// Which side of a change is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
}

/// Changes that do not matter, in the scale of the differences: from `low` (at most 0) to `high` (at least 0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Largest fall that does not matter.
    pub low: f64,
    /// Largest rise that does not matter.
    pub high: f64,
}

impl Margin {
    /// `percent` either way, for log ratios; at most 99.
    #[must_use]
    pub fn percent(percent: f64) -> Self {
        let share = percent.clamp(0.0, 99.0) / 100.0;
        Self { low: (-share).ln_1p(), high: share.ln_1p() }
    }

    /// `by` either way, for plain differences.
    #[must_use]
    pub fn plain(by: f64) -> Self {
        Self { low: -by.abs(), high: by.abs() }
    }

    /// Whether a change is beyond it.
    #[must_use]
    pub fn is_beyond(self, change: f64) -> bool {
        change < self.low || change > self.high
    }

    /// Whether the whole of an interval is inside it. With no margin at all, only "no change whatsoever" is.
    fn holds(self, low: f64, high: f64) -> bool {
        (self.low < low && high < self.high) || (low == 0.0 && high == 0.0)
    }
}

/// The verdict about `test`, whose p-value is `corrected_p` after correction for the other metrics.
#[must_use]
pub fn verdict(test: &Test, corrected_p: f64, alpha: f64, margin: Margin, better: Better) -> Verdict {
    if test.blocks_min() < BLOCKS_MIN {
        return Verdict::Unclear;
    }
    if corrected_p < alpha && margin.is_beyond(test.centre) {
        return if (test.centre > 0.0) == (better == Better::Higher) { Verdict::Better } else { Verdict::Worse };
    }
    match test.narrow {
        Some(narrow) if margin.holds(narrow.low, narrow.high) => Verdict::Same,
        _ => Verdict::Unclear,
    }
}
