//! One experiment on disk: its blocks so far, and the result made of them after each block.
//!
//! A recording does not care in which order blocks arrive, from how many threads, processes or computers: the result
//! lists them by number. That is what makes shards and resumed runs the same as undivided ones.

use std::collections::BTreeMap;

use plan::{RunPlan, RunRecord, RunStatus};
use serde::{Deserialize, Serialize};

use crate::exit::Error;
use crate::experiment::Experiment;
use crate::host::Fingerprint;
use crate::result::{ResultFile, SCHEMA};
use crate::store::Store;

/// The schema of `manifest.json`.
pub const MANIFEST_SCHEMA: &str = "vmmlab.manifest/1";

/// Where an experiment runs and how it was asked for: what the result says beside the measurements.
#[derive(Debug, Clone)]
pub struct Context {
    /// The command that reproduces it.
    pub command: String,
    /// When it began, UTC.
    pub started: String,
    /// The host.
    pub host: Fingerprint,
}

/// `manifest.json`: what was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// The command that reproduces it.
    pub command: String,
    /// When it began, UTC.
    pub started: String,
    /// `kvm` or `sim`.
    pub engine: String,
    /// The question.
    pub experiment: Experiment,
    /// Its digest.
    pub experiment_digest: String,
    /// The modes of each block in their order.
    pub order: Vec<Vec<String>>,
}

/// `environment.json`: where it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Always `vmmlab.environment/1`.
    pub schema: String,
    /// The host.
    pub host: Fingerprint,
    /// Versions of what runs it.
    pub versions: BTreeMap<String, String>,
}

/// An experiment and the blocks that were recorded.
#[derive(Debug)]
pub struct Recording {
    store: Store,
    /// Everything but runs and summary.
    header: ResultFile,
    blocks: BTreeMap<u32, Vec<RunRecord>>,
}

impl Recording {
    /// Begins one in `store`, or goes on with what is there: blocks that are missing, damaged or cut are left to be run.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn open(engine: &str, experiment: Experiment, context: Context, store: Store) -> Result<Self, Error> {
        let header = header(engine, experiment, context);
        store.write_json("manifest.json", &manifest(&header))?;
        let (host, versions) = (header.host.clone(), header.versions.clone());
        store.write_json("environment.json", &Environment { schema: "vmmlab.environment/1".into(), host, versions })?;
        let read = |block| Some((block, whole_block(&header.experiment, block, &store)?));
        let blocks = (0..header.experiment.blocks).filter_map(read);
        let blocks = blocks.map(|(block, records)| (block, records.into_iter().map(without_raw).collect())).collect();
        Ok(Self { store, header, blocks })
    }

    /// What is asked.
    #[must_use]
    pub fn experiment(&self) -> &Experiment {
        &self.header.experiment
    }

    /// The name of the engine.
    #[must_use]
    pub fn engine(&self) -> &str {
        &self.header.engine
    }

    /// Where it is.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// True if that block is there, whole.
    #[must_use]
    pub fn has(&self, block: u32) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Records a block, or what there is of it, on disk and in the result.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn add(&mut self, block: u32, records: Vec<RunRecord>) -> Result<(), Error> {
        self.add_quietly(block, records)?;
        self.write_result()
    }

    /// The same, without writing the result yet.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn add_quietly(&mut self, block: u32, records: Vec<RunRecord>) -> Result<(), Error> {
        if !records.is_empty() {
            self.store.write_json(&block_file(block), &records)?;
            self.blocks.insert(block, records.into_iter().map(without_raw).collect());
        }
        Ok(())
    }

    /// Writes the result of what there is.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write_result(&self) -> Result<(), Error> {
        self.store.write_json("result.json", &self.result())
    }

    /// The result of what there is.
    #[must_use]
    pub fn result(&self) -> ResultFile {
        let mut result = self.header.clone();
        result.runs = self.blocks.values().flatten().cloned().collect();
        let complete = result.runs.len() == result.experiment.plans.len() * result.experiment.blocks as usize;
        result.status = status(&result.runs, complete);
        result.summarize();
        result
    }
}

/// The file of a block.
#[must_use]
pub fn block_file(block: u32) -> String {
    format!("blocks/{block:04}.json")
}

/// The records of a block as they are on disk, if all of them are there, whole.
#[must_use]
pub fn whole_block(experiment: &Experiment, block: u32, store: &Store) -> Option<Vec<RunRecord>> {
    let records: Vec<RunRecord> = store.read_json(&block_file(block)).ok()?;
    let planned = experiment.block(block);
    let is_of = |plan: &RunPlan, run: &RunRecord| {
        (&plan.mode, plan.block, plan.seed) == (&run.mode, run.block, run.seed) && run.status != RunStatus::Partial
    };
    let all = planned.len() == records.len() && planned.iter().zip(&records).all(|(plan, run)| is_of(plan, run));
    all.then_some(records)
}

/// The versions of what runs experiments here.
#[must_use]
pub fn versions() -> BTreeMap<String, String> {
    BTreeMap::from([("vmmlab".into(), env!("CARGO_PKG_VERSION").into())])
}

/// A failed check outweighs an early end; both outweigh success.
fn status(runs: &[RunRecord], complete: bool) -> RunStatus {
    let any = |status| runs.iter().any(|run| run.status == status);
    if any(RunStatus::Failed) {
        RunStatus::Failed
    } else if any(RunStatus::Partial) || !complete {
        RunStatus::Partial
    } else {
        RunStatus::Ok
    }
}

/// Whole histograms stay in the block's file; the result has their figures.
fn without_raw(mut record: RunRecord) -> RunRecord {
    for histogram in record.histograms.values_mut() {
        histogram.hdr_v2_hex = None;
    }
    record
}

fn header(engine: &str, experiment: Experiment, context: Context) -> ResultFile {
    ResultFile {
        schema: SCHEMA.into(),
        status: RunStatus::Partial,
        engine: engine.into(),
        seed: experiment.seed,
        command: context.command,
        started: context.started,
        experiment_digest: experiment.digest(),
        experiment,
        host: context.host,
        versions: versions(),
        runs: Vec::new(),
        summary: Vec::new(),
    }
}

fn manifest(result: &ResultFile) -> Manifest {
    let names = |block| result.experiment.block(block).into_iter().map(|plan| plan.mode).collect();
    Manifest {
        schema: MANIFEST_SCHEMA.into(),
        command: result.command.clone(),
        started: result.started.clone(),
        engine: result.engine.clone(),
        experiment: result.experiment.clone(),
        experiment_digest: result.experiment_digest.clone(),
        order: (0..result.experiment.blocks).map(names).collect(),
    }
}
