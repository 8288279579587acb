//! UNCLEAR: how many blocks would settle it?
//!
//! *Approach.* The interval found has a standard error; with n blocks it shrinks by the square root of n. If the centre stays
//! where it is, the smallest n is taken with which, nine times in ten, p falls below alpha (centre beyond the
//! margin) or the 90 % interval fits into the margin (centre inside it). It is advice for planning the next experiment, not a
//! licence to add blocks to this one until it pleases.

use crate::{BLOCKS_MIN, Margin, Test, float, normal_quantile};

/// More blocks than this are not proposed.
const BLOCKS_MAX: usize = 1000;

/// The chance with which the proposed number is enough.
const POWER: f64 = 0.9;

/// The blocks a side that would settle `test`; `None` for more than 1,000, as when the centre lies on the margin.
/// `alpha` is what p has to reach before correction.
#[must_use]
pub fn blocks_to_settle(test: &Test, alpha: f64, margin: Margin) -> Option<usize> {
    let fewest = (BLOCKS_MIN..=BLOCKS_MAX).find(|n| smallest_p(*n, test.paired) < alpha)?;
    let needed = match test.standard_error {
        None => 0.0,
        Some(error) => {
            // Blocks that one block's worth of error is spread over: equal sides are assumed from here on.
            let [old, new] = test.blocks.map(float);
            let blocks = if test.paired { new } else { 2.0 / (1.0 / old + 1.0 / new) };
            let (distance, tail) = if margin.is_beyond(test.centre) {
                (test.centre.abs(), alpha / 2.0)
            } else {
                ((margin.high - test.centre).min(test.centre - margin.low), 0.05)
            };
            let z = normal_quantile(1.0 - tail) + normal_quantile(POWER);
            blocks * (z * error / distance).powi(2)
        }
    };
    // Not negative; what is too large, or NaN for no error over no distance, is cut off.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let needed = needed.ceil().min(float(BLOCKS_MAX) + 1.0) as usize;
    // More than there were: these were not enough.
    Some(needed.max(fewest).max(test.blocks_min() + 1)).filter(|needed| *needed <= BLOCKS_MAX)
}

/// The smallest p that n blocks a side can give.
fn smallest_p(n: usize, paired: bool) -> f64 {
    let ways: f64 =
        if paired { (0..n).map(|_| 2.0).product() } else { (1..=n).map(|i| float(n + i) / float(i)).product() };
    2.0 / ways
}
