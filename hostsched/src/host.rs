//! What all CPUs share, readable without locks: settings, topology, groups, where each task is, and a summary of each
//! run queue.
//!
//! Units: as in [`crate::ids`]; loads are sums of weights; power in 1/1024 CPU. Problem: balancing looks at every queue
//! of a domain and must not lock any of them. Approach: each [`Rq`](crate::Rq) writes its summary through to the
//! [`CpuPublic`] of its CPU whenever it changes, in relaxed atomics, as the kernel reads `cpu_rq(i)->load.weight` and
//! its neighbours without the lock. In the simulator these are plain loads and stores.
//!
//! What is shared of one CPU, task or group stands in `shared`; everything else about it belongs to one `Rq` and needs it.

mod shared;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::config::{Config, INITIAL_JIFFIES, SdInit};
use crate::effects::Effects;
use crate::ids::{GroupId, Nanos, TaskId, VmId};
use crate::policy::{Hooks, Policy};
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::{BrokenTopology, BuildOptions, CpuId, CpuSet, Machine, SchedDomains, build_sched_domains};
use crate::trace::{NoTrace, Trace};
use crate::weight::NICE_0_LOAD;

pub(crate) use shared::{CPU_LOAD_IDX_MAX, CpuPublic, GroupShared, SgpState, TaskShared};

/// How many tasks and groups a host has room for. Tables are made once, so nothing allocates later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Tasks alive at once.
    pub tasks: u32,
    /// Groups alive at once, the root group included.
    pub groups: u32,
}

/// Why a host cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// The topology is one that a kernel would refuse.
    #[error(transparent)]
    Topology(#[from] BrokenTopology),
    /// Tables without room.
    #[error("a host needs room for at least one task and the root group, not {0:?}")]
    Limits(Limits),
    /// A clock that starts too early.
    #[error("the epoch must be at least 1 s, so that no history reaches below zero, not {0} ns")]
    Epoch(Nanos),
}

/// The shared state of a host.
#[derive(Debug)]
pub struct Host {
    config: Config,
    limits: Limits,
    machine: Machine,
    domains: SchedDomains,
    pub(crate) sgps: Vec<SgpState>,
    cpus: Vec<CpuPublic>,
    pub(crate) tasks: Vec<TaskShared>,
    /// First task of each VM, +1.
    pub(crate) vm_head: Vec<AtomicU32>,
    pub(crate) groups: Vec<GroupShared>,
    jiffies: AtomicU64,
    /// Instant of the next jiffy.
    next_jiffy: AtomicU64,
    policies: Vec<Box<dyn Policy>>,
    hooks: Hooks,
    /// Held while a serialized domain is balanced.
    pub(crate) balancing: AtomicBool,
    build: BuildOptions,
}

impl Host {
    /// A host of that machine with all its on-line CPUs idle.
    ///
    /// # Errors
    /// A topology that a kernel would refuse (unless `build` allows it), no room, an epoch near zero.
    pub fn new(config: Config, machine: Machine, build: BuildOptions, limits: Limits) -> Result<Self, HostError> {
        if limits.tasks == 0 || limits.groups == 0 {
            return Err(HostError::Limits(limits));
        }
        if config.epoch.0 < 1_000_000_000 {
            return Err(HostError::Epoch(config.epoch));
        }
        let mut domains = build_sched_domains(&machine, machine.online(), build)?;
        tune(&config, &mut domains);
        let room = |n: u32| n as usize;
        let host = Self {
            jiffies: INITIAL_JIFFIES.into(),
            next_jiffy: (config.epoch + config.tick).0.into(),
            sgps: sgps(&domains),
            cpus: (0..machine.cpu_slots()).map(|_| CpuPublic::default()).collect(),
            tasks: (0..room(limits.tasks)).map(|_| TaskShared::vacant()).collect(),
            vm_head: (0..room(limits.tasks)).map(|_| AtomicU32::new(0)).collect(),
            groups: (0..room(limits.groups)).map(|_| GroupShared::default()).collect(),
            policies: Vec::new(),
            hooks: Hooks::NONE,
            balancing: AtomicBool::new(false),
            build,
            config,
            limits,
            machine,
            domains,
        };
        host.groups[0].live.store(true, Relaxed);
        host.groups[0].shares.store(NICE_0_LOAD, Relaxed);
        for cpu in &host.cpus {
            cpu.power.store(u64::from(crate::topology::SCHED_POWER_SCALE), Relaxed);
        }
        Ok(host)
    }

    /// Adds a policy. Policies are asked in the order in which they were added.
    pub fn add_policy(&mut self, policy: Box<dyn Policy>) {
        self.hooks = self.hooks.union(policy.hooks());
        self.policies.push(policy);
    }

    /// The policies.
    #[must_use]
    pub fn policies(&self) -> &[Box<dyn Policy>] {
        &self.policies
    }

    /// Lets every policy elect anew.
    pub(crate) fn tell_policies(&mut self, cpu: CpuId, online: bool, now: Nanos) {
        let mut policies = std::mem::take(&mut self.policies);
        for policy in &mut policies {
            policy.cpu_changed(self, cpu, online, now);
        }
        self.policies = policies;
    }

    /// True if some policy wants one of these hooks.
    #[inline]
    pub(crate) fn hooked(&self, hooks: Hooks) -> bool {
        self.hooks.intersects(hooks)
    }

    /// A run queue for every CPU number of the machine, in order.
    #[must_use]
    pub fn run_queues(&self) -> Vec<Rq> {
        (0..self.machine.cpu_slots()).map(|c| Rq::new(self, CpuId(u32::try_from(c).unwrap_or(u32::MAX)))).collect()
    }

    /// The scheduler at the instant `now`, over these queues; effects go to `fx`.
    #[inline]
    pub fn at<'a, Q: RunQueues>(&'a self, now: Nanos, rqs: &'a mut Q, fx: &'a mut Effects) -> Sched<'a, Q, NoTrace> {
        self.traced(now, rqs, fx, NoTrace)
    }

    /// As [`Self::at`], with a trace sink.
    #[inline]
    pub fn traced<'a, Q: RunQueues, T: Trace>(
        &'a self,
        now: Nanos,
        rqs: &'a mut Q,
        fx: &'a mut Effects,
        trace: T,
    ) -> Sched<'a, Q, T> {
        Sched { rqs, cx: Cx { host: self, fx, trace, now } }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings, to change them at run time. `Switches::load_idx` acts on domains that are built later.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// The room for tasks and groups.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The scheduling domains of the CPUs that are on line.
    #[must_use]
    pub fn domains(&self) -> &SchedDomains {
        &self.domains
    }

    /// The CPUs that are on line (`cpu_active_mask`).
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        self.domains.cpu_map()
    }

    #[inline]
    pub(crate) fn cpu(&self, cpu: CpuId) -> &CpuPublic {
        &self.cpus[cpu.index()]
    }

    /// True if the CPU has nothing to do (`idle_cpu`, 3.4), by its published summary.
    #[must_use]
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.cpu(cpu).is_idle()
    }

    /// How many CPUs wake-ups from this one have looked at for an idle one, since the start: each look reads a line that
    /// the other CPU writes.
    #[must_use]
    pub fn idle_asked(&self, cpu: CpuId) -> u64 {
        self.cpu(cpu).idle_asked.load(Relaxed)
    }

    /// Tasks queued or running on the CPU, by its published summary.
    #[must_use]
    pub fn nr_running(&self, cpu: CpuId) -> u32 {
        self.cpu(cpu).nr_running.load(Relaxed)
    }

    /// The task that runs on the CPU, by its published summary.
    #[must_use]
    pub fn current(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpu(cpu).curr_task.load(Relaxed).checked_sub(1).map(TaskId)
    }

    /// The CPU that the task runs on, waits on or ran on last.
    #[must_use]
    pub fn task_cpu(&self, task: TaskId) -> Option<CpuId> {
        self.tasks.get(task.index())?.place().map(|(cpu, _)| cpu)
    }

    /// The group of a task.
    #[must_use]
    pub fn task_group(&self, task: TaskId) -> GroupId {
        GroupId(self.tasks[task.index()].group.load(Relaxed))
    }

    /// The VM of a task.
    #[must_use]
    pub fn task_vm(&self, task: TaskId) -> Option<VmId> {
        self.tasks[task.index()].vm.load(Relaxed).checked_sub(1).map(VmId)
    }

    /// The task of a VM that was added first, of those that are there.
    #[must_use]
    pub fn first_of_vm(&self, vm: VmId) -> Option<TaskId> {
        self.vm_head.get(vm.index())?.load(Relaxed).checked_sub(1).map(TaskId)
    }

    /// The task after `task` among those of its VM, in the order in which they were added, round and round.
    #[must_use]
    pub fn next_of_vm(&self, task: TaskId) -> TaskId {
        TaskId(self.tasks[task.index()].vm_next.load(Relaxed))
    }

    /// The jiffy that the last tick left (`jiffies`).
    #[inline]
    #[must_use]
    pub fn jiffies(&self) -> u64 {
        self.jiffies.load(Relaxed)
    }

    /// Advances `jiffies` to `now`: whole ticks since the epoch. The first CPU that ticks in a jiffy does it.
    #[inline]
    pub(crate) fn advance_jiffies(&self, now: Nanos) {
        let next = self.next_jiffy.load(Relaxed);
        if now.0 < next {
            return;
        }
        let ticks = (now.0 - next) / self.config.tick.0 + 1;
        if self.next_jiffy.compare_exchange(next, next + ticks * self.config.tick.0, Relaxed, Relaxed).is_ok() {
            self.jiffies.fetch_add(ticks, Relaxed);
        }
    }

    /// Replaces the domains by those of the CPUs in `online` (`partition_sched_domains`).
    pub(crate) fn rebuild_domains(&mut self, online: &CpuSet) -> Result<(), BrokenTopology> {
        let mut domains = build_sched_domains(&self.machine, online, self.build)?;
        tune(&self.config, &mut domains);
        self.sgps = sgps(&domains);
        self.domains = domains;
        Ok(())
    }
}

/// Applies [`SdInit`] and [`crate::config::LoadIdx`].
fn tune(config: &Config, domains: &mut SchedDomains) {
    let idx = config.switches.load_idx;
    domains.tune(|p, level, weight| {
        match config.switches.sd_init {
            SdInit::V3_4 => {}
            SdInit::V3_16 => p.init_3_16(level, weight),
            SdInit::V2_6_27 => p.init_2_6_27(level),
        }
        p.busy_idx = idx.busy.unwrap_or(p.busy_idx);
        p.idle_idx = idx.idle.unwrap_or(p.idle_idx);
        p.newidle_idx = idx.newidle.unwrap_or(p.newidle_idx);
        p.wake_idx = idx.wake.unwrap_or(p.wake_idx);
        p.forkexec_idx = idx.forkexec.unwrap_or(p.forkexec_idx);
    });
}

/// The powers that the domains start with.
fn sgps(domains: &SchedDomains) -> Vec<SgpState> {
    let of = |i: usize| u64::from(domains.initial_power(crate::topology::SgpId(u32::try_from(i).unwrap_or(0))));
    let state = |i| SgpState { power: of(i).into(), power_orig: of(i).into(), ..SgpState::default() };
    (0..domains.sgp_slots()).map(state).collect()
}
