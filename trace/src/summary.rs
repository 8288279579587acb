//! What a trace in text form adds up to: runtimes, switches and waits, by thread and by CPU.
//!
//! Units: ns. *Runtime* and *idle time* count the stretches whose begin and end are both in the trace, as `perf sched`
//! does: who ran before the first switch of a CPU, and since when, is not known. *Wait* is from a wake-up, or from a
//! switch away from a thread that could have gone on, to the thread's next switch to a CPU. *Flush* is from the mark of
//! this lab's guests to its end.
//!
//! Properties: one pass, bounded memory (threads beyond [`THREADS_MAX`] and CPUs beyond [`CPUS_MAX`] are counted, not
//! followed). A trace need not be in order: an event that is earlier than the one before it on its CPU is counted as
//! unsorted, and times between them as 0.
use std::collections::BTreeMap;
use std::io::{self, BufRead};

use crate::ftrace::FLUSH_MARK;
use crate::read::{Body, Damage, Item, Line, State, Thread, read};

/// Threads that are told apart.
pub const THREADS_MAX: usize = 65_536;
/// CPUs that are told apart.
pub const CPUS_MAX: usize = 8192;
/// Damaged lines that are named.
pub const NAMED_MAX: usize = 5;
/// Exit reasons that are told apart.
const REASONS_MAX: usize = 256;

/// A number of times, their sum and the longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Sum.
    pub total_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Sum divided by number; 0 for none.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfThread {
    /// The last name that the trace has for it.
    pub comm: String,
    /// Its id.
    pub pid: u32,
    /// Time on CPUs.
    pub runtime_ns: u64,
    /// Switches to it.
    pub switches: u64,
    /// Of the switches away from it, those in which it could have gone on.
    pub preempted: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Waits for a CPU.
    pub wait: Times,
    /// Waits for flushes.
    pub flush: Times,
    /// Exits from guest mode.
    pub exits: u64,
}

/// A CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfCpu {
    /// Its number.
    pub cpu: u32,
    /// Switches.
    pub switches: u64,
    /// Time in which threads ran.
    pub busy_ns: u64,
    /// Time in which none did.
    pub idle_ns: u64,
}

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events, of whatever kind.
    pub events: u64,
    /// The earliest and the latest time.
    pub span_ns: Option<(u64, u64)>,
    /// Threads, the longest runtime first.
    pub threads: Vec<OfThread>,
    /// CPUs by number.
    pub cpus: Vec<OfCpu>,
    /// Exits from guest mode by reason.
    pub exits: BTreeMap<String, u64>,
    /// Events that are earlier than the one before them on the same CPU.
    pub unsorted: u64,
    /// Events that the tracer lost, as far as it says.
    pub lost: u64,
    /// Lines that cannot be read.
    pub damaged: u64,
    /// The first of them by line number.
    pub damages: Vec<(u64, Damage)>,
    /// Events of threads, CPUs or reasons beyond those that are told apart.
    pub left_out: u64,
}

impl Summary {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn read(input: impl BufRead) -> io::Result<Self> {
        let mut adder = Adder::default();
        read(input, |number, item| match item {
            Item::Event(line) => adder.event(&line),
            Item::Lost(n) => adder.summary.lost = adder.summary.lost.saturating_add(n),
            Item::Damaged(damage) => {
                adder.summary.damaged += 1;
                if adder.summary.damages.len() < NAMED_MAX {
                    adder.summary.damages.push((number, damage));
                }
            }
        })?;
        Ok(adder.finish())
    }
}

/// A thread and what goes on with it.
#[derive(Debug, Default)]
struct Tracked {
    sum: OfThread,
    /// Since when it waits for a CPU.
    waits_since: Option<u64>,
    /// Since when it waits for a flush.
    flushes_since: Option<u64>,
}

/// A CPU and what goes on there.
#[derive(Debug, Default)]
struct TrackedCpu {
    sum: OfCpu,
    last_ns: u64,
    /// Who has it (thread id, 0 for idle) since when; `None` before its first switch.
    running: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
struct Adder {
    summary: Summary,
    threads: BTreeMap<u32, Tracked>,
    cpus: BTreeMap<u32, TrackedCpu>,
}

impl Adder {
    fn event(&mut self, line: &Line<'_>) {
        let now = line.at_ns;
        self.summary.events += 1;
        let (first, last) = self.summary.span_ns.unwrap_or((now, now));
        self.summary.span_ns = Some((first.min(now), last.max(now)));
        let full = self.cpus.len() >= CPUS_MAX;
        if full && !self.cpus.contains_key(&line.cpu) {
            self.summary.left_out += 1;
            return;
        }
        let cpu = self.cpus.entry(line.cpu).or_default();
        cpu.sum.cpu = line.cpu;
        self.summary.unsorted += u64::from(now < cpu.last_ns);
        cpu.last_ns = now;
        match line.body {
            Body::Switch { prev, state, next } => self.switch(line.cpu, now, prev, state, next),
            Body::Wakeup { thread } => self.of(thread, |t| {
                t.sum.wakeups += 1;
                t.waits_since.get_or_insert(now);
            }),
            Body::Migrate { thread } => self.of(thread, |t| t.sum.migrations += 1),
            Body::Exit { reason } => {
                self.of(line.thread, |t| t.sum.exits += 1);
                let known = self.summary.exits.len();
                match self.summary.exits.get_mut(reason) {
                    Some(count) => *count += 1,
                    None if known < REASONS_MAX => drop(self.summary.exits.insert(reason.to_owned(), 1)),
                    None => self.summary.left_out += 1,
                }
            }
            Body::MarkBegin { name } if name.starts_with(FLUSH_MARK) => {
                self.of(line.thread, |t| t.flushes_since = Some(now));
            }
            Body::MarkEnd => self.of(line.thread, |t| {
                if let Some(since) = t.flushes_since.take() {
                    t.sum.flush.add(now.saturating_sub(since));
                }
            }),
            _ => {}
        }
    }

    /// Does something with a thread; idle ones are no threads.
    fn of(&mut self, thread: Thread<'_>, f: impl FnOnce(&mut Tracked)) {
        if thread.pid == 0 {
            return;
        }
        let full = self.threads.len() >= THREADS_MAX;
        if full && !self.threads.contains_key(&thread.pid) {
            self.summary.left_out += 1;
            return;
        }
        let tracked = self.threads.entry(thread.pid).or_default();
        tracked.sum.pid = thread.pid;
        // The tracer's word for a thread whose name it does not know never replaces a name.
        let unknown = thread.comm == "<...>" && !tracked.sum.comm.is_empty();
        if tracked.sum.comm != thread.comm && !unknown {
            thread.comm.clone_into(&mut tracked.sum.comm);
        }
        f(tracked);
    }

    fn switch(&mut self, cpu: u32, now: u64, prev: Thread<'_>, state: State, next: Thread<'_>) {
        let Some(here) = self.cpus.get_mut(&cpu) else { return };
        here.sum.switches += 1;
        let ran = here.running.replace((next.pid, now)).map(|(pid, since)| (pid, now.saturating_sub(since)));
        match ran {
            Some((0, ns)) => here.sum.idle_ns = here.sum.idle_ns.saturating_add(ns),
            Some((_, ns)) => here.sum.busy_ns = here.sum.busy_ns.saturating_add(ns),
            None => {}
        }
        self.of(prev, |t| {
            // Lost events may have made another thread of this one: then its time is not told.
            if let Some((_, ns)) = ran.filter(|(pid, _)| *pid == prev.pid) {
                t.sum.runtime_ns = t.sum.runtime_ns.saturating_add(ns);
            }
            let runnable = state == State::Runnable;
            t.sum.preempted += u64::from(runnable);
            t.waits_since = runnable.then_some(now);
        });
        self.of(next, |t| {
            t.sum.switches += 1;
            if let Some(since) = t.waits_since.take() {
                t.sum.wait.add(now.saturating_sub(since));
            }
        });
    }

    fn finish(mut self) -> Summary {
        let mut threads: Vec<OfThread> = self.threads.into_values().map(|tracked| tracked.sum).collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.runtime_ns), thread.pid));
        self.summary.threads = threads;
        self.summary.cpus = self.cpus.into_values().map(|cpu| cpu.sum).collect();
        self.summary
    }
}
