//! From a machine, a load and switches to a world before its first event.
use hostsched::topology::{BuildOptions, CpuSet};
use hostsched::{
    Birth, Config, CpuId, Effects, GroupError, GroupId, Host, HostError, Limits, Nanos, Switches, TaskError, TaskId,
    TaskSpec,
};

use super::bus::Buses;
use super::channel::{Channel, Sem, Semaphore};
use super::clock::{Clock, Governor};
use super::cpu::Pcpu;
use super::line::SharedLine;
use super::load::{Layout, Load, TaskPlan};
use super::machine::HostMachine;
use super::outcome::Counters;
use super::program::{Loop, Op};
use super::warmth::{LastLevel, Spot, Warmth};
use super::world::{Alarm, Core, Stage, TIMERS, Task, Timer, World};
use crate::alarms::Alarms;
use crate::rng::Stream;
use crate::timers::Timers;
use crate::world::EPOCH_NS;

/// A run: what is loaded, and what the kernel is set to.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The benchmark.
    pub load: Load,
    /// Behaviour of the kernel.
    pub switches: Switches,
    /// Who sets the clocks.
    pub governor: Governor,
    /// Task groups of the benchmark's tasks.
    pub grouping: Grouping,
    /// Runs before it is measured, ns.
    pub warmup_ns: u64,
    /// Measured time, ns.
    pub duration_ns: u64,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// Which task groups a benchmark's tasks are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Grouping {
    /// All in the root group.
    #[default]
    None,
    /// All in one group, as with `CONFIG_GROUP_SCHED` by user.
    One,
    /// A group a login session, as with `CONFIG_SCHED_AUTOGROUP`: servers are of another session than clients.
    Sessions,
}

/// Why a setup cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// More CPUs than the event queue has slots.
    #[error("the machine has CPU numbers up to {0}; a host of tasks takes them below {max}", max = Timers::SLOTS_MAX / TIMERS)]
    TooManyCpus(usize),
    /// A run longer than the clock, or none.
    #[error("the run would take {0} ns of virtual time; it takes 1 to {max} ns", max = Timers::TIME_MAX / 2)]
    Duration(u64),
    /// A load without tasks, or with more than is sensible.
    #[error("the load has {0} tasks; it takes 1 to {TASKS_MAX}")]
    Tasks(usize),
    /// hostsched refuses the machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// hostsched refuses the group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// hostsched refuses a task.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The simulator broke one of its own rules.
    #[error("an invariant of the simulator does not hold: {0}")]
    Invariant(String),
}

/// Most tasks of a load.
const TASKS_MAX: usize = 1 << 14;
/// Work before the first operation, so that tasks do not start in step.
const START_SPREAD_NS: u64 = 200_000;
/// Sessions of a benchmark.
const SESSIONS: u32 = 2;
/// What a kernel thread touches.
const DAEMON_FOOTPRINT_KB: u64 = 4;

impl World {
    /// A world in which nothing has happened.
    pub(super) fn new(machine: &HostMachine, setup: &Setup) -> Result<Self, SetupError> {
        let (topology, costs) = (machine.topology.clone(), machine.costs.clone());
        let slots = topology.cpu_slots();
        if slots * TIMERS > Timers::SLOTS_MAX {
            return Err(SetupError::TooManyCpus(slots));
        }
        let length = setup.warmup_ns.saturating_add(setup.duration_ns);
        if setup.duration_ns == 0 || length > Timers::TIME_MAX / 2 {
            return Err(SetupError::Duration(length));
        }
        let layout = setup.load.lay_out(&topology, TASKS_MAX);
        if layout.tasks.is_empty() || layout.tasks.len() > TASKS_MAX {
            return Err(SetupError::Tasks(layout.tasks.len()));
        }
        let online: Vec<CpuId> = topology.online().iter().collect();
        let tick_ns = 1_000_000_000 / costs.hz;
        let nowhere = Spot { core: 0, llc: 0, package: 0 };
        let mut cpus: Vec<Pcpu> = (0..slots).map(|_| Pcpu::new(nowhere, tick_ns, EPOCH_NS)).collect();
        let mut cores: Vec<Core> = Vec::new();
        for cpu in topology.cpus().iter().filter(|cpu| topology.online().contains(cpu.id)) {
            cpus[cpu.id.index()].spot = Spot { core: cpu.core, llc: cpu.llc, package: cpu.package };
            let clock = Clock::new(setup.governor, costs.cpu_clock_min, costs.cpu_clock);
            let fresh = || Core { cpus: Vec::new(), clock };
            cores.resize_with(cores.len().max(cpu.core as usize + 1), fresh);
            cores[cpu.core as usize].cpus.push(cpu.id);
        }
        let buses = Buses::new(&topology);
        let llcs = topology.cpus().iter().map(|cpu| cpu.llc as usize + 1).max().unwrap_or(1);
        let tasks = u32::try_from(layout.tasks.len() + online.len()).unwrap_or(u32::MAX);
        let mut config = Config::for_cpus(topology.online().weight());
        config.epoch = Nanos(EPOCH_NS);
        config.tick = Nanos(tick_ns);
        config.boot(setup.switches, topology.online().weight());
        let build = BuildOptions { allow_broken: machine.broken_groups, ..BuildOptions::default() };
        let host = Host::new(config, topology, build, Limits { tasks, groups: 1 + SESSIONS })?;
        let mut world = Self {
            now: EPOCH_NS,
            timers: Timers::new(slots * TIMERS),
            alarms: Alarms::default(),
            rqs: host.run_queues(),
            host,
            fx: Effects::default(),
            governor: setup.governor,
            tick_ns,
            cpus,
            online,
            cores,
            buses,
            llcs: vec![LastLevel::new(costs.llc_size * 1024); llcs],
            route: SharedLine::default(),
            tasks: Vec::new(),
            channels: layout.channels.iter().map(|kind| Channel::new(*kind)).collect(),
            semaphores: layout.semaphores.iter().map(|n| Semaphore { count: *n, ..Semaphore::default() }).collect(),
            rng: Stream::new(setup.seed, u64::MAX - 1),
            measure_from: EPOCH_NS + setup.warmup_ns,
            counters: Counters::default(),
            delivered: 0,
            taken: 0,
            events: 0,
            digest: setup.seed,
            costs,
        };
        world.start_timers();
        world.add_load(setup, layout)?;
        world.add_daemons(setup.seed)?;
        world.apply_effects(None, 0);
        Ok(world)
    }

    /// The ticks of neighbouring CPUs are `tick_skew` apart.
    fn start_timers(&mut self) {
        for (i, cpu) in self.online.iter().enumerate() {
            let phase = i as u64 * self.costs.tick_skew % self.tick_ns;
            self.timers.set(Timer::Tick.slot(*cpu), EPOCH_NS + self.tick_ns + phase);
        }
        if self.governor != Governor::Performance {
            self.alarms.push(EPOCH_NS + self.costs.clock_sample, Alarm::Sample);
        }
    }

    /// The benchmark's tasks, forked one after the other: each goes to the idlest CPU, as seen from a random one.
    fn add_load(&mut self, setup: &Setup, layout: Layout) -> Result<(), SetupError> {
        let mut groups = [GroupId::ROOT; SESSIONS as usize];
        if setup.grouping != Grouping::None {
            for session in 0..groups.len() {
                let mut host = self.host.at(Nanos(self.now), &mut self.rqs, &mut self.fx);
                let one = setup.grouping == Grouping::One && session > 0;
                groups[session] = if one { groups[0] } else { host.group_create(GroupId::ROOT, 1024, false)? };
            }
        }
        for plan in layout.tasks {
            let parent = usize::try_from(self.rng.below(self.online.len() as u64)).unwrap_or(0);
            let cpu = plan.pin.unwrap_or(self.online[parent]);
            let affinity = plan.pin.map(CpuSet::of);
            let group = groups[plan.session as usize];
            let spec = TaskSpec { group, affinity, cpu, birth: Birth::BootBalanced, ..TaskSpec::default() };
            self.add_task(plan, setup.seed, &spec)?;
        }
        Ok(())
    }

    /// A kernel thread a CPU, asleep; they are numbered after the benchmark's tasks.
    fn add_daemons(&mut self, seed: u64) -> Result<(), SetupError> {
        for cpu in self.online.clone() {
            let sem = Sem(self.semaphores.len());
            self.semaphores.push(Semaphore::default());
            self.cpus[cpu.index()].daemon = sem;
            let program = Loop::boxed(vec![Op::Down(sem), Op::Work(self.costs.noise_time)]);
            let footprint_kb = DAEMON_FOOTPRINT_KB;
            let plan = TaskPlan { program, footprint_kb, pin: Some(cpu), servant: true, session: 0 };
            let affinity = Some(CpuSet::of(cpu));
            let spec = TaskSpec { affinity, cpu, birth: Birth::Boot, ..TaskSpec::default() };
            self.add_task(plan, seed, &spec)?;
        }
        Ok(())
    }

    fn add_task(&mut self, plan: TaskPlan, seed: u64, spec: &TaskSpec) -> Result<(), SetupError> {
        let task = self.host.at(Nanos(self.now), &mut self.rqs, &mut self.fx).task_add(spec)?;
        assert_eq!(task, TaskId::from_index(self.tasks.len()), "tasks are numbered as they are added");
        let mut rng = Stream::new(seed, task.0.into());
        self.tasks.push(Task {
            program: plan.program,
            stage: Stage::Fetch,
            remaining: if plan.servant { 1 } else { 1 + rng.below(START_SPREAD_NS) },
            rng,
            asleep: false,
            last_cpu: self.host.task_cpu(task).unwrap_or(spec.cpu),
            warmth: Warmth::new(plan.footprint_kb),
            got: 0,
            units: 0,
        });
        Ok(())
    }
}
