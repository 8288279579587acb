//! The event loop. Times inside are nanoseconds since the start; the scheduler's clock is [`EPOCH`] later.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::program::{Progress, Waits, check_references, spec};
use super::queue::{Earliest, Marked, NEVER};
use super::scenario::{EPOCH, Scenario, ScenarioError};
use super::ticks::Ticks;
use crate::ids::{GroupId, Nanos, TaskId};
use crate::trace::Trace;
use crate::{CpuId, Effects, Host, HotplugError, Rq, Sched, TaskInfo, Waker};

/// Steps that a task may take at one instant before it is taken for one that never ends.
const STEPS_MAX: u32 = 1_000_000;

/// Why a run stopped early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A program takes no time.
    #[error("task {task} took {STEPS_MAX} steps at {at_ns} ns: its program must run or block")]
    Endless {
        /// The task.
        task: usize,
        /// When.
        at_ns: u64,
    },
}

/// Whom a CPU runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnCpu {
    pub(super) task: Option<usize>,
    /// When it was switched to.
    pub(super) since: u64,
}

/// A running scenario.
#[derive(Debug)]
pub struct Engine<'a, T> {
    pub(super) scenario: &'a Scenario,
    host: Host,
    rqs: Vec<Rq>,
    fx: Effects,
    trace: T,
    pub(super) now: u64,
    pub(super) progress: Vec<Progress>,
    pub(super) on_cpu: Vec<OnCpu>,
    /// End of the current run segment, by CPU.
    segments: Earliest,
    /// (when, order of arming, task, CPU that armed it).
    pub(super) timers: BinaryHeap<Reverse<(u64, u64, usize, u32)>>,
    pub(super) armed: u64,
    /// Tasks by start time; those before `started` have started.
    starts: Vec<usize>,
    started: usize,
    ticks: Ticks,
    /// The CPU that ticked last.
    ticked: usize,
    /// CPUs that must reschedule.
    resched: Marked,
    /// CPUs with an IPI to come, and their IPIs.
    interrupted: Marked,
    ipis: Vec<Vec<crate::Ipi>>,
    events: u64,
}

impl<'a, T: Trace> Engine<'a, T> {
    /// The scenario at its start: groups made, no task started.
    ///
    /// # Errors
    /// A scenario that makes no sense.
    pub fn new(scenario: &'a Scenario, host: Host, trace: T) -> Result<Self, ScenarioError> {
        if !(1..=1_000_000_000).contains(&scenario.hz) {
            return Err(ScenarioError::Hz(scenario.hz));
        }
        check_references(scenario)?;
        let cpus = host.machine().cpu_slots();
        let mut starts: Vec<usize> = (0..scenario.tasks.len()).collect();
        starts.sort_by_key(|t| scenario.tasks[*t].start_ns);
        let progress = Progress { pc: 0, left: 0, credit: 0, waits: Waits::Absent, last: None };
        let mut engine = Self {
            scenario,
            rqs: host.run_queues(),
            host,
            fx: Effects::default(),
            trace,
            now: 0,
            progress: vec![progress; scenario.tasks.len()],
            on_cpu: vec![OnCpu { task: None, since: 0 }; cpus],
            segments: Earliest::new(cpus),
            timers: BinaryHeap::with_capacity(scenario.tasks.len()),
            armed: 0,
            starts,
            started: 0,
            ticked: 0,
            ticks: Ticks::new(cpus, scenario.tick_ns(), scenario.tick_skew_ns),
            resched: Marked::new(cpus),
            interrupted: Marked::new(cpus),
            ipis: vec![Vec::new(); cpus],
            events: 0,
        };
        for g in &scenario.groups {
            let parent = g.parent.map_or(GroupId::ROOT, |p| GroupId::from_index(p + 1));
            engine.sched().group_create(parent, g.shares, false)?;
        }
        Ok(engine)
    }

    /// The scheduler at the current instant.
    #[inline]
    pub fn sched(&mut self) -> Sched<'_, Vec<Rq>, &mut T> {
        self.host.traced(EPOCH + Nanos(self.now), &mut self.rqs, &mut self.fx, &mut self.trace)
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The run queues.
    #[must_use]
    pub fn rqs(&self) -> &[Rq] {
        &self.rqs
    }

    /// The trace sink.
    #[must_use]
    pub fn trace(&self) -> &T {
        &self.trace
    }

    /// Tasks of the scenario.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.progress.len()
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Runs up to an instant (exclusive) and brings all clocks there.
    ///
    /// # Errors
    /// A program that takes no time, a task that cannot be made.
    pub fn run_until(&mut self, end_ns: u64) -> Result<(), RunError> {
        loop {
            let start = self.starts.get(self.started).map_or(NEVER, |t| self.scenario.tasks[*t].start_ns);
            let segment = self.segments.time();
            let timer = self.timers.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            // Most events are ticks, and most of these have no effect: then nothing else can have come closer.
            let other = start.min(segment).min(timer);
            if self.tick_until(other.min(end_ns)) {
                self.settle_all(Some(self.ticked))?;
                continue;
            }
            if other >= end_ns {
                break;
            }
            self.now = other;
            self.events += 1;
            if start == other {
                self.start_tasks()?;
            } else if segment == other {
                let cpu = self.segments.cpu();
                self.segment_ends(cpu)?;
            } else {
                self.timer_fires()?;
            }
        }
        self.now = end_ns;
        for cpu in 0..self.rqs.len() {
            self.sched().sync(cpu_id(cpu));
        }
        Ok(())
    }

    /// Does something from outside between two events; then all CPUs settle.
    ///
    /// # Errors
    /// A program that takes no time.
    pub fn act<R>(&mut self, f: impl FnOnce(&mut Sched<'_, Vec<Rq>, &mut T>) -> R) -> Result<R, RunError> {
        let done = f(&mut self.sched());
        self.settle_all(None)?;
        Ok(done)
    }

    /// Takes a CPU off line or brings it on line; then all CPUs settle.
    ///
    /// # Errors
    /// A program that takes no time. A change that the host refuses is answered in the inner result.
    pub fn hotplug(&mut self, cpu: CpuId, online: bool) -> Result<Result<(), HotplugError>, RunError> {
        let now = EPOCH + Nanos(self.now);
        let done = if online {
            self.host.cpu_online(cpu, now, &mut self.rqs)
        } else {
            self.host.cpu_offline(cpu, now, &mut self.rqs, &mut self.fx, &mut self.trace)
        };
        if done.is_ok() && !online {
            self.switch(cpu.index(), None);
        }
        self.settle_all(None)?;
        Ok(done)
    }

    /// True if the program of the task has started, has not ended, and waits for nothing.
    #[must_use]
    pub fn wants_to_run(&self, task: usize) -> bool {
        self.progress[task].waits == Waits::No
    }

    /// A task as it is now, or as it was when it ended; `None` before it starts.
    #[must_use]
    pub fn task(&self, task: usize) -> Option<(CpuId, TaskInfo)> {
        if let Some(last) = &self.progress[task].last {
            return Some((**last).clone());
        }
        let id = TaskId::from_index(task);
        let cpu = self.host.task_cpu(id)?;
        Some((cpu, self.rqs[cpu.index()].task_info(&self.host, id)?))
    }

    /// Ticks before an instant, up to the first that has an effect: true if one had.
    fn tick_until(&mut self, end_ns: u64) -> bool {
        while self.ticks.time() < end_ns {
            self.now = self.ticks.time();
            self.events += 1;
            self.ticked = self.ticks.cpu();
            self.ticks.advance();
            let cpu = cpu_id(self.ticked);
            if !self.host.online().contains(cpu) {
                continue;
            }
            self.sched().tick(cpu);
            if !self.fx.is_empty() {
                return true;
            }
        }
        false
    }

    fn start_tasks(&mut self) -> Result<(), RunError> {
        while let Some(&task) = self.starts.get(self.started)
            && self.scenario.tasks[task].start_ns == self.now
        {
            self.started += 1;
            let plan = &self.scenario.tasks[task];
            self.progress[task].waits = Waits::No;
            let spec = spec(task, plan);
            self.sched().task_add(&spec).map_err(|e| ScenarioError::Task(task, e))?;
        }
        self.settle_all(None)
    }

    fn segment_ends(&mut self, cpu: usize) -> Result<(), RunError> {
        if let Some(task) = self.on_cpu[cpu].task {
            self.progress[task].left = 0;
            self.on_cpu[cpu].since = self.now;
        }
        self.segments.set(cpu, NEVER);
        self.settle(cpu)?;
        self.settle_all(None)
    }

    fn timer_fires(&mut self) -> Result<(), RunError> {
        if let Some(Reverse((_, _, task, cpu))) = self.timers.pop() {
            self.progress[task].waits = Waits::No;
            // The timers of a CPU that went off line have moved to another.
            let online = self.host.online();
            let cpu = if online.contains(CpuId(cpu)) { cpu } else { online.first().map_or(0, |c| c.0) };
            self.sched().wake(TaskId::from_index(task), Waker::on(CpuId(cpu)));
            self.settle_all(usize::try_from(cpu).ok())?;
        }
        Ok(())
    }

    /// Collects the effects of the last operations.
    #[inline]
    fn take_effects(&mut self) {
        if self.fx.is_empty() {
            return;
        }
        for cpu in &self.fx.resched {
            self.resched.set(cpu.index());
        }
        for (cpu, ipi) in &self.fx.ipis {
            self.ipis[cpu.index()].push(*ipi);
            self.interrupted.set(cpu.index());
        }
        self.fx.clear();
    }

    /// Settles the CPU of the event, then the others until all is quiet.
    fn settle_all(&mut self, first: Option<usize>) -> Result<(), RunError> {
        self.take_effects();
        if let Some(cpu) = first.filter(|cpu| self.resched.contains(*cpu)) {
            self.settle(cpu)?;
        }
        loop {
            let mut quiet = true;
            let mut at = 0;
            while let Some(cpu) = self.interrupted.from(at) {
                (quiet, at) = (false, cpu);
                self.interrupted.take(cpu);
                while !self.ipis[cpu].is_empty() {
                    let ipi = self.ipis[cpu].remove(0);
                    self.sched().ipi_received(cpu_id(cpu), ipi);
                }
                self.take_effects();
            }
            at = 0;
            while let Some(cpu) = self.resched.from(at) {
                (quiet, at) = (false, cpu + 1);
                self.settle(cpu)?;
            }
            if quiet {
                return Ok(());
            }
        }
    }

    /// Reschedules the CPU if need be and lets its task take steps until it has time to run.
    fn settle(&mut self, cpu: usize) -> Result<(), RunError> {
        let mut steps = 0;
        loop {
            if self.resched.take(cpu) && self.rqs[cpu].need_resched() {
                self.schedule(cpu);
            }
            if self.resched.contains(cpu) {
                continue;
            }
            let Some(task) = self.on_cpu[cpu].task else { return Ok(()) };
            if self.progress[task].left > 0 {
                return Ok(());
            }
            steps += 1;
            if steps > STEPS_MAX {
                return Err(RunError::Endless { task, at_ns: self.now });
            }
            self.step(cpu, task);
            self.take_effects();
        }
    }

    /// Switches the CPU to whom the scheduler picks.
    pub(super) fn schedule(&mut self, cpu: usize) {
        let next = self.sched().schedule(cpu_id(cpu)).next.map(TaskId::index);
        self.take_effects();
        self.switch(cpu, next);
    }

    /// The CPU runs another task, or none, from now on.
    fn switch(&mut self, cpu: usize, next: Option<usize>) {
        let now = self.now;
        let current = &mut self.on_cpu[cpu];
        if current.task == next {
            return;
        }
        if let Some(old) = current.task {
            let ran = now - current.since;
            self.progress[old].left = self.progress[old].left.saturating_sub(ran);
        }
        *current = OnCpu { task: next, since: now };
        self.arm(cpu);
    }

    /// Sets the end of the run segment of the CPU's current task.
    pub(super) fn arm(&mut self, cpu: usize) {
        let left = self.on_cpu[cpu].task.map_or(0, |t| self.progress[t].left);
        let end = if left == 0 { NEVER } else { self.now + left };
        self.segments.set(cpu, if end < self.scenario.duration_ns { end } else { NEVER });
    }
}

pub(super) fn cpu_id(cpu: usize) -> CpuId {
    CpuId(u32::try_from(cpu).unwrap_or(u32::MAX))
}
