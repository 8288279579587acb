//! `vmmlab.result/1`: the file that scripts and later versions of vmmlab read.
//!
//! Fields are added, never renamed or given another meaning, as long as the number stays 1; a reader ignores what it
//! does not know. `docs/results.md` explains it by example.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::{RunPlan, RunRecord, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{self, Verdict};
use crate::experiment::{Experiment, in_band};
use crate::host::Fingerprint;

/// Largest file that is read: a thousand blocks of ten modes have a tenth of it.
const BYTES_MAX: u64 = 256 << 20;

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
    /// VMs in it; 0 in results of versions that did not write it.
    #[serde(default)]
    pub vms: u32,
    /// Blocks with a run that passed its checks.
    pub blocks: usize,
    /// Median over these blocks; `null` if there are none.
    pub records_per_s: Option<f64>,
    /// Change against the reference mode; `null` for that mode itself and where nothing can be compared.
    pub change: Option<Change>,
    /// With several numbers of VMs: records/s of one VM over those of one VM of the same mode where there are fewest VMs; median
    /// of the ratios in the blocks that have both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<f64>,
}

/// A change of records/s, paired inside the blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The mode that is compared with: one with as many VMs.
    pub against: String,
    /// Hodges-Lehmann centre of the log ratios, in percent; positive is more records.
    pub percent: f64,
    /// Lower and upper end of the exact signed-rank interval, in percent; `null` below 6 blocks.
    pub interval_percent: Option<[f64; 2]>,
    /// The confidence that the interval reaches, 0..1; `null` without an interval.
    pub confidence: Option<f64>,
    /// Blocks in which both modes ran.
    pub blocks: usize,
    /// The verdict, after Holm's correction over all modes of the run.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// For UNCLEAR: blocks that would settle it; `null` if that is more than 1,000.
    #[serde(default)]
    pub blocks_to_settle: Option<usize>,
}

/// Why a result cannot be read. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system refuses.
    #[error("Cannot read {}: {source}; name a run directory or its result.json", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// More than any result has.
    #[error("Cannot read {}: it is larger than the {} MiB that a result may have", .path.display(), BYTES_MAX >> 20)]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// Some other JSON.
    #[error("{} is no {SCHEMA}: its schema is '{found}'", .path.display())]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says that it is.
        found: String,
    },
    /// No JSON, or damaged.
    #[error("{} is no {SCHEMA}, or is damaged: {source}", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was expected, and where.
        source: serde_json::Error,
    },
}

/// Reads a result: a run directory, or its `result.json`. Fields that this version does not know are ignored.
///
/// # Errors
/// One sentence that names the file.
pub fn read(path: &Path) -> Result<ResultFile, ReadError> {
    /// What every version of every schema has.
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }

    let path = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let io = |source| ReadError::Io { path: path.clone(), source };
    let mut bytes = Vec::new();
    File::open(&path).map_err(io)?.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ReadError::TooLarge { path });
    }
    let damaged = |source| ReadError::Damaged { path: path.clone(), source };
    let head: Head = serde_json::from_slice(&bytes).map_err(damaged)?;
    match head.schema {
        Some(schema) if schema == SCHEMA => serde_json::from_slice(&bytes).map_err(damaged),
        other => Err(ReadError::Schema { path, found: other.unwrap_or_else(|| "none".into()) }),
    }
}

impl ResultFile {
    /// Fills in `summary` from `runs`.
    pub fn summarize(&mut self) {
        let changes = compare::primary(self);
        let row = |RunPlan { mode, vms, .. }: &RunPlan| {
            let rates: Vec<f64> = self.good_runs(mode).map(|run| run.records_per_s).collect();
            let change = changes.iter().find(|change| change.mode == *mode).map(|found| found.change.clone());
            let (records_per_s, scaling) = (stats::median(&rates), self.scaling(mode, *vms));
            RowSummary { mode: mode.clone(), vms: *vms, blocks: rates.len(), records_per_s, change, scaling }
        };
        self.summary = self.experiment.plans.iter().map(row).collect();
    }

    /// What [`RowSummary::scaling`] says of a mode.
    fn scaling(&self, mode: &str, vms: u32) -> Option<f64> {
        let fewest = self.experiment.bands().into_iter().min().filter(|_| self.experiment.bands().len() > 1)?;
        let name = in_band(mode, vms);
        let first =
            self.experiment.plans.iter().find(|plan| plan.vms == fewest && in_band(&plan.mode, fewest) == name)?;
        let of_one = |run: &RunRecord, vms: u32| run.records_per_s / f64::from(vms);
        let ratios = self.good_runs(mode).filter_map(|run| {
            let alone = self.good_runs(&first.mode).find(|other| other.block == run.block)?;
            Some(of_one(run, vms) / of_one(alone, fewest)).filter(|ratio| ratio.is_finite())
        });
        stats::median(&ratios.collect::<Vec<_>>())
    }

    /// The runs of a mode that passed their checks and ran their whole time.
    pub(crate) fn good_runs<'a>(&'a self, mode: &'a str) -> impl Iterator<Item = &'a RunRecord> {
        self.runs.iter().filter(move |run| run.mode == mode && run.status == RunStatus::Ok)
    }
}
