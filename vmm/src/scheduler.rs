//! Which scheduler a run has, and what it contributes to the record.

use hdrhistogram::Histogram;
use plan::{CpuList, EngineError, Failure, HistogramSummary, RunPlan, RunRecord, Sched, metric};

use crate::cgroup::RunCgroup;
use crate::dispatch::{Lab, LabConfig, LabStats, ReplayError};
use crate::guests::Guests;
use crate::sched::{HostSched, PreemptNotifier, VcpuSched};
use crate::sync::Arc;

/// The scheduler of a run.
#[derive(Debug)]
pub enum Scheduler {
    /// The kernel's own.
    Host(HostSched),
    /// The lab's.
    Lab {
        /// The dispatcher.
        lab: Box<Lab>,
        /// What the user should know about how it was made.
        notices: Vec<String>,
    },
}

impl Scheduler {
    /// Makes the scheduler that `plan` asks for; `replay`: the lab's is recorded, played back and checked.
    ///
    /// # Errors
    /// If the plan asks for a cgroup that cannot be had, or for a configuration that the lab refuses.
    pub fn new(plan: &RunPlan, guests: &Arc<Guests>, replay: bool) -> Result<Self, EngineError> {
        let cells = Arc::clone(&guests.cells);
        let notifier: Arc<dyn PreemptNotifier> = Arc::clone(guests) as _;
        if plan.sched == Sched::Host {
            return Ok(Self::Host(HostSched::new(cells, notifier)));
        }
        let mut notices = Vec::new();
        let cgroup = cgroup(plan, &mut notices)?.map(Arc::new);
        let config = LabConfig { record: replay, ..LabConfig::of(plan, cgroup) };
        let lab = Lab::new(config, cells, notifier).map_err(|error| EngineError::Internal {
            what: "making the lab's scheduler".into(),
            source: Some(Box::new(error)),
        })?;
        Ok(Self::Lab { lab: Box::new(lab), notices })
    }

    /// As the vCPU threads see it.
    #[must_use]
    pub fn vcpu_sched(&self) -> &dyn VcpuSched {
        match self {
            Self::Host(host) => host,
            Self::Lab { lab, .. } => lab.as_ref(),
        }
    }

    /// What it has counted so far; `None` where the kernel counts.
    #[must_use]
    pub fn stats(&self) -> Option<LabStats> {
        match self {
            Self::Host(_) => None,
            Self::Lab { lab, .. } => Some(lab.stats()),
        }
    }

    /// Looks again at what users may change from outside during a run: the gang flags.
    pub fn refresh(&self) {
        if let Self::Lab { lab, .. } = self {
            lab.refresh_gangs();
        }
    }

    /// Adds to a record what holds for the whole run: settings, placement, notices, the scheduler's own failure.
    pub fn describe(&self, record: &mut RunRecord) {
        let Self::Lab { lab, notices } = self else { return };
        record.settings.extend(lab.settings().into_iter().map(|(name, value)| (name.to_owned(), value)));
        record.placement.gang_span = lab.gang_spans();
        record.placement.last_cpu = lab.last_cpus();
        record.notices.extend_from_slice(notices);
        if let Some(why) = lab.failure() {
            record.failures.push(Failure { check: "scheduler".into(), message: why.to_owned() });
        }
        let most = lab.in_run_max();
        if most > 1 {
            let message = format!("{most} threads of one CPU were in KVM_RUN at once; only one may be");
            record.failures.push(Failure { check: "scheduler".into(), message });
        }
        if let Err(violation) = lab.check() {
            record.failures.push(Failure { check: "scheduler".into(), message: violation.to_string() });
        }
        match lab.replay() {
            Ok(replayed) => {
                record.counters.insert("replayed_steps".into(), replayed.steps);
                record.counters.insert("replayed_picks".into(), replayed.picks);
                record.counters.insert("replayed_wakes".into(), replayed.wakes);
            }
            Err(ReplayError::NotRecorded) => {}
            Err(error) => record.failures.push(Failure { check: "replay".into(), message: error.to_string() }),
        }
    }

    /// Adds to a record what it counted in the measured time, between two readings of [`Scheduler::stats`].
    pub fn measured(&self, from: Option<&LabStats>, to: Option<&LabStats>, record: &mut RunRecord) {
        let (Self::Lab { lab, .. }, Some(from), Some(to)) = (self, from, to) else { return };
        let stats = to.since(from);
        record.counters.extend(stats.counters.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        let mut add = |name: &str, values: &Histogram<u64>| {
            record.histograms.insert(name.to_owned(), HistogramSummary::of(values));
        };
        add(metric::RUNQUEUE_WAIT, &stats.runqueue_wait);
        add(metric::DISPATCH, &stats.dispatch);
        add("hand_over", &stats.hand_over);
        if record.axes.host_policy.is_gang() {
            record.gang_coverage = stats.coverage();
        }
        record.notices.extend(lab.notices(&stats));
    }
}

/// The run's cgroups: those that the plan names, else those of this process where they can be had.
fn cgroup(plan: &RunPlan, notices: &mut Vec<String>) -> Result<Option<RunCgroup>, EngineError> {
    let gang = plan.axes.host_policy.is_gang();
    match (RunCgroup::create(plan.cgroup.as_deref(), plan.vms, plan.neighbour.count(), gang), &plan.cgroup) {
        (Ok(cgroup), _) => Ok(Some(cgroup)),
        (Err(error), Some(path)) => {
            Err(EngineError::BadPlan(format!("--cgroup {} cannot be used: {}", path.display(), chain(&error))))
        }
        (Err(error), None) => {
            if gang {
                notices.push(format!("gangs are the VMs, not cgroups: {}", chain(&error)));
            }
            Ok(None)
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The CPUs that the thread of a vCPU may use where the kernel schedules it: one if pinned, else all of the run.
#[must_use]
pub fn host_affinity(pcpus: &CpuList, pin: bool, vcpu: u32) -> Vec<u32> {
    let cpus = pcpus.as_slice();
    if pin { vec![cpus[vcpu as usize % cpus.len()]] } else { cpus.to_vec() }
}

/// Binds the calling thread to `cpus`.
///
/// # Errors
/// The errno of `sched_setaffinity`.
pub fn bind_self(cpus: &[u32]) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
