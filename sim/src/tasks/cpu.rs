//! A pCPU of the host: idle, on its way out of idle, in the scheduler, or executing a task.
//!
//! ```text
//!   Idle ── interrupt ──► Waking ── idle state's exit ──► Host: schedule, switch ──► Task ── blocks ──► Host or Idle
//!                                                           ▲                          │
//!                                                           └── tick, interrupt with need_resched
//! ```
//! *Waking* and *Host* are never interrupted: what arrives makes them longer and is looked at when they end. An idle CPU
//! ticks without cost and without leaving its idle state: NOHZ stops those ticks, and another CPU balances in its name.
use hostsched::{CpuId, TaskId, Waker};

use super::idle::{IdleState, Menu};
use super::step::Flow;
use super::warmth::{Fetch, Spot};
use super::world::{Alarm, Timer, World, sched};
use crate::timers::Timers;

/// What a pCPU executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Idle,
    /// Leaving its idle state.
    Waking,
    Host,
    Task,
}

/// A pCPU.
#[derive(Debug)]
pub(crate) struct Pcpu {
    pub(crate) activity: Activity,
    pub(crate) spot: Spot,
    /// Who has it.
    pub(crate) task: Option<TaskId>,
    pub(crate) menu: Menu,
    pub(crate) idle_state: IdleState,
    /// Since when it has been in its present kind of activity: idle or not.
    pub(crate) since: u64,
    /// Busy time since the clock governor looked.
    pub(crate) busy_ns: u64,
    /// When the piece under way began, and how long each of 1,000,000 ns takes here.
    pub(crate) piece_from: u64,
    pub(crate) piece_pace: u64,
    /// Its kernel thread that works now and then, and what wakes that.
    pub(crate) daemon: super::channel::Sem,
}

/// Pace of a core at full clock that nobody shares.
const FULL: u64 = 1_000_000;
/// Operations in a row that take no time; a program beyond it is broken.
const FREE_STEPS_MAX: u32 = 1024;

impl Pcpu {
    pub(crate) fn new(spot: Spot, longest_idle: u64, now: u64) -> Self {
        Self {
            activity: Activity::Idle,
            spot,
            task: None,
            menu: Menu::new(longest_idle),
            idle_state: IdleState::C1,
            since: now,
            busy_ns: 0,
            piece_from: now,
            piece_pace: FULL,
            daemon: super::channel::Sem(usize::MAX),
        }
    }
}

impl World {
    /// The CPU's present activity has ended.
    pub(super) fn activity_ended(&mut self, cpu: CpuId) {
        self.timers.set(Timer::End.slot(cpu), Timers::NEVER);
        match self.cpus[cpu.index()].activity {
            Activity::Idle => {}
            Activity::Waking => self.reschedule(cpu, 0),
            Activity::Host if self.rqs[cpu.index()].need_resched() => self.reschedule(cpu, 0),
            Activity::Host => self.go_on(cpu),
            Activity::Task => {
                self.piece_ended(cpu, 0);
                self.go_on(cpu);
            }
        }
    }

    /// `scheduler_tick`; sometimes it finds work for the CPU's daemon.
    pub(super) fn host_tick(&mut self, cpu: CpuId) {
        self.timers.set(Timer::Tick.slot(cpu), self.now + self.tick_ns);
        sched!(self).tick(cpu);
        if self.rng.per_mille(self.costs.noise) {
            let daemon = self.cpus[cpu.index()].daemon;
            self.up(daemon, cpu);
        }
        self.apply_effects(Some(cpu), 0);
        self.interrupt(cpu, self.costs.tick);
    }

    /// Something interrupts the CPU and takes `cost` of it, if it is busy.
    pub(super) fn interrupt(&mut self, cpu: CpuId, cost: u64) {
        let need_resched = self.rqs[cpu.index()].need_resched();
        match self.cpus[cpu.index()].activity {
            Activity::Idle if need_resched => self.leave_idle(cpu),
            Activity::Idle => {}
            Activity::Task if need_resched => {
                self.pause_piece(cpu);
                self.reschedule(cpu, cost);
            }
            Activity::Waking | Activity::Host | Activity::Task => {
                let end = self.timers.get(Timer::End.slot(cpu));
                self.timers.set(Timer::End.slot(cpu), end + cost);
            }
        }
    }

    fn leave_idle(&mut self, cpu: CpuId) {
        let (now, measuring) = (self.now, self.measuring());
        let pcpu = &mut self.cpus[cpu.index()];
        pcpu.menu.reflect(now - pcpu.since);
        let exit = pcpu.idle_state.exit(&self.costs);
        (pcpu.activity, pcpu.since) = (Activity::Waking, now);
        if measuring {
            self.counters.idle_exits[pcpu.idle_state as usize] += 1;
            self.counters.idle_exit_ns += exit;
        }
        self.timers.set(Timer::End.slot(cpu), now + exit.max(1));
    }

    fn enter_idle(&mut self, cpu: CpuId) {
        let now = self.now;
        let pcpu = &mut self.cpus[cpu.index()];
        if pcpu.activity != Activity::Idle {
            pcpu.busy_ns += now - pcpu.since;
            pcpu.since = now;
        }
        pcpu.activity = Activity::Idle;
        pcpu.idle_state = pcpu.menu.select(&self.costs);
        self.timers.set(Timer::End.slot(cpu), Timers::NEVER);
    }

    /// `schedule()`, after `cost` ns of other host work that belongs to it.
    pub(super) fn reschedule(&mut self, cpu: CpuId, mut cost: u64) {
        let switch = sched!(self).schedule(cpu);
        self.apply_effects(Some(cpu), 0);
        let prev = self.cpus[cpu.index()].task;
        if prev != switch.next {
            if let Some(task) = prev {
                self.tasks[task.index()].warmth.leave(&self.llcs);
            }
            if let Some(task) = switch.next {
                cost += self.costs.context_switch;
                self.arrive(task, cpu);
            }
        }
        self.cpus[cpu.index()].task = switch.next;
        self.note(switch.next.map_or(u64::MAX, |task| task.0.into()));
        if switch.next.is_none() {
            return self.enter_idle(cpu);
        }
        self.cpus[cpu.index()].activity = Activity::Host;
        // Something is always paid, so a CPU that is asked again and again still moves on.
        self.timers.set(Timer::End.slot(cpu), self.now + cost.max(1));
    }

    /// The task has got the CPU: it fetches its lines first.
    fn arrive(&mut self, task: TaskId, cpu: CpuId) {
        let (measuring, spot) = (self.measuring(), self.spot(cpu));
        let fetch = self.tasks[task.index()].warmth.arrive(spot, &mut self.llcs, &self.costs);
        let refill = self.refill(spot, fetch);
        let t = &mut self.tasks[task.index()];
        t.remaining += refill;
        let moved = t.last_cpu != cpu;
        let from = std::mem::replace(&mut t.last_cpu, cpu);
        if measuring {
            let far = self.spot(from).llc != spot.llc;
            self.counters.switches += 1;
            self.counters.migrations += u64::from(moved);
            self.counters.migrations_far += u64::from(far);
            self.counters.refill_ns += refill;
        }
    }

    /// What fetching takes there, now that others fetch too.
    fn refill(&mut self, to: Spot, fetch: Fetch) -> u64 {
        let Fetch { near_ns, from_memory, from_cache } = fetch;
        let (costs, measuring) = (&self.costs, self.measuring());
        let alone = from_memory * costs.kb_far / 1024;
        let mut far = self.buses.read_memory(self.now, to.llc, from_memory, alone, costs);
        let mut queued = far - alone;
        if let Some((owner, bytes)) = from_cache {
            let near = self.buses.same_package(owner, to.llc);
            let alone = bytes * if near { costs.kb_package } else { costs.kb_far } / 1024;
            let takes = self.buses.read_cache(self.now, (owner, to.llc), bytes, alone, costs);
            (far, queued) = (far + takes, queued + takes - alone);
        }
        if measuring {
            self.counters.bus_wait_ns += queued;
        }
        near_ns + far
    }

    /// The task that has the CPU goes on: the rest of its piece, or its next operations.
    fn go_on(&mut self, cpu: CpuId) {
        let Some(task) = self.cpus[cpu.index()].task else { return self.reschedule(cpu, 0) };
        for _ in 0..FREE_STEPS_MAX {
            if self.rqs[cpu.index()].need_resched() {
                return self.reschedule(cpu, 0);
            }
            if self.tasks[task.index()].remaining > 0 {
                return self.start_piece(cpu, task);
            }
            match self.step(task, cpu) {
                Flow::On => {}
                Flow::Sleep => {
                    self.tasks[task.index()].asleep = true;
                    sched!(self).block_current(cpu);
                    return self.reschedule(cpu, 0);
                }
            }
        }
        panic!("task {task} does {FREE_STEPS_MAX} operations that take no time: {:?}", self.tasks[task.index()]);
    }

    fn start_piece(&mut self, cpu: CpuId, task: TaskId) {
        let pace = self.pace(cpu);
        let pcpu = &mut self.cpus[cpu.index()];
        (pcpu.activity, pcpu.piece_from, pcpu.piece_pace) = (Activity::Task, self.now, pace);
        let takes = (self.tasks[task.index()].remaining * pace / FULL).max(1);
        self.timers.set(Timer::End.slot(cpu), self.now + takes);
    }

    /// How long 1,000,000 ns of work take there now: by the clock, and by whether the core's other threads are busy.
    fn pace(&self, cpu: CpuId) -> u64 {
        let core = &self.cores[self.spot(cpu).core as usize];
        let busy = |c: &&CpuId| **c != cpu && matches!(self.cpus[c.index()].activity, Activity::Host | Activity::Task);
        let shared = core.cpus.iter().any(|c| busy(&c));
        let slow = 1000 + if shared { self.costs.smt_slowdown } else { 0 };
        slow * 1000 * self.costs.cpu_clock / core.clock.mhz
    }

    fn pause_piece(&mut self, cpu: CpuId) {
        let end = self.timers.get(Timer::End.slot(cpu));
        let left = (end - self.now) * FULL / self.cpus[cpu.index()].piece_pace;
        self.timers.set(Timer::End.slot(cpu), Timers::NEVER);
        self.piece_ended(cpu, left.max(1));
    }

    /// The task has used its CPU up to now; so much of its piece is left.
    fn piece_ended(&mut self, cpu: CpuId, left: u64) {
        let pcpu = &self.cpus[cpu.index()];
        if let Some(task) = pcpu.task {
            self.tasks[task.index()].remaining = left;
        }
    }

    /// Wakes a task that sleeps, from a CPU; `by` is the CPU whose own work this is, `None` for a timer. Returns what it
    /// takes there: `try_to_wake_up`, and a line to fetch for each CPU that was asked whether it is idle.
    pub(super) fn wake(&mut self, task: TaskId, from: CpuId, by: Option<CpuId>, sync: bool) -> u64 {
        self.tasks[task.index()].asleep = false;
        let asked = self.host.idle_asked(from);
        let target = sched!(self).wake(task, Waker { cpu: from, sync });
        let asked = self.host.idle_asked(from) - asked;
        let search = asked * self.costs.line_llc;
        if let Some(target) = target.filter(|_| self.measuring()) {
            self.counters.idle_asked += asked;
            self.count_wakeup(task, from, target);
        }
        self.apply_effects(by, search);
        self.costs.wakeup + search
    }

    fn count_wakeup(&mut self, task: TaskId, from: CpuId, target: CpuId) {
        let last = self.tasks[task.index()].last_cpu;
        let c = &mut self.counters;
        c.wakeups += 1;
        let (spot, was) = (self.cpus[target.index()].spot, self.cpus[last.index()].spot);
        c.wakeups_on_waker += u64::from(target == from);
        c.wakeups_other_core += u64::from(spot.core != was.core);
        c.wakeups_far += u64::from(spot.llc != was.llc);
        let pcpu = &self.cpus[target.index()];
        if pcpu.activity == Activity::Idle {
            c.wakeups_idle += 1;
            c.wakeups_deep += u64::from(pcpu.idle_state > IdleState::C1);
        }
    }

    /// Carries out what hostsched asked for while `from` executed it, `None` if no CPU did, `delay` ns from now.
    pub(super) fn apply_effects(&mut self, from: Option<CpuId>, delay: u64) {
        let at = self.now + delay + self.costs.ipi_deliver;
        for i in 0..self.fx.resched.len() {
            let cpu = self.fx.resched[i];
            if Some(cpu) != from {
                self.alarms.push(at, Alarm::Resched(cpu));
            }
        }
        for i in 0..self.fx.ipis.len() {
            let (cpu, ipi) = self.fx.ipis[i];
            self.alarms.push(at, Alarm::Sched(cpu, ipi));
        }
        self.fx.clear();
    }

    /// Every core's clock follows the load of its busiest CPU since the last look.
    pub(super) fn sample_clocks(&mut self) {
        let period = self.costs.clock_sample;
        for core in &mut self.cores {
            let mut busiest = 0;
            for cpu in &core.cpus {
                let pcpu = &mut self.cpus[cpu.index()];
                if pcpu.activity != Activity::Idle {
                    pcpu.busy_ns += self.now - pcpu.since;
                    pcpu.since = self.now;
                }
                busiest = busiest.max(std::mem::take(&mut pcpu.busy_ns));
            }
            core.clock.sample(self.governor, busiest, period);
        }
        self.alarms.push(self.now + period, Alarm::Sample);
    }
}
