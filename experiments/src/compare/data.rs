//! `vmmlab.compare/1`: the data of a comparison. Fields are added, never renamed or given another meaning, as long as the
//! number stays 1. Every page (table, mail, HTML) is made of this and of nothing else.

use std::fmt;

use plan::Axes;
use plan::metric::{Family, Metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Interval;

/// The name of this schema.
pub const SCHEMA: &str = "vmmlab.compare/1";

/// A verdict about one metric, as it stands on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better by more than the margin, and sure.
    Better,
    /// Worse by more than the margin, and sure.
    Worse,
    /// Shown to be equal: any change is inside the margin.
    Same,
    /// Not enough data for any of these.
    Unclear,
    /// Both sides are the same run of the simulator, to the bit.
    Identical,
    /// Changed by more than the margin, and sure; no side of this metric is better.
    Differs,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "BETTER",
            Self::Worse => "WORSE",
            Self::Same => "SAME",
            Self::Unclear => "UNCLEAR",
            Self::Identical => "IDENTICAL",
            Self::Differs => "DIFFERS",
        })
    }
}

/// What all of it comes to; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No primary metric is worse or unclear: exit code 0.
    Ok,
    /// A primary metric is worse, or a new run failed its checks: exit code 1.
    Regression,
    /// A primary metric is unclear, or nothing could be compared: exit code 3.
    Inconclusive,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What it comes to.
    pub outcome: Outcome,
    /// The results that were compared; sides name them by their position here.
    pub inputs: Vec<Input>,
    /// The rules that were applied.
    pub rules: Rules,
    /// What differs between the inputs and was ignored because the user said so.
    pub ignored: Vec<Difference>,
    /// Runs that failed their own checks, and are in no figure.
    pub failed: Vec<FailedRun>,
    /// Every metric that stands in a row, described once.
    pub metrics: Vec<Metric>,
    /// The pairs of modes, each with its rows.
    pub pairs: Vec<Pair>,
    /// What to know when reading it: sentences.
    pub notices: Vec<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Where it was read from; empty for the result of the run that prints this.
    pub path: String,
    /// `kvm` or `sim`.
    pub engine: String,
    /// When it began, UTC.
    pub started: String,
    /// Its seed.
    pub seed: u64,
    /// Blocks that were asked for.
    pub blocks: u32,
    /// The command that reproduces it.
    pub command: String,
    /// Version of vmmlab that made it.
    pub version: String,
}

/// The rules of the verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rules {
    /// The chance of a false alarm that is accepted.
    pub alpha: f64,
    /// The fewest blocks with which there is any verdict.
    pub blocks_min: usize,
    /// Rows over which Holm's correction was made: the primary metrics of all pairs.
    pub holm_over: usize,
    /// Rows over which Benjamini and Hochberg's correction was made: all others.
    pub bh_over: usize,
}

/// One thing in which two inputs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The name that `--ignore` takes: `engine`, `host`, `kernel`, `kvm`, `topology`, `guest` or `experiment`.
    pub what: String,
    /// The field, for readers: `microcode`, `vms`.
    pub field: String,
    /// What the old side has.
    pub old: String,
    /// What the new side has.
    pub new: String,
}

/// A run that failed its own checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRun {
    /// Which input.
    pub input: usize,
    /// True if it belongs to a new side of a pair: then the comparison is a regression.
    pub on_new_side: bool,
    /// Its mode.
    pub mode: String,
    /// Its block.
    pub block: u32,
    /// Its seed.
    pub seed: u64,
    /// The check, and what it found.
    pub failures: Vec<plan::Failure>,
}

/// One side of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Which input.
    pub input: usize,
    /// The mode.
    pub mode: String,
    /// The side in words: the mode, or the part of it.
    pub label: String,
    /// The axes in force.
    pub axes: Option<Axes>,
    /// The blocks with a good run, in order.
    pub blocks: Vec<u32>,
    /// Their seeds.
    pub seeds: Vec<u64>,
}

/// How blocks of both sides belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// Block k of one side belongs to block k of the other: same seed of the simulator, or interleaved in one run.
    Paired,
    /// Nothing in common.
    Unpaired,
}

/// Two modes that are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// What it is compared with.
    pub old: Side,
    /// What is compared.
    pub new: Side,
    /// How the blocks belong together.
    pub design: Design,
    /// True if all blocks are the same simulated runs to the bit: equal digests.
    pub identical: bool,
    /// One row a metric: primary, then cost, then why by effect.
    pub rows: Vec<Row>,
}

impl Pair {
    /// The rows of one band.
    pub fn band(&self, family: Family) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.family == family)
    }
}

/// One metric of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The metric's id; [`Comparison::metric`] finds its description.
    pub metric: String,
    /// Its band.
    pub family: Family,
    /// Values of the old side.
    pub old: Values,
    /// Values of the new side.
    pub new: Values,
    /// The change; `null` where one side has no value, or both are identical.
    pub change: Option<Change>,
    /// The verdict; `null` where nothing can be compared.
    pub verdict: Option<Verdict>,
    /// For UNCLEAR: blocks a side that would settle it; `null` if that is more than 1,000, or not known.
    pub blocks_to_settle: Option<usize>,
    /// Size of the change, 0..1: |new - old| / max(|new|, |old|) of the medians. The WHY band is sorted by it.
    pub effect: f64,
}

/// One metric on one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Values {
    /// Median over the blocks; for exact metrics the largest value.
    pub centre: Option<f64>,
    /// The values of the blocks, in the order of [`Side::blocks`]; `null` where a block has none.
    pub by_block: Vec<Option<f64>>,
}

/// The scale in which a change is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeUnit {
    /// Percent of the old side.
    Percent,
    /// Points: hundredths of a share or an index.
    Points,
    /// The metric's own unit, where a value of 0 makes a ratio impossible.
    Unit,
}

/// A change, new against old. Signs are raw: positive is more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The scale of the numbers below.
    pub unit: ChangeUnit,
    /// Hodges-Lehmann centre.
    pub centre: f64,
    /// Interval of at least 95 %; `null` below 6 blocks and for exact metrics.
    pub interval: Option<Interval>,
    /// Interval of at least 90 %, for equivalence.
    pub narrow: Option<Interval>,
    /// Changes that do not matter: from the first to the second number.
    pub margin: [f64; 2],
    /// Two-sided p-value of "no change"; `null` for exact metrics.
    pub p: Option<f64>,
    /// The same after correction for the other rows: Holm for primary metrics, Benjamini-Hochberg for the others.
    pub p_corrected: Option<f64>,
    /// Blocks in the test, old and new; equal if they are paired.
    pub blocks: [usize; 2],
}

impl Comparison {
    /// The description of a metric.
    #[must_use]
    pub fn metric(&self, id: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}
