//! One run: one mode in one block.

use std::num::NonZero;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mode::named;
use crate::workload::PARAMS;
use crate::{Axes, CpuList, Lock, Mode, ModeError, Neighbour, Workload, WorkloadParams};

named! {
    /// Who schedules the vCPU threads.
    Sched, "scheduler" {
        /// The lab's dispatcher, driven by `hostsched`.
        Lab = "lab",
        /// The kernel that the lab runs on.
        Host = "host",
    }
}

named! {
    /// A fault put in on purpose, which the run's own checks must catch.
    Inject, "fault" {
        /// The flush handler acknowledges without flushing.
        LostFlush = "lost-flush",
        /// Frames are free as soon as their flush has ended, whoever still walks the page tables (workload gup).
        EarlyFree = "early-free",
    }
}

/// Everything that decides a run. Two equal plans on one engine and host are the same experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPlan {
    /// The mode's name as it stands in tables; the axes decide.
    pub mode: String,
    /// The four axes.
    pub axes: Axes,
    /// Number of VMs.
    pub vms: u32,
    /// vCPUs of each VM.
    pub vcpus: u32,
    /// The host CPUs that the run may use.
    pub pcpus: CpuList,
    /// Who schedules.
    pub sched: Sched,
    /// A gang's span is the smallest domain with at least this many CPUs.
    pub gang_cpus: u32,
    /// Scheduler ticks a second.
    pub hz: u32,
    /// `sched_latency` in ns; `None`: as Linux scales it by CPUs.
    pub sched_latency_ns: Option<u64>,
    /// `sched_min_granularity` in ns; `None`: as Linux scales it by CPUs.
    pub sched_min_granularity_ns: Option<u64>,
    /// `sched_wakeup_granularity` in ns; `None`: as Linux scales it by CPUs.
    pub sched_wakeup_granularity_ns: Option<u64>,
    /// Cycles of spinning after which the guest's spin hint (or the processor) tells the host.
    pub ple_window_cycles: u64,
    /// Iterations that `halt-kick` and `pvflush` spin before they halt.
    pub spin_budget: u32,
    /// Measured time of the run, after the warm-up.
    pub duration_ns: u64,
    /// Time at the start that is not measured.
    pub warmup_ns: u64,
    /// What the guest does.
    pub workload: Workload,
    /// Its constants.
    pub params: WorkloadParams,
    /// How its spinlocks wait.
    #[serde(default)]
    pub lock: Lock,
    /// Who else uses the CPUs.
    #[serde(default, skip_serializing_if = "Neighbour::is_none")]
    pub neighbour: Neighbour,
    /// Fault put in on purpose.
    pub inject: Option<Inject>,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// Which block of the experiment this run belongs to, from 0.
    pub block: u32,
    /// Delegated cgroup v2 directory for the gangs; `None`: look for a writable hierarchy.
    pub cgroup: Option<std::path::PathBuf>,
}

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number outside its range.
    #[error("{flag} {value} is out of range: it takes {min} to {max}")]
    Range {
        /// The command line's name of the field.
        flag: &'static str,
        /// The value that was given.
        value: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A time outside its range.
    #[error("{flag} {} is out of range: it takes {} to {}", format_ns(*.value_ns), format_ns(*.min_ns), format_ns(*.max_ns))]
    TimeRange {
        /// The command line's name of the field.
        flag: &'static str,
        /// The time that was given.
        value_ns: u64,
        /// Shortest allowed.
        min_ns: u64,
        /// Longest allowed.
        max_ns: u64,
    },
    /// Nothing would be measured.
    #[error(
        "--duration {} is below the --warmup of {}: measure at least as long as you warm up",
        format_ns(*.duration_ns), format_ns(*.warmup_ns)
    )]
    TooShort {
        /// Measured time.
        duration_ns: u64,
        /// Unmeasured time.
        warmup_ns: u64,
    },
    /// More vCPUs than any host runs.
    #[error("--vms {vms} x --vcpus {vcpus} are {} vCPUs, more than {max}: lower one of them", u64::from(*.vms) * u64::from(*.vcpus))]
    TooManyVcpus {
        /// VMs.
        vms: u32,
        /// vCPUs of each.
        vcpus: u32,
        /// Most in all.
        max: u64,
    },
    /// More guest threads than a run keeps in mind.
    #[error(
        "--workload {workload} would have {threads} threads in all VMs together, more than {max}: lower --vms or its --param"
    )]
    TooManyThreads {
        /// The workload.
        workload: Workload,
        /// Threads.
        threads: u64,
        /// Most in all.
        max: u64,
    },
    /// A way to lock, and nothing that is locked.
    #[error("--lock {lock} changes nothing in workload {workload}, which takes no spinlocks; leave it out")]
    NoLocks {
        /// The way.
        lock: Lock,
        /// The workload.
        workload: Workload,
    },
    /// Frames are to be freed under walkers, and nobody walks.
    #[error("--inject early-free acts on walkers, and workload {0} has none: take --workload gup")]
    NoWalks(Workload),
    /// The axes contradict each other.
    #[error(transparent)]
    Axes(#[from] ModeError),
}

/// A time in the largest unit that shows it whole: `3s`, `1500us`.
#[must_use]
pub fn format_ns(ns: u64) -> String {
    let units = [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit)).unwrap_or((1, "ns"));
    format!("{}{name}", ns / unit)
}

impl RunPlan {
    /// The largest number of vCPUs of a VM: one bit each in the guest's 64-bit masks.
    pub const VCPUS_MAX: u32 = 64;
    /// The largest number of VMs of a run.
    pub const VMS_MAX: u32 = 256;

    /// The largest number of vCPUs of a run, each of which is a host thread.
    pub const VCPUS_TOTAL_MAX: u64 = 4096;
    /// The largest number of guest threads of a run.
    pub const THREADS_TOTAL_MAX: u64 = 131_072;

    /// A plan to start from, for tests, benchmarks and examples: 2 VMs of 8 vCPUs on CPUs 0 and 1, everything else as the
    /// command line has it by default. A new field needs a value here and where options are read, nowhere else.
    #[must_use]
    pub fn sample(mode: Mode) -> Self {
        Self {
            mode: mode.to_string(),
            axes: mode.axes(),
            vms: 2,
            vcpus: 8,
            pcpus: CpuList::first(NonZero::<u32>::MIN.saturating_add(1)),
            sched: Sched::Lab,
            gang_cpus: 2,
            hz: 1000,
            sched_latency_ns: None,
            sched_min_granularity_ns: None,
            sched_wakeup_granularity_ns: None,
            ple_window_cycles: 4096,
            spin_budget: 1024,
            duration_ns: 3_000_000_000,
            warmup_ns: 500_000_000,
            workload: Workload::Ebizzy,
            params: WorkloadParams::default(),
            lock: Lock::default(),
            neighbour: Neighbour::None,
            inject: None,
            seed: 0,
            block: 0,
            cgroup: None,
        }
    }

    /// Checks everything that can be checked without looking at the host.
    ///
    /// # Errors
    /// One sentence that names the flag, the value and what would be right.
    pub fn validate(&self) -> Result<(), PlanError> {
        const S: u64 = 1_000_000_000;
        let range = |flag, value: u64, min, max| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(PlanError::Range { flag, value, min, max }) }
        };
        let time_range = |flag, value_ns: u64, min_ns, max_ns| {
            if (min_ns..=max_ns).contains(&value_ns) {
                Ok(())
            } else {
                Err(PlanError::TimeRange { flag, value_ns, min_ns, max_ns })
            }
        };
        range("--vms", self.vms.into(), 1, Self::VMS_MAX.into())?;
        range("--vcpus", self.vcpus.into(), 1, Self::VCPUS_MAX.into())?;
        if u64::from(self.vms) * u64::from(self.vcpus) > Self::VCPUS_TOTAL_MAX {
            let (vms, vcpus, max) = (self.vms, self.vcpus, Self::VCPUS_TOTAL_MAX);
            return Err(PlanError::TooManyVcpus { vms, vcpus, max });
        }
        range("--gang-cpus", self.gang_cpus.into(), 1, 8192)?;
        range("--hz", self.hz.into(), 10, 10_000)?;
        range("--ple-window", self.ple_window_cycles, 1, 1 << 40)?;
        range("--spin-budget", self.spin_budget.into(), 0, 1 << 30)?;
        time_range("--duration", self.duration_ns, 1_000_000, 24 * 3600 * S)?;
        time_range("--warmup", self.warmup_ns, 0, 3600 * S)?;
        // The kernel's own bounds of these sysctls (kernel/sysctl.c, 3.4): 100 us to 1 s, wake-up granularity from 0.
        for (flag, min_ns, value_ns) in [
            ("--sched-latency", 100_000, self.sched_latency_ns),
            ("--sched-min-granularity", 100_000, self.sched_min_granularity_ns),
            ("--sched-wakeup-granularity", 0, self.sched_wakeup_granularity_ns),
        ] {
            time_range(flag, value_ns.unwrap_or(S), min_ns, S)?;
        }
        for info in PARAMS {
            range(info.flag, self.params.get(info.id).unwrap_or_default().into(), info.min.into(), info.max.into())?;
        }
        if self.workload == Workload::Ipi {
            range("--vcpus of workload ipi", self.vcpus.into(), 2, 64)?;
        }
        if self.workload == Workload::Gup {
            range("--vcpus of workload gup", self.vcpus.into(), 2, 64)?;
        } else if self.inject == Some(Inject::EarlyFree) {
            return Err(PlanError::NoWalks(self.workload));
        }
        let threads = u64::from(self.vms) * self.params.threads(self.workload, self.vcpus);
        if threads > Self::THREADS_TOTAL_MAX {
            return Err(PlanError::TooManyThreads { workload: self.workload, threads, max: Self::THREADS_TOTAL_MAX });
        }
        if self.lock != Lock::default() && !self.workload.has_locks() {
            return Err(PlanError::NoLocks { lock: self.lock, workload: self.workload });
        }
        if self.duration_ns < self.warmup_ns {
            return Err(PlanError::TooShort { duration_ns: self.duration_ns, warmup_ns: self.warmup_ns });
        }
        self.axes.validate()?;
        Ok(())
    }
}
