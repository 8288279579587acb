//! Soaking: random plans by seed, one after the other, on real guests and in the simulator, for as long as one likes.
//!
//! # Problem
//! Tests run what their authors thought of. What breaks after an hour, or where three rare things meet, is found by running
//! everything with everything, and by looking after each run whether anything was lost or left behind.
//!
//! # Picture
//! ```text
//!   seed n ─► draw     a plan as options of `vmmlab run`: whoever reads a failure can run it, or change it      (draw.rs)
//!              │
//!              ├─► KVM ─► checks of the run itself (stale reads, lost kicks, work lost, watchdog, crash)
//!              └─► sim ─► and from outside: accounts add up, threads, descriptors and cgroups as before         (check.rs)
//!                    ▼
//!                  Summary   vmmlab.soak/1: what was run, what was covered, what failed and how to see it again
//! ```
//! # Properties
//! - A plan is a function of its number and of the number of CPUs: plan k of `--seed N` is plan 0 of `--seed N+k`.
//! - A failure does not end the soak; the exit code tells of it.

mod check;
mod draw;

use std::collections::BTreeMap;

use plan::{RunPlan, RunRecord, metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::{Left, complaints};
pub use draw::draw;

/// The schema of a soak's summary.
pub const SCHEMA: &str = "vmmlab.soak/1";

/// What a soak came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Number of the first plan.
    pub seed: u64,
    /// The command that asks for it.
    pub command: String,
    /// How long it took.
    pub took_s: f64,
    /// True if it was stopped from outside.
    pub interrupted: bool,
    /// Plans that were drawn and run.
    pub plans: u64,
    /// Runs by engine.
    pub engines: BTreeMap<String, u64>,
    /// Runs by mode, whatever flush was drawn for it.
    pub modes: BTreeMap<String, u64>,
    /// Runs by flush strategy.
    pub flush_strategies: BTreeMap<String, u64>,
    /// Runs by workload.
    pub workloads: BTreeMap<String, u64>,
    /// Runs by neighbour.
    pub neighbours: BTreeMap<String, u64>,
    /// Runs by scheduler.
    pub schedulers: BTreeMap<String, u64>,
    /// Flushes that guests completed in the measured times.
    pub flushes: u64,
    /// Kicks that were sent to vCPU threads; consumed and coalesced ones make as many, or the run failed.
    pub kicks: u64,
    /// Reads through stale translations, real and soft TLB.
    pub stale_reads: u64,
    /// Records that guests completed in the measured times.
    pub records: u64,
    /// Time that was simulated or measured, all runs together.
    pub measured_s: f64,
    /// Runs that failed.
    pub failed: Vec<FailedPlan>,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedPlan {
    /// Number of the plan.
    pub seed: u64,
    /// `kvm` or `sim`.
    pub engine: String,
    /// What did not hold: sentences that begin with the name of the check.
    pub complaints: Vec<String>,
    /// The command that soaks this plan alone.
    pub again: String,
    /// The command that runs it, to be changed at will.
    pub run: String,
}

impl Summary {
    /// Nothing yet.
    #[must_use]
    pub fn new(seed: u64, command: String) -> Self {
        Self {
            schema: SCHEMA.into(),
            seed,
            command,
            took_s: 0.0,
            interrupted: false,
            plans: 0,
            engines: BTreeMap::new(),
            modes: BTreeMap::new(),
            flush_strategies: BTreeMap::new(),
            workloads: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            schedulers: BTreeMap::new(),
            flushes: 0,
            kicks: 0,
            stale_reads: 0,
            records: 0,
            measured_s: 0.0,
            failed: Vec::new(),
        }
    }

    /// Counts a run.
    pub fn count(&mut self, engine: &str, plan: &RunPlan, record: &RunRecord) {
        for (counts, name) in [
            (&mut self.engines, engine),
            (&mut self.modes, plan.mode.split('+').next().unwrap_or_default()),
            (&mut self.flush_strategies, plan.axes.flush.name()),
            (&mut self.workloads, plan.workload.name()),
            (&mut self.neighbours, plan.neighbour.name()),
            (&mut self.schedulers, plan.sched.name()),
        ] {
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
        let counted = |name: &str| record.counters.get(name).copied().unwrap_or(0);
        self.flushes = self.flushes.saturating_add(counted(metric::FLUSHES));
        self.kicks = self.kicks.saturating_add(counted(metric::KICKS_SENT));
        self.stale_reads = self.stale_reads.saturating_add(record.stale_reads.saturating_add(record.soft_stale_reads));
        self.records = record.vms.iter().fold(self.records, |sum, vm| sum.saturating_add(vm.records));
        // Nanoseconds of a run are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let seconds = record.duration_ns as f64 / 1e9;
        self.measured_s += seconds;
    }
}
