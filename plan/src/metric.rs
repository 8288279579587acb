//! Metrics: what a comparison compares, one line each. This definition feeds the tables, the JSON, `--explain`, the
//! manual and the HTML report; none of them knows a metric that is not here.
//!
//! ```text
//!   recorded    counters and histograms by name, as the engine counted them       (recorded.rs)
//!      │
//!   Source      how one number is made of one run: per second, per flush, p99 ... (source.rs)
//!      │
//!   Metric      that number with its unit, direction, margin and family           (here; all of them: table.rs)
//! ```
//!
//! *Family.* PRIMARY metrics decide: their verdicts make the exit code. COST metrics are what a mode pays. WHY metrics are
//! the mechanism. *Margin.* A change inside it is of no practical importance, however sure it is; shown to be inside it is
//! what SAME means. *Scale.* Rates and times change by percent, shares and indices by points (hundredths).

mod recorded;
mod source;
mod table;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use recorded::*;
pub use source::Source;
pub use table::METRICS;

use crate::RunRecord;

/// Which side of a change is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the metric explains, it does not judge.
    Neither,
}

impl Direction {
    /// The direction in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher is better",
            Self::Lower => "lower is better",
            Self::Neither => "neither side is better",
        }
    }
}

/// What a metric is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Decides the exit code.
    Primary,
    /// What a mode pays.
    Cost,
    /// The mechanism behind the figures.
    Why,
}

impl Family {
    /// All families, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Cost, Self::Why];

    /// Its heading.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "PRIMARY",
            Self::Cost => "COST",
            Self::Why => "WHY",
        }
    }
}

/// How a change is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As a ratio, in percent.
    Percent,
    /// As a difference in points: hundredths of a value that is a share or an index.
    Points,
}

/// A metric, described for those who read a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name in the JSON and on the command line.
    pub id: Cow<'static, str>,
    /// Its name in tables.
    pub title: Cow<'static, str>,
    /// The unit of its value: `1/s`, `ns`, `share`, `index`, `ratio`, `count`.
    pub unit: Cow<'static, str>,
    /// Which side is better.
    pub direction: Direction,
    /// How its change is expressed.
    pub scale: Scale,
    /// A change inside this, in percent or points of its scale, does not matter.
    pub margin: f64,
    /// What it is for.
    pub family: Family,
    /// True if equal systems give equal values: any difference is one, and no statistics are needed.
    pub exact: bool,
    /// What it measures.
    pub text: Cow<'static, str>,
    /// How it is computed from a run.
    pub source: Source,
}

impl Metric {
    /// The value of one run; `None` where it was not measured.
    #[must_use]
    pub fn value(&self, run: &RunRecord) -> Option<f64> {
        self.source.value(run).filter(|value| value.is_finite())
    }

    /// The metric of a counter that has no definition here: its rate, as an explanation.
    #[must_use]
    pub fn of_counter(name: &str) -> Self {
        let known = COUNTERS.iter().find(|counter| counter.id == name);
        let text =
            known.map_or_else(|| format!("Counter `{name}` of the engine."), |counter| counter.text.trim().into());
        Self {
            id: format!("{name}_per_s").into(),
            title: format!("{}/s", name.replace('_', " ")).into(),
            unit: "1/s".into(),
            direction: Direction::Neither,
            scale: Scale::Percent,
            margin: 5.0,
            family: Family::Why,
            exact: false,
            text: format!("A second: {text}").into(),
            source: Source::PerSecond(name.to_owned().into()),
        }
    }
}

/// The metric of that name.
#[must_use]
pub fn find(id: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_there_once_and_described() {
        let mut ids: Vec<_> = METRICS.iter().map(|m| &m.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), METRICS.len());
        assert!(METRICS.iter().all(|m| m.text.ends_with('.') && m.margin >= 0.0 && m.title.len() <= 22));
        assert!(METRICS.iter().all(|m| m.exact == (m.margin == 0.0)), "only exact metrics have no margin");
        assert_eq!(METRICS.iter().filter(|m| m.family == Family::Primary).count(), 1);
    }

    #[test]
    fn the_description_survives_json() {
        let json = serde_json::to_string(METRICS).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Metric>>(&json).unwrap(), METRICS);
    }
}
