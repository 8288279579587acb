//! A run of host tasks: the CPUs, the tasks, and the loop that takes one event after the other.
//!
//! Units: virtual nanoseconds, from [`EPOCH_NS`] on. Two timers a CPU (the end of what it does, its tick) and alarms for
//! the rest (interrupts under way, sleepers, the clock governor).
//!
//! Properties: time never goes back; the same machine, setup and seed give the same events, hence the same digest.
use hostsched::{CpuId, Effects, Host, Ipi, Rq, TaskId};

use super::bus::Buses;
use super::channel::{Chan, Channel, Sem, Semaphore};
use super::clock::{Clock, Governor};
use super::cpu::Pcpu;
use super::line::SharedLine;
use super::machine::HostCosts;
use super::outcome::Counters;
use super::program::Program;
use super::warmth::{LastLevel, Spot, Warmth};
use crate::alarms::Alarms;
use crate::rng::Stream;
use crate::timers::Timers;
use crate::world::EPOCH_NS;

/// Timers of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// What it does now ends.
    End,
    /// Scheduler tick.
    Tick,
}

/// Timers per CPU.
pub(crate) const TIMERS: usize = 2;

impl Timer {
    pub(crate) fn slot(self, cpu: CpuId) -> usize {
        cpu.index() * TIMERS + self as usize
    }
}

/// What an alarm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A CPU is asked to look at `need_resched`.
    Resched(CpuId),
    /// An interrupt that hostsched sent.
    Sched(CpuId, Ipi),
    /// A sleeper's time is over.
    Wake(TaskId),
    /// The clock governor looks at every core.
    Sample,
}

/// Where a task is in its present operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Between two operations.
    Fetch,
    /// In the kernel with a message that the channel may have no room for yet.
    Offer { to: Chan, bytes: u64, note: u32 },
    /// Copying it; it is there at the end.
    Deliver { to: Chan, bytes: u64, note: u32 },
    /// In the kernel, to receive.
    Take(Chan),
    /// Taking a unit of a semaphore.
    Down(Sem),
    /// It has been handed the unit.
    Granted,
    /// Giving a unit.
    Up(Sem),
    /// Going to sleep.
    Nap(u64),
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) program: Box<dyn Program>,
    pub(crate) rng: Stream,
    pub(crate) stage: Stage,
    /// What is left of the present piece, at full clock on a core of its own.
    pub(crate) remaining: u64,
    pub(crate) asleep: bool,
    pub(crate) last_cpu: CpuId,
    pub(crate) warmth: Warmth,
    /// Note of the message received last.
    pub(crate) got: u32,
    /// What it has done of what the benchmark counts, in the measured time.
    pub(crate) units: u64,
}

/// A core: its threads, its clock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) clock: Clock,
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) timers: Timers,
    pub(crate) alarms: Alarms<Alarm>,
    pub(crate) host: Host,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) fx: Effects,
    pub(crate) costs: HostCosts,
    pub(crate) governor: Governor,
    pub(crate) tick_ns: u64,
    pub(crate) cpus: Vec<Pcpu>,
    pub(crate) online: Vec<CpuId>,
    pub(crate) cores: Vec<Core>,
    pub(crate) buses: Buses,
    pub(crate) llcs: Vec<LastLevel>,
    /// Reference count of the loopback route.
    pub(crate) route: SharedLine,
    pub(crate) tasks: Vec<Task>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) semaphores: Vec<Semaphore>,
    /// The host's own randomness.
    pub(crate) rng: Stream,
    /// Counters run from here on.
    pub(crate) measure_from: u64,
    pub(crate) counters: Counters,
    /// Messages delivered and taken since the start.
    pub(crate) delivered: u64,
    pub(crate) taken: u64,
    pub(crate) events: u64,
    pub(crate) digest: u64,
}

/// An operation of hostsched at this instant.
macro_rules! sched {
    ($world:expr) => {
        $world.host.at(hostsched::Nanos($world.now), &mut $world.rqs, &mut $world.fx)
    };
}
pub(super) use sched;

impl World {
    /// Handles every event up to `until`, and leaves the clock there. False if `stop` said so before.
    pub(crate) fn run_until(&mut self, until: u64, mut stop: impl FnMut() -> bool) -> bool {
        loop {
            if self.events.is_multiple_of(1 << 15) && stop() {
                return false;
            }
            let (at, slot) = self.timers.first();
            let alarm = self.alarms.first().filter(|due| *due <= at);
            let next = alarm.unwrap_or(at);
            if next >= until {
                self.now = until;
                return true;
            }
            assert!(next >= self.now, "time goes back from {} to {next}", self.now);
            self.now = next;
            self.events += 1;
            if alarm.is_some() {
                self.note(u64::from(u32::MAX));
                if let Some((_, alarm)) = self.alarms.pop() {
                    self.ring(alarm);
                }
            } else {
                self.note(slot as u64);
                let cpu = CpuId(u32::try_from(slot / TIMERS).unwrap_or(u32::MAX));
                if slot % TIMERS == Timer::End as usize { self.activity_ended(cpu) } else { self.host_tick(cpu) }
            }
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Resched(cpu) => self.interrupt(cpu, self.costs.ipi_handler),
            Alarm::Sched(cpu, ipi) => {
                sched!(self).ipi_received(cpu, ipi);
                self.apply_effects(Some(cpu), 0);
                self.interrupt(cpu, self.costs.ipi_handler);
            }
            Alarm::Wake(task) => {
                let from = self.tasks[task.index()].last_cpu;
                self.wake(task, from, None, false);
            }
            Alarm::Sample => self.sample_clocks(),
        }
    }

    /// Folds what happens into the digest of the run, as for guests.
    #[inline]
    pub(crate) fn note(&mut self, what: u64) {
        let mixed = (self.digest ^ self.now ^ what << 52).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ mixed >> 29;
    }

    /// True while counters run.
    #[inline]
    pub(crate) fn measuring(&self) -> bool {
        self.now >= self.measure_from
    }

    /// Where a CPU is in the cache hierarchy.
    #[inline]
    pub(crate) fn spot(&self, cpu: CpuId) -> Spot {
        self.cpus[cpu.index()].spot
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> u64 {
        self.now - EPOCH_NS
    }
}
