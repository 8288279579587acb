//! From a machine and a plan to a world before its first event.
use std::collections::VecDeque;

use hostsched::policy::{GangSettings, PolicySettings, UnknownPolicy, install};
use hostsched::topology::{BuildOptions, CpuSet, Machine as Topology, MachineError};
use hostsched::{
    Birth, Config, CpuId, Effects, GroupError, GroupId, Host, HostError, Limits, Nanos, TaskError, TaskId, TaskSpec,
    VmId,
};
use plan::{Axes, HostPolicy, Inject, RunPlan, Spin, Workload};

use super::cpu::{Activity, Pcpu};
use super::disk::Disk;
use super::lock::{Locking, SpinLock};
use super::{Alarm, EPOCH_NS, TIMERS, Timer, World};
use crate::alarms::Alarms;
use crate::cache::Cache;
use crate::ids::{ThreadId, VcpuId};
use crate::machine::Machine;
use crate::rng::Stream;
use crate::setup::Options;
use crate::spin::exit_after_cycles;
use crate::stats::Stats;
use crate::timers::Timers;
use crate::vcpu::{FlushSlot, Phase, Place, RwSem, Thread, Vcpu, Vm};
use crate::workload::{Load, Program, Shared};

/// Why a plan cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// A CPU that the machine has not.
    #[error("the plan uses CPU {cpu}, which machine '{machine}' does not have: it has {has}")]
    NoCpu { cpu: u32, machine: String, has: CpuSet },
    /// More CPUs than the event queue has slots.
    #[error("the machine has CPU numbers up to {0}; the simulator takes them below {max}", max = Timers::SLOTS_MAX / TIMERS)]
    TooManyCpus(usize),
    /// A run longer than the clock.
    #[error("the run would end after {0} ns of virtual time; the simulator's clock ends at {max} ns", max = Timers::TIME_MAX)]
    TooLong(u64),
    #[error(transparent)]
    Topology(#[from] MachineError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
}

/// Shares of a VM's group: what a cgroup starts with.
const SHARES: u64 = 1024;

impl World {
    /// A world in which nothing has happened.
    pub(crate) fn new(machine: &Machine, plan: &RunPlan, options: Options) -> Result<Self, SetupError> {
        let topology = restricted(machine, plan)?;
        let slots = topology.cpu_slots();
        if slots * TIMERS > Timers::SLOTS_MAX {
            return Err(SetupError::TooManyCpus(slots));
        }
        let last = u64::from(plan.vms - 1);
        let end = EPOCH_NS + 1 + last * options.stagger_ns + plan.warmup_ns + plan.duration_ns;
        if end > Timers::TIME_MAX / 2 {
            return Err(SetupError::TooLong(end));
        }
        let online: Vec<CpuId> = topology.online().iter().collect();
        let llcs: Vec<usize> = topology.cpus().iter().map(|cpu| cpu.llc as usize).collect();
        let mut llc_of = vec![0; slots];
        topology.cpus().iter().for_each(|cpu| llc_of[cpu.id.index()] = cpu.llc as usize);
        let caches = llcs.iter().max().map_or(0, |most| most + 1);
        let mut host = new_host(plan, topology)?;
        host.config_mut().switches.idle_next_balance = options.idle_next_balance;
        let gang = GangSettings { gang_cpus: plan.gang_cpus, guest_mode_told: true, ..GangSettings::default() };
        let kind = plan.axes.host_policy.name().parse()?;
        let notices = install(&mut host, kind, &PolicySettings { gang, ple: options.ple });
        let costs = machine.costs.clone();
        let vms = plan.vms as usize;
        let one_mm = matches!(plan.workload, Workload::Ebizzy | Workload::Flush | Workload::TlbStorm | Workload::Ipi);
        let mut world = Self {
            now: EPOCH_NS,
            timers: Timers::new(slots * TIMERS),
            alarms: Alarms::default(),
            rqs: host.run_queues(),
            host,
            fx: Effects::default(),
            axes: plan.axes,
            options: Options { lost_flush: plan.inject == Some(Inject::LostFlush), ..options },
            params: plan.params.clone(),
            lock: plan.lock,
            contention: if one_mm { costs.contention } else { 0 },
            guest_balances: !one_mm,
            tick_ns: 1_000_000_000 / u64::from(plan.hz),
            guest_tick_ns: 1_000_000_000 / options.guest_hz,
            spin_budget_ns: u64::from(plan.spin_budget) * costs.spin_turn,
            lock_spin_ns: u64::from(plan.params.lock_spins) * costs.spin_turn,
            lock_look_ns: u64::from(abi::lock::LOOK_EVERY) * costs.spin_turn,
            ple_exit_ns: ple_exit_ns(machine, plan, options),
            cpus: llc_of.iter().map(|llc| Pcpu::new(*llc)).collect(),
            present: online.clone(),
            online,
            faults_done: 0,
            caches: vec![Cache::new(vms + plan.neighbour.count() as usize, costs.cache_half_life); caches],
            vms: Vec::new(),
            vcpus: Vec::new(),
            threads: Vec::new(),
            disk: Disk::default(),
            tested: vms,
            nap_due: 0,
            rng: Stream::new(plan.seed, u64::MAX - 1),
            stats: Stats::default(),
            measure_from: EPOCH_NS + plan.warmup_ns,
            notices,
            events: 0,
            digest: plan.seed,
            sinks: Vec::new(),
            costs,
        };
        world.start_ticks();
        for vm in 0..vms {
            world.add_vm(plan, vm, Load::Workload(plan.workload))?;
        }
        if !plan.neighbour.is_none() {
            world.add_vm(&beside(plan), vms, Load::Neighbour(plan.neighbour))?;
        }
        world.add_daemons()?;
        Ok(world)
    }

    /// The ticks of neighbouring CPUs are `tick_skew` apart.
    fn start_ticks(&mut self) {
        for (i, cpu) in self.online.iter().enumerate() {
            self.timers.set(Timer::Tick.slot(*cpu), self.first_tick(i));
        }
    }

    /// When the CPU that is number `at` of the plan's ticks first.
    pub(super) fn first_tick(&self, at: usize) -> u64 {
        EPOCH_NS + self.tick_ns + at as u64 * self.costs.tick_skew % self.tick_ns
    }

    /// The kernel thread of a CPU, asleep.
    pub(super) fn daemon_of(cpu: CpuId) -> TaskSpec {
        TaskSpec { affinity: Some(CpuSet::of(cpu)), cpu, birth: Birth::Boot, blocked: true, ..TaskSpec::default() }
    }

    /// A kernel thread a CPU, asleep; they are numbered after the vCPUs.
    fn add_daemons(&mut self) -> Result<(), SetupError> {
        for cpu in self.online.clone() {
            let mut host = self.host.at(Nanos(self.now), &mut self.rqs, &mut self.fx);
            self.cpus[cpu.index()].daemon = host.task_add(&Self::daemon_of(cpu))?;
        }
        Ok(())
    }

    /// A VM with its vCPUs halted and its threads ready; an alarm starts it.
    fn add_vm(&mut self, plan: &RunPlan, vm: usize, load: Load) -> Result<(), SetupError> {
        let gang = plan.axes.host_policy.is_gang();
        let mut host = self.host.at(Nanos(self.now), &mut self.rqs, &mut self.fx);
        let flat = self.options.flat;
        let group = if flat { GroupId::ROOT } else { host.group_create(GroupId::ROOT, SHARES, gang)? };
        let first = VcpuId::at(self.vcpus.len());
        let births = self.births(plan.vcpus as usize);
        for (number, cpu) in (0..plan.vcpus).zip(births) {
            self.add_vcpu(plan, (vm, load), group, number, cpu)?;
        }
        // Boots a few ms apart, as by hand: equal starts would phase-lock the VMs.
        let jitter = self.rng.below(10_000_000);
        let start = EPOCH_NS + 1 + vm as u64 * self.options.stagger_ns;
        let measure_from = start + plan.warmup_ns;
        let measure_to = measure_from + plan.duration_ns;
        let starts_at = start + jitter.min(plan.warmup_ns);
        self.alarms.push(starts_at, Alarm::Start(vm));
        let shared = Shared::new(load, &plan.params, plan.vcpus);
        self.vms.push(Vm {
            first,
            running: 0,
            mm_mask: 0,
            generation: 0,
            completed: 0,
            mmap_sem: RwSem::default(),
            locks: vec![SpinLock::default(); shared.locks()],
            waits: vec![VecDeque::new(); shared.waits()],
            shared,
            starts_at,
            measure_from,
            measure_to,
            killed: false,
            records: 0,
            stale_reads: 0,
        });
        Ok(())
    }

    /// Where a VM's vCPU threads are born: a new thread goes to the idlest CPU (`SD_BALANCE_FORK`), and its siblings sleep
    /// there before it, so they spread over all CPUs before any gets a second one; which gets which is drawn.
    fn births(&mut self, vcpus: usize) -> Vec<CpuId> {
        let mut births = Vec::with_capacity(vcpus);
        while births.len() < vcpus {
            let mut round = self.online.clone();
            while !round.is_empty() {
                let drawn = usize::try_from(self.rng.below(round.len() as u64)).unwrap_or(0);
                births.push(round.swap_remove(drawn));
            }
        }
        births.truncate(vcpus);
        births
    }

    fn add_vcpu(
        &mut self,
        plan: &RunPlan,
        (vm, load): (usize, Load),
        group: GroupId,
        number: u32,
        born: CpuId,
    ) -> Result<(), SetupError> {
        let pinned = self.online[number as usize % self.online.len()];
        let cpu = if plan.axes.pin { pinned } else { born };
        let v = VcpuId::at(self.vcpus.len());
        let vm_id = VmId(u32::try_from(vm).unwrap_or(u32::MAX));
        let spec = TaskSpec {
            group,
            vm: Some(vm_id),
            affinity: plan.axes.pin.then(|| CpuSet::of(cpu)),
            cpu,
            birth: Birth::Boot,
            blocked: true,
            ..TaskSpec::default()
        };
        let task = self.host.at(Nanos(self.now), &mut self.rqs, &mut self.fx).task_add(&spec)?;
        assert_eq!(task, v.task(), "tasks are numbered as they are added");
        // The threads of a VM are dealt to its vCPUs like cards.
        let roles = (number..load.threads(&plan.params, plan.vcpus)).step_by(plan.vcpus as usize);
        let queue = roles.map(|role| self.add_thread(plan, v, (load, role))).collect();
        self.vcpus.push(Vcpu {
            vm,
            number,
            place: Place::Halted,
            last_cpu: cpu,
            irqs_on: true,
            flush_irqs: 0,
            flush_irq_at: 0,
            resched_irq: false,
            kick: false,
            flush_on_enter: false,
            tlb_generation: 0,
            phase: Phase::Idle,
            remaining: 0,
            busy_until: 0,
            mark: EPOCH_NS,
            ready_since: EPOCH_NS,
            flush: FlushSlot::default(),
            locking: Locking::default(),
            thread: None,
            queue,
            tick_at: EPOCH_NS + 1 + self.rng.below(self.guest_tick_ns),
            slice: 0,
            alarm: 0,
            records: 0,
            cpu_ns: 0,
        });
        Ok(())
    }

    fn add_thread(&mut self, plan: &RunPlan, vcpu: VcpuId, (load, role): (Load, u32)) -> ThreadId {
        let thread = ThreadId::at(self.threads.len());
        let rng = Stream::new(plan.seed, thread.0.into());
        self.threads.push(Thread { vcpu, program: Program::new(load, role, &plan.params), rng, remaining: 0 });
        thread
    }
}

impl Pcpu {
    fn new(llc: usize) -> Self {
        let daemon = TaskId(u32::MAX);
        Self {
            activity: Activity::Idle,
            daemon,
            daemon_left: 0,
            vcpu: None,
            loaded: None,
            inbox: VecDeque::new(),
            llc,
            asked_at: None,
        }
    }
}

/// The plan of the neighbour's VM: one vCPU that runs wherever there is room, in no gang.
fn beside(plan: &RunPlan) -> RunPlan {
    let axes = Axes { host_policy: HostPolicy::Cfs, pin: false, ..plan.axes };
    RunPlan { vms: 1, vcpus: 1, axes, ..plan.clone() }
}

/// The machine with only the plan's CPUs on line.
fn restricted(machine: &Machine, plan: &RunPlan) -> Result<Topology, SetupError> {
    let all = &machine.topology;
    let wanted: CpuSet = plan.pcpus.as_slice().iter().map(|cpu| CpuId(*cpu)).collect();
    if let Some(cpu) = wanted.and_not(all.online()).first() {
        let (cpu, machine, has) = (cpu.0, machine.name.clone(), all.online().clone());
        return Err(SetupError::NoCpu { cpu, machine, has });
    }
    let described: CpuSet = all.cpus().iter().map(|cpu| cpu.id).collect();
    Ok(Topology::new(all.cpus().to_vec(), all.nodes().to_vec(), &described.and_not(&wanted))?)
}

fn new_host(plan: &RunPlan, topology: Topology) -> Result<Host, SetupError> {
    let cpus = topology.online().weight();
    let mut config = Config::for_cpus(cpus);
    config.epoch = Nanos(EPOCH_NS);
    config.tick = Nanos(1_000_000_000 / u64::from(plan.hz));
    let sysctls = &mut config.sysctls;
    for (value, sysctl) in [
        (plan.sched_latency_ns, &mut sysctls.latency),
        (plan.sched_min_granularity_ns, &mut sysctls.min_granularity),
        (plan.sched_wakeup_granularity_ns, &mut sysctls.wakeup_granularity),
    ] {
        if let Some(ns) = value {
            *sysctl = Nanos(ns);
        }
    }
    sysctls.written(cpus);
    let beside = plan.neighbour.count();
    let limits = Limits { tasks: plan.vms * plan.vcpus + beside + cpus, groups: plan.vms + beside + 1 };
    Ok(Host::new(config, topology, BuildOptions::default(), limits)?)
}

/// How long a vCPU spins until its processor leaves the guest, if it ever does.
fn ple_exit_ns(machine: &Machine, plan: &RunPlan, options: Options) -> Option<u64> {
    let costs = &machine.costs;
    if !machine.ple || plan.axes.spin != Spin::Ple {
        return None;
    }
    let turn = costs.spin_turn * costs.cpu_clock / 1000;
    let cycles = exit_after_cycles(plan.ple_window_cycles, options.ple_gap_cycles, turn, costs.pause_gap)?;
    Some((cycles * 1000 / costs.cpu_clock).max(1))
}
