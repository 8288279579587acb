//! Runs blocks: one after the other on KVM, on all cores in the simulator; everything is written after each block.
//!
//! ```text
//!   jobs    (experiment, block), in a fixed order        block 0 of A, of B, ..., block 1 of A, of B, ...
//!   thread  takes the next job, runs its modes in their order, hands the records to the experiment's recording
//! ```
//! A job does not know on which thread it runs or what runs beside it, and a recording lists blocks by number: with an
//! engine whose runs are reproducible, the result does not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use plan::{Engine, EngineError, Failure, RunPlan, RunRecord, RunStatus};

use crate::exit::{Error, Exit};
use crate::experiment::Experiment;
use crate::interrupt::Stop;
use crate::recording::Recording;
use crate::result::ResultFile;

/// An engine that may be asked from several threads.
pub type SharedEngine<'a> = &'a (dyn Engine + Sync);

/// An experiment, where its blocks go, and what runs them.
#[derive(Debug)]
pub struct Work {
    recording: Mutex<Recording>,
    experiment: Experiment,
}

impl Work {
    /// Work on that recording.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        Self { experiment: recording.experiment().clone(), recording: Mutex::new(recording) }
    }

    /// What is asked.
    #[must_use]
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The result of what there is.
    #[must_use]
    pub fn result(&self) -> ResultFile {
        lock(&self.recording).result()
    }
}

/// A block of one of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Which experiment, as an index.
    pub work: usize,
    /// Which block.
    pub block: u32,
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// What broke the engine, if it broke.
    pub error: Option<EngineError>,
    /// True if it was stopped from outside.
    pub interrupted: bool,
}

/// What came of one experiment.
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
        exit(self.interrupted, std::iter::once(self.result.status))
    }
}

/// The exit code of results of these states.
pub fn exit(interrupted: bool, mut results: impl Iterator<Item = RunStatus>) -> Exit {
    match interrupted {
        true => Exit::Interrupted,
        false if results.any(|status| status == RunStatus::Failed) => Exit::Failed,
        false => Exit::Ok,
    }
}

/// Told of what happens; for progress on stderr. Calls come one at a time, from any thread.
pub trait Observer: Send {
    /// A run has ended.
    fn run_done(&mut self, experiment: &Experiment, record: &RunRecord);
    /// A block is complete and on disk.
    fn block_done(&mut self, job: Job, experiment: &Experiment, records: &[RunRecord]);
}

/// Runs the blocks of one experiment that are not there yet.
///
/// # Errors
/// When the run directory cannot be written.
pub fn run(
    engine: SharedEngine<'_>,
    recording: Recording,
    threads: usize,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let missing = (0..recording.experiment().blocks).filter(|block| !recording.has(*block));
    let jobs: Vec<_> = missing.map(|block| Job { work: 0, block }).collect();
    let work = [Work::new(recording)];
    let Ended { error, interrupted } = run_jobs(&[engine], &work, &jobs, threads, stop, observer)?;
    let [work] = work;
    Ok(Outcome { result: work.result(), error, interrupted })
}

/// Runs `jobs` on `threads` threads until their end, a stop, or a broken engine. Runs that fail their own checks do not
/// end it: the other modes and blocks are worth knowing. `engines[i]` runs `work[i]`.
///
/// # Errors
/// When a run directory cannot be written.
pub fn run_jobs(
    engines: &[SharedEngine<'_>],
    work: &[Work],
    jobs: &[Job],
    threads: usize,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<Ended, Error> {
    let next = AtomicUsize::new(0);
    let observer = Mutex::new(observer);
    let broken: Mutex<(Option<EngineError>, Option<Error>)> = Mutex::default();
    let worker = || {
        while !stop.asked() && matches!(*lock(&broken), (None, None)) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let (Some(engine), Some(work)) = (engines.get(job.work), work.get(job.work)) else { break };
            let (records, error) = block(*engine, &work.experiment, job.block, stop, &observer);
            let whole = records.len() == work.experiment.plans.len() && !stop.control().aborted();
            let added = lock(&work.recording).add(job.block, records.clone());
            if whole && added.is_ok() {
                lock(&observer).block_done(*job, &work.experiment, &records);
            }
            let mut broken = lock(&broken);
            broken.0 = broken.0.take().or(error);
            broken.1 = broken.1.take().or(added.err());
        }
    };
    if threads <= 1 {
        worker();
    } else {
        thread::scope(|scope| {
            for _ in 0..threads.min(jobs.len()) {
                scope.spawn(worker);
            }
        });
    }
    match broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, Some(error)) => Err(error),
        (error, None) => Ok(Ended { error, interrupted: stop.asked() }),
    }
}

/// Runs the modes of a block in their order.
fn block(
    engine: SharedEngine<'_>,
    experiment: &Experiment,
    block: u32,
    stop: &Stop,
    observer: &Mutex<&mut dyn Observer>,
) -> (Vec<RunRecord>, Option<EngineError>) {
    let mut records = Vec::new();
    for plan in experiment.block(block) {
        if stop.control().aborted() {
            break;
        }
        match engine.run(&plan, stop.control()) {
            Ok(record) => {
                let record = injected(&plan, record);
                lock(observer).run_done(experiment, &record);
                records.push(record);
            }
            Err(broken) => return (records, Some(broken)),
        }
    }
    (records, None)
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

/// What a panicking thread leaves behind is still whole: it is changed in single steps.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
