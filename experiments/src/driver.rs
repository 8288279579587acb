//! Runs an experiment: every block in its order, everything written after each block.

use std::collections::BTreeMap;

use plan::{Control, Engine, EngineError, Failure, RunPlan, RunRecord, RunStatus};
use serde::Serialize;

use crate::exit::{Error, Exit};
use crate::experiment::Experiment;
use crate::host::Fingerprint;
use crate::result::{ResultFile, SCHEMA};
use crate::store::Store;

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

/// What came of an experiment.
#[derive(Debug)]
pub struct Outcome {
    /// The result, perhaps partial.
    pub result: ResultFile,
    /// What broke the engine, if it broke.
    pub error: Option<EngineError>,
    /// True if it was stopped from outside.
    pub interrupted: bool,
}

impl Outcome {
    /// The exit code if the engine did not break.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match (self.interrupted, self.result.status) {
            (true, _) => Exit::Interrupted,
            (false, RunStatus::Failed) => Exit::Failed,
            (false, _) => Exit::Ok,
        }
    }
}

/// Told of what happens; for progress on stderr.
pub trait Observer {
    /// A run has ended.
    fn run_done(&mut self, experiment: &Experiment, record: &RunRecord);
    /// A block is complete and on disk.
    fn block_done(&mut self, experiment: &Experiment, block: u32);
}

/// What was asked, for the manifest.
#[derive(Serialize)]
struct Manifest<'a> {
    schema: &'static str,
    command: &'a str,
    started: &'a str,
    engine: &'a str,
    experiment: &'a Experiment,
    experiment_digest: &'a str,
    order: Vec<Vec<String>>,
}

/// Where it runs, for the environment.
#[derive(Serialize)]
struct Environment<'a> {
    schema: &'static str,
    host: &'a Fingerprint,
    versions: &'a BTreeMap<String, String>,
}

/// Runs `experiment` on `engine` until its end, an abort, or a broken engine. Runs that fail their own checks do not
/// end it: the other modes and blocks are worth knowing.
///
/// # Errors
/// When the run directory cannot be written.
pub fn run(
    engine: &dyn Engine,
    experiment: &Experiment,
    context: Context,
    store: &Store,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let mut result = ResultFile {
        schema: SCHEMA.into(),
        status: RunStatus::Partial,
        engine: engine.name().into(),
        seed: experiment.seed,
        command: context.command,
        started: context.started,
        experiment: experiment.clone(),
        experiment_digest: experiment.digest(),
        host: context.host,
        versions: BTreeMap::from([("vmmlab".into(), env!("CARGO_PKG_VERSION").into())]),
        runs: Vec::new(),
        summary: Vec::new(),
    };
    store.write_json("manifest.json", &manifest(&result))?;
    let environment = Environment { schema: "vmmlab.environment/1", host: &result.host, versions: &result.versions };
    store.write_json("environment.json", &environment)?;

    let mut error = None;
    for block in 0..experiment.blocks {
        let mut records = Vec::new();
        for plan in experiment.block(block) {
            if control.aborted() {
                break;
            }
            match engine.run(&plan, control) {
                Ok(record) => {
                    let record = injected(&plan, record);
                    observer.run_done(experiment, &record);
                    records.push(record);
                }
                Err(broken) => {
                    error = Some(broken);
                    break;
                }
            }
        }
        if !records.is_empty() {
            store.write_json(&format!("blocks/{block:04}.json"), &records)?;
        }
        result.runs.extend(records.into_iter().map(without_raw));
        let complete = result.runs.len() == experiment.plans.len() * experiment.blocks as usize;
        result.status = status(&result.runs, complete && error.is_none());
        result.summarize();
        store.write_json("result.json", &result)?;
        if error.is_some() || control.aborted() {
            break;
        }
        observer.block_done(experiment, block);
    }
    let interrupted = control.aborted();
    Ok(Outcome { result, error, interrupted })
}

/// A fault that was put in and that no check has seen is a failure of the checks.
fn injected(plan: &RunPlan, mut record: RunRecord) -> RunRecord {
    if let (Some(fault), RunStatus::Ok) = (plan.inject, record.status) {
        record.status = RunStatus::Failed;
        let message = format!("--inject {fault} was caught by no check; run longer, or do not trust the checks");
        record.failures.push(Failure { check: "inject".into(), message });
    }
    record
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

fn manifest(result: &ResultFile) -> Manifest<'_> {
    let names = |block| result.experiment.block(block).into_iter().map(|plan| plan.mode).collect();
    Manifest {
        schema: "vmmlab.manifest/1",
        command: &result.command,
        started: &result.started,
        engine: &result.engine,
        experiment: &result.experiment,
        experiment_digest: &result.experiment_digest,
        order: (0..result.experiment.blocks).map(names).collect(),
    }
}
