//! Rank statistics of blocks: how large is a change, how sure is it, and what may be said about it?
//!
//! *Units.* Whatever the caller compares: differences of natural logarithms (0.0953 is +10 %; [`percent`] converts), or plain
//! differences. The unit of analysis is the *block*: one seed in the simulator, one boot of real guests.
//!
//! *Problem.* Blocks on a shared machine are noisy, their errors are neither normal nor equal, and there are 6 to 20 of
//! them. A mean follows the one block in which a neighbour woke up; an interval made of a standard deviation presumes a
//! distribution that nobody has checked; a p-value alone does not tell "equal" from "not enough data".
//!
//! *Approach.*
//! ```text
//!   blocks of both sides ──► signed_rank  paired: same seeds     ──► Test: centre, 95 % and 90 % interval, p
//!                      └───► mann_whitney unpaired: other boots  ──┘      │
//!                                                                         ▼
//!   p of all metrics ──────► multiple     Holm, Benjamini-Hochberg ──► verdict: BETTER WORSE SAME UNCLEAR
//!                                                                         │
//!                                         settle: blocks that would be enough ◄┘
//! ```
//! *Properties.* Exact up to [`EXACT_BLOCKS_MAX`] blocks a side, with ties too: distributions are counted, nothing is
//! drawn at random, so equal data give equal bits. Beyond that the normal approximation stands in, whose error is then below
//! 0.001. The confidence stated is the one reached, at least the one asked for. Below [`BLOCKS_MIN`] blocks there is no
//! interval and no verdict.
#![forbid(unsafe_code)]

mod mann_whitney;
mod multiple;
mod settle;
mod signed_rank;
mod verdict;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

pub use mann_whitney::mann_whitney_p;
pub use multiple::{benjamini_hochberg, holm};
pub use settle::blocks_to_settle;
pub use signed_rank::{log_ratios, signed_rank_p};
pub use verdict::{Better, Margin, Verdict, verdict};

/// The fewest blocks a side with which anything may be concluded: below, no signed-rank test can reach 0.05.
pub const BLOCKS_MIN: usize = 6;

/// Up to this many blocks a side distributions are counted; beyond, they are approximated.
pub const EXACT_BLOCKS_MAX: usize = 100;

/// The chance of a false alarm that is accepted.
pub const ALPHA: f64 = 0.05;

/// The confidence that [`Test::interval`] reaches at least.
pub const CONFIDENCE: f64 = 0.95;

/// The confidence that [`Test::narrow`] reaches at least: two one-sided tests at 5 % (Schuirmann 1987).
pub const CONFIDENCE_EQUIVALENCE: f64 = 0.90;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence reached, 0..1.
    pub confidence: f64,
}

/// What one comparison of one metric gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Hodges-Lehmann centre of the change.
    pub centre: f64,
    /// Interval of at least [`CONFIDENCE`], where there are enough blocks for it.
    pub interval: Option<Interval>,
    /// Interval of at least [`CONFIDENCE_EQUIVALENCE`], where there are enough blocks for it.
    pub narrow: Option<Interval>,
    /// Two-sided p-value of "no change".
    pub p: f64,
    /// The standard error of the centre, if its distribution were normal; `None` where one block says nothing of it.
    pub standard_error: Option<f64>,
    /// Blocks of either side; equal if they are paired.
    pub blocks: [usize; 2],
    /// True if they are paired.
    pub paired: bool,
}

impl Test {
    /// The blocks of the smaller side.
    #[must_use]
    pub fn blocks_min(&self) -> usize {
        self.blocks[0].min(self.blocks[1])
    }
}

/// Runs the tests. Distributions that depend on the number of blocks only are counted once and kept.
#[derive(Debug, Default)]
pub struct Tests {
    signed_rank: signed_rank::Tables,
    mann_whitney: mann_whitney::Tables,
}

impl Tests {
    /// Compares paired blocks by their differences, new minus old; `None` for no blocks.
    #[must_use]
    pub fn paired(&mut self, differences: &[f64]) -> Option<Test> {
        signed_rank::test(&mut self.signed_rank, differences)
    }

    /// Compares blocks that have nothing in common; `None` if either side has none.
    #[must_use]
    pub fn unpaired(&mut self, old: &[f64], new: &[f64]) -> Option<Test> {
        mann_whitney::test(&mut self.mann_whitney, old, new)
    }
}

/// A log ratio as a change in percent.
#[must_use]
pub fn percent(log_ratio: f64) -> f64 {
    log_ratio.exp_m1() * 100.0
}

/// The median; `None` for no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values.to_vec()))
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[middle - 1], *upper) })
}

// Counts here are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn float(count: usize) -> f64 {
    count as f64
}

/// The largest k with 1 - 2 P(statistic <= k) >= `confidence`, and the confidence that it reaches; `None` if even k = 0
/// does not reach it. `probabilities` are those of the statistic's values from 0.
fn critical_value(probabilities: &[f64], confidence: f64) -> Option<(usize, f64)> {
    let mut tail = 0.0;
    let mut best = None;
    for (k, p) in probabilities.iter().enumerate() {
        tail += p;
        // Half of the distribution is the end of every lower tail: beyond it the two ends would cross.
        let reached = 1.0 - 2.0 * tail;
        if reached < confidence || reached <= 0.0 {
            break;
        }
        best = Some((k, reached));
    }
    best
}

/// The same of a statistic of that mean and standard deviation, by the normal distribution.
fn critical_value_normal(mean: f64, deviation: f64, confidence: f64) -> Option<(usize, f64)> {
    let k = (mean - 0.5 - normal_quantile(f64::midpoint(1.0, confidence)) * deviation).floor();
    // Not negative, and far below 2^53: half of the pairs of a few thousand blocks.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (k >= 0.0).then(|| (k as usize, 1.0 - 2.0 * normal_cdf((k + 0.5 - mean) / deviation)))
}

/// Two-sided p-value of a statistic by the normal distribution, with the continuity correction of half a step.
fn p_normal(statistic: f64, mean: f64, deviation: f64, step: f64) -> f64 {
    if deviation <= 0.0 {
        return 1.0;
    }
    let distance = ((statistic - mean).abs() - step / 2.0).max(0.0);
    (2.0 * normal_cdf(-distance / deviation)).min(1.0)
}

fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The z below which a standard normal variable is with probability `p`.
fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// The standard error that an interval stands for, if its centre were normal.
fn standard_error(interval: Interval) -> f64 {
    (interval.high - interval.low) / 2.0 / normal_quantile(f64::midpoint(1.0, interval.confidence))
}

/// The ranks of `values` from 1, doubled so that the mean rank of equal values is whole.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        let end = start + order[start..].iter().take_while(|i| values[**i] == value).count().max(1);
        // Ranks start + 1 to end: twice their mean.
        for i in &order[start..end] {
            ranks[*i] = start + 1 + end;
        }
        start = end;
    }
    ranks
}
