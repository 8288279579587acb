//! What to run: a host, groups, and tasks with programs.
use crate::config::{Config, SettingError};
use crate::entity::SchedPolicy;
use crate::host::{HostError, Limits};
use crate::ids::{Nanos, VmId};
use crate::topology::{BuildOptions, CpuSet, Machine, MachineError, TextError};
use crate::weight::Nice;
use crate::{GroupError, Host, TaskError};

/// The instant at which scenarios start on the scheduler's clock: the golden kernel had been up for 1 s.
pub(super) const EPOCH: Nanos = Nanos(1_000_000_000);

/// One step of a program. All but `Run`, `Sleep` and `Wait` take no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Uses the CPU for so many ns.
    Run(u64),
    /// Blocks for so many ns.
    Sleep(u64),
    /// Blocks until woken; a wake-up that came earlier counts.
    Wait,
    /// Wakes a task, by its index.
    Wake(usize),
    /// Wakes a task and announces to block soon (`WF_SYNC`).
    WakeSync(usize),
    /// `sched_yield`.
    Yield,
    /// A pause-loop exit: yields to a vCPU of the same VM, if the host's policy finds one.
    Spin,
    /// Ends.
    Exit,
}

/// A group: index of its parent among the groups (`None` is the root group), and its shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// Index of the parent.
    pub parent: Option<usize>,
    /// Shares.
    pub shares: u64,
}

/// A task and its program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskPlan {
    /// Nice level.
    pub nice: Nice,
    /// Scheduling policy.
    pub policy: SchedPolicy,
    /// Index of its group; `None` is the root group.
    pub group: Option<usize>,
    /// The VM whose vCPU it is.
    pub vm: Option<VmId>,
    /// When it starts.
    pub start_ns: u64,
    /// Where; `None` is where fork balancing on CPU 0 puts it.
    pub start_cpu: Option<u32>,
    /// CPUs that it may use; `None` is all.
    pub affinity: Option<CpuSet>,
    /// The steps.
    pub program: Vec<Step>,
    /// The step that follows the last; beyond the end, the task exits.
    pub loop_from: usize,
}

impl TaskPlan {
    /// A task that runs for ever.
    #[must_use]
    pub fn hog() -> Self {
        Self::repeat([Step::Run(1_000_000_000_000_000)])
    }

    /// A nice-0 task that starts at once on CPU 0 and repeats these steps.
    #[must_use]
    pub fn repeat(program: impl Into<Vec<Step>>) -> Self {
        Self {
            nice: Nice::default(),
            policy: SchedPolicy::Normal,
            group: None,
            vm: None,
            start_ns: 0,
            start_cpu: Some(0),
            affinity: None,
            program: program.into(),
            loop_from: 0,
        }
    }

    /// The same task in a group.
    #[must_use]
    pub fn in_group(self, group: usize) -> Self {
        Self { group: Some(group), ..self }
    }

    /// The same task, started on a CPU.
    #[must_use]
    pub fn on_cpu(self, cpu: u32) -> Self {
        Self { start_cpu: Some(cpu), ..self }
    }

    /// The same task, pinned to a CPU and started there.
    #[must_use]
    pub fn pinned(self, cpu: u32) -> Self {
        Self { affinity: Some(CpuSet::of(crate::CpuId(cpu))), ..self.on_cpu(cpu) }
    }
}

/// A whole scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Ticks per second.
    pub hz: u64,
    /// The machine, as text (`2s:4c`).
    pub machine: String,
    /// How long.
    pub duration_ns: u64,
    /// CPU c ticks so many ns times c after CPU 0.
    pub tick_skew_ns: u64,
    /// Sysctls other than the defaults.
    pub sysctls: Vec<(String, i64)>,
    /// Features other than the defaults.
    pub features: Vec<(String, bool)>,
    /// Groups, parents before children.
    pub groups: Vec<GroupSpec>,
    /// Tasks.
    pub tasks: Vec<TaskPlan>,
}

impl Scenario {
    /// An empty scenario on that machine at HZ = 1000.
    #[must_use]
    pub fn on(machine: &str, duration_ns: u64) -> Self {
        Self {
            hz: 1000,
            machine: machine.to_owned(),
            duration_ns,
            tick_skew_ns: 0,
            sysctls: Vec::new(),
            features: Vec::new(),
            groups: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Length of a tick.
    pub(super) fn tick_ns(&self) -> u64 {
        1_000_000_000 / self.hz
    }

    /// The host of the scenario, idle and with its groups still to be made.
    ///
    /// # Errors
    /// Anything in the scenario that the host refuses.
    pub fn host(&self) -> Result<Host, ScenarioError> {
        let machine: Machine = self.machine.parse()?;
        let cpus = machine.online().weight();
        let mut config = Config { tick: Nanos(self.tick_ns()), epoch: EPOCH, ..Config::for_cpus(cpus) };
        config.set_sysctls(cpus, self.sysctls.iter().map(|(n, v)| (n.as_str(), *v)))?;
        for (name, on) in &self.features {
            config.set_feature(name, *on)?;
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let limits = Limits { tasks: count(self.tasks.len().max(1)), groups: count(self.groups.len() + 1) };
        Ok(Host::new(config, machine, BuildOptions::default(), limits)?)
    }
}

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The machine's text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A task.
    #[error("task {0}: {1}")]
    Task(usize, TaskError),
    /// A step that names a task or group that is not there.
    #[error("task {task} names {what} {index}, of which there are {count}")]
    Missing {
        /// The task.
        task: usize,
        /// Kind of thing.
        what: &'static str,
        /// Its index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// HZ out of range.
    #[error("hz is {0}: it must be from 1 to 1000000000")]
    Hz(u64),
}
