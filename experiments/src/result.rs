//! `vmmlab.result/1`: the file that scripts and later versions of vmmlab read.
//!
//! Fields are added, never renamed or given another meaning, as long as the number stays 1; a reader ignores what it
//! does not know. `docs/results.md` explains it by example.

use std::collections::BTreeMap;

use plan::{RunRecord, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::host::Fingerprint;

/// The name of this schema.
pub const SCHEMA: &str = "vmmlab.result/1";

/// Everything that an experiment measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultFile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// `ok`, `failed` (a run failed its checks) or `partial` (stopped before its end).
    pub status: RunStatus,
    /// `kvm` or `sim`.
    pub engine: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The command that reproduces it.
    pub command: String,
    /// When it began, UTC.
    pub started: String,
    /// What was asked.
    pub experiment: Experiment,
    /// SHA-256 of the question: see [`Experiment::digest`].
    pub experiment_digest: String,
    /// Where it ran.
    pub host: Fingerprint,
    /// Versions of what made it.
    pub versions: BTreeMap<String, String>,
    /// The runs in the order in which they were run.
    pub runs: Vec<RunRecord>,
    /// One entry a mode, in the order of the list; derived from `runs`.
    pub summary: Vec<RowSummary>,
}

/// What the table shows of one mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowSummary {
    /// The mode.
    pub mode: String,
    /// Blocks with a run that passed its checks.
    pub blocks: usize,
    /// Median over these blocks; `null` if there are none.
    pub records_per_s: Option<f64>,
    /// Change against the reference mode; `null` for that mode itself and where nothing can be compared.
    pub change: Option<Change>,
}

/// A change of records/s, paired inside the blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The mode that is compared with.
    pub against: String,
    /// Hodges-Lehmann centre of the log ratios, in percent; positive is more records.
    pub percent: f64,
    /// Lower and upper end of the exact signed-rank interval, in percent; `null` below 6 blocks.
    pub interval_percent: Option<[f64; 2]>,
    /// The confidence that the interval reaches, 0..1; `null` without an interval.
    pub confidence: Option<f64>,
    /// Blocks in which both modes ran.
    pub blocks: usize,
}

impl ResultFile {
    /// Fills in `summary` from `runs`.
    pub fn summarize(&mut self) {
        let reference = self.experiment.reference().unwrap_or_default().to_owned();
        let row = |mode: &str| {
            let own = self.good(mode);
            let change = (mode != reference).then(|| change(&own, &self.good(&reference), &reference)).flatten();
            let rates: Vec<f64> = own.values().copied().collect();
            RowSummary { mode: mode.into(), blocks: own.len(), records_per_s: stats::median(&rates), change }
        };
        self.summary = self.experiment.plans.iter().map(|plan| row(&plan.mode)).collect();
    }

    /// Records per second of the good runs of a mode, by block.
    fn good(&self, mode: &str) -> BTreeMap<u32, f64> {
        self.good_runs(mode).map(|run| (run.block, run.records_per_s)).collect()
    }

    /// The runs of a mode that passed their checks and ran their whole time.
    pub(crate) fn good_runs<'a>(&'a self, mode: &'a str) -> impl Iterator<Item = &'a RunRecord> {
        self.runs.iter().filter(move |run| run.mode == mode && run.status == RunStatus::Ok)
    }
}

fn change(own: &BTreeMap<u32, f64>, reference: &BTreeMap<u32, f64>, against: &str) -> Option<Change> {
    let (of, to): (Vec<f64>, Vec<f64>) =
        own.iter().filter_map(|(block, rate)| Some((*rate, *reference.get(block)?))).unzip();
    let found = stats::Tests::default().paired(&stats::log_ratios(&of, &to)?)?;
    Some(Change {
        against: against.into(),
        percent: stats::percent(found.centre),
        interval_percent: found.interval.map(|i| [stats::percent(i.low), stats::percent(i.high)]),
        confidence: found.interval.map(|i| i.confidence),
        blocks: found.blocks_min(),
    })
}
