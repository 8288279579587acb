//! What a picture of the schedule needs, read from a saved trace: who ran where in a window, who waited for a flush, and
//! which interrupts went from whom to whom.
//!
//! The file is read once and streams; only what lies in the window is kept, and of that at most
//! [`Window::items_max`] things. Times are those of the trace's clock.
//!
//! ```
//! use trace::timeline::{Timeline, Window};
//! let text = "\
//!  vcpu0.0-1 [000] 1.000000: sched_switch: prev_comm=vcpu0.0 prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=vcpu1.0 next_pid=2 next_prio=120
//!  vcpu1.0-2 [000] 1.004000: sched_switch: prev_comm=vcpu1.0 prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=vcpu0.0 next_pid=1 next_prio=120
//! ";
//! let timeline = Timeline::read(text.as_bytes(), Window::default()).unwrap();
//! let run = &timeline.runs[0];
//! assert_eq!((run.cpu, run.from_ns, run.to_ns), (0, 1_000_000_000, 1_004_000_000));
//! assert_eq!(timeline.threads[run.thread].vcpu, Some((1, 0)));
//! ```
use std::collections::BTreeMap;
use std::io::{self, BufRead};

use crate::ftrace::FLUSH_MARK;
use crate::names::Task;
use crate::read::{Body, Item, Line, Thread, read};

/// Which part of a trace is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it begins, counted from the first event.
    pub skip_ns: u64,
    /// How long it is.
    pub len_ns: u64,
    /// The most runs, flushes and arrows that are kept, each.
    pub items_max: usize,
}

impl Default for Window {
    /// The first 100 ms.
    fn default() -> Self {
        Self { skip_ns: 0, len_ns: 100_000_000, items_max: 20_000 }
    }
}

/// A thread that ran in the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub comm: String,
    /// Its id.
    pub pid: u32,
    /// VM and number, if the name says that it is a vCPU of the lab.
    pub vcpu: Option<(u32, u32)>,
}

/// A thread had a CPU; idle time is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub cpu: u32,
    /// Index into [`Timeline::threads`].
    pub thread: usize,
    /// From then, cut to the window ...
    pub from_ns: u64,
    /// ... until then.
    pub to_ns: u64,
}

/// A vCPU waited for its flush, on a CPU or without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// Index into [`Timeline::threads`].
    pub thread: usize,
    /// From then, cut to the window ...
    pub from_ns: u64,
    /// ... until then.
    pub to_ns: u64,
}

/// What an [`Arrow`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An interrupt from vCPU to vCPU, until its handler began.
    GuestIpi,
    /// A kick that ended a halt.
    Kick,
    /// One CPU made another look at its run queue; an instant.
    Resched,
    /// A gang leader asked another CPU; an instant.
    Gang,
}

/// Something that went from one CPU to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrow {
    /// What.
    pub kind: Kind,
    /// From which CPU.
    pub from_cpu: u32,
    /// When.
    pub from_ns: u64,
    /// To which CPU; `None` if what was sent did not arrive in the window.
    pub to_cpu: Option<u32>,
    /// When it arrived; for an instant when it was sent.
    pub to_ns: u64,
}

/// A window of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Begin of the window.
    pub from_ns: u64,
    /// Its end; earlier than asked for if the trace ends before.
    pub to_ns: u64,
    /// The CPUs of the whole trace, ascending.
    pub cpus: Vec<u32>,
    /// The threads that the window speaks of.
    pub threads: Vec<Named>,
    /// Who ran where, by end.
    pub runs: Vec<Run>,
    /// Who waited for a flush, by end.
    pub flushes: Vec<Flush>,
    /// Interrupts and kicks, by arrival.
    pub arrows: Vec<Arrow>,
    /// Things in the window beyond [`Window::items_max`].
    pub left_out: u64,
    /// Events of the whole trace.
    pub events: u64,
    /// First and last time of the whole trace.
    pub span_ns: Option<(u64, u64)>,
    /// Events that the tracer lost.
    pub lost: u64,
    /// Lines that could not be read.
    pub damaged: u64,
}

impl Timeline {
    /// Reads a trace in text form, to its end.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn read(input: impl BufRead, window: Window) -> io::Result<Self> {
        let mut reader = Reader::new(window);
        read(input, |_, item| match item {
            Item::Event(line) => reader.event(&line),
            Item::Lost(n) => reader.timeline.lost = reader.timeline.lost.saturating_add(n),
            Item::Damaged(_) => reader.timeline.damaged += 1,
        })?;
        Ok(reader.finish())
    }
}

/// CPUs that are followed; a trace that names more is no trace of a real machine.
const CPUS_MAX: usize = 8192;
/// Threads that are told apart in a window.
const THREADS_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct Cpu {
    /// Who has it, since when; `None` before its first switch, and while it is idle.
    running: Option<(usize, u64)>,
    seen_switch: bool,
}

struct Reader {
    window: Window,
    timeline: Timeline,
    cpus: BTreeMap<u32, Cpu>,
    /// Threads by id.
    index: BTreeMap<u32, usize>,
    /// Flushes under way: thread and begin.
    flushing: BTreeMap<usize, u64>,
    /// Sent and not yet arrived, by receiving vCPU: sender's CPU and time.
    ipis: BTreeMap<(u32, u32), Vec<(u32, u64)>>,
    kicks: BTreeMap<(u32, u32), Vec<(u32, u64)>>,
}

impl Reader {
    fn new(window: Window) -> Self {
        Self {
            window,
            timeline: Timeline::default(),
            cpus: BTreeMap::new(),
            index: BTreeMap::new(),
            flushing: BTreeMap::new(),
            ipis: BTreeMap::new(),
            kicks: BTreeMap::new(),
        }
    }

    fn event(&mut self, line: &Line<'_>) {
        let now = line.at_ns;
        self.timeline.events += 1;
        if self.timeline.span_ns.is_none() {
            self.timeline.from_ns = now.saturating_add(self.window.skip_ns);
            self.timeline.to_ns = self.timeline.from_ns.saturating_add(self.window.len_ns);
        }
        let (first, last) = self.timeline.span_ns.unwrap_or((now, now));
        self.timeline.span_ns = Some((first.min(now), last.max(now)));
        if !self.cpus.contains_key(&line.cpu) {
            if self.cpus.len() == CPUS_MAX {
                return;
            }
            self.cpus.insert(line.cpu, Cpu::default());
        }
        // Of what comes after the window only the first switch of each CPU and the ends of flushes say anything about it.
        match line.body {
            Body::Switch { prev, next, .. } => self.switch(line.cpu, now, prev, next),
            Body::MarkEnd => self.flush_ends(line),
            _ if now >= self.timeline.to_ns => {}
            Body::MarkBegin { name } if is_flush(name) => {
                if let Some(thread) = self.thread(line.thread) {
                    self.flushing.insert(thread, now);
                }
            }
            Body::GuestIpi { to } => Self::sent(&mut self.ipis, line, to),
            Body::Kick { to } => Self::sent(&mut self.kicks, line, to),
            Body::GuestIrq => self.arrived(Kind::GuestIpi, line),
            Body::Mark { text } if text == crate::ftrace::HALT_OVER_MARK => self.arrived(Kind::Kick, line),
            Body::Ipi { to, why } => {
                let kind = if why.starts_with("gang") { Kind::Gang } else { Kind::Resched };
                self.arrow(Arrow { kind, from_cpu: line.cpu, from_ns: now, to_cpu: Some(to), to_ns: now });
            }
            _ => {}
        }
    }

    /// Index of a thread; `None` for idle ones, and beyond the limit.
    fn thread(&mut self, thread: Thread<'_>) -> Option<usize> {
        if thread.pid == 0 {
            return None;
        }
        let next = self.timeline.threads.len();
        if let Some(index) = self.index.get(&thread.pid) {
            return Some(*index);
        }
        if next == THREADS_MAX {
            return None;
        }
        self.index.insert(thread.pid, next);
        let vcpu = Task::vcpu_of_comm(thread.comm);
        self.timeline.threads.push(Named { comm: thread.comm.to_owned(), pid: thread.pid, vcpu });
        Some(next)
    }

    fn switch(&mut self, cpu: u32, now: u64, prev: Thread<'_>, next: Thread<'_>) {
        let begins_inside = now < self.timeline.to_ns;
        let Some(state) = self.cpus.get(&cpu) else { return };
        if !begins_inside && state.running.is_none() && state.seen_switch {
            return;
        }
        let ran = match (state.running, state.seen_switch) {
            (Some(ran), _) => Some(ran),
            // It had the CPU since before the trace.
            (None, false) => {
                let since = self.timeline.span_ns.map_or(now, |(first, _)| first);
                self.thread(prev).map(|thread| (thread, since))
            }
            (None, true) => None,
        };
        if let Some((thread, from_ns)) = ran {
            self.ran(cpu, thread, from_ns, now);
        }
        let running = if begins_inside { self.thread(next).map(|thread| (thread, now)) } else { None };
        self.cpus.insert(cpu, Cpu { running, seen_switch: true });
    }

    /// The part of a stretch of time that lies in the window.
    fn inside(&self, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        let (from, to) = (from_ns.max(self.timeline.from_ns), to_ns.min(self.timeline.to_ns));
        (from < to).then_some((from, to))
    }

    fn ran(&mut self, cpu: u32, thread: usize, from_ns: u64, to_ns: u64) {
        let Some((from_ns, to_ns)) = self.inside(from_ns, to_ns) else { return };
        if self.timeline.runs.len() < self.window.items_max {
            self.timeline.runs.push(Run { cpu, thread, from_ns, to_ns });
        } else {
            self.timeline.left_out += 1;
        }
    }

    fn flush_ends(&mut self, line: &Line<'_>) {
        if self.flushing.is_empty() {
            return;
        }
        let Some(thread) = self.thread(line.thread) else { return };
        if let Some(since) = self.flushing.remove(&thread) {
            self.flushed(thread, since, line.at_ns);
        }
    }

    fn flushed(&mut self, thread: usize, from_ns: u64, to_ns: u64) {
        let Some((from_ns, to_ns)) = self.inside(from_ns, to_ns) else { return };
        if self.timeline.flushes.len() < self.window.items_max {
            self.timeline.flushes.push(Flush { thread, from_ns, to_ns });
        } else {
            self.timeline.left_out += 1;
        }
    }

    /// The sender's line says which VM: the number is that of a vCPU of the same one.
    fn sent(pending: &mut BTreeMap<(u32, u32), Vec<(u32, u64)>>, line: &Line<'_>, to: u32) {
        /// Interrupts that may be on their way to one vCPU: one a sender, and a guest has at most 64.
        const PENDING_MAX: usize = 64;
        if let Some((vm, _)) = Task::vcpu_of_comm(line.thread.comm) {
            let sent = pending.entry((vm, to)).or_default();
            if sent.len() < PENDING_MAX {
                sent.push((line.cpu, line.at_ns));
            }
        }
    }

    fn arrived(&mut self, kind: Kind, line: &Line<'_>) {
        let Some(vcpu) = Task::vcpu_of_comm(line.thread.comm) else { return };
        let pending = if kind == Kind::Kick { &mut self.kicks } else { &mut self.ipis };
        for (from_cpu, from_ns) in pending.remove(&vcpu).unwrap_or_default() {
            self.arrow(Arrow { kind, from_cpu, from_ns, to_cpu: Some(line.cpu), to_ns: line.at_ns });
        }
    }

    fn arrow(&mut self, arrow: Arrow) {
        if arrow.to_ns < self.timeline.from_ns {
            return;
        }
        if self.timeline.arrows.len() < self.window.items_max {
            self.timeline.arrows.push(arrow);
        } else {
            self.timeline.left_out += 1;
        }
    }

    /// What is still going on when the trace ends.
    fn finish(mut self) -> Timeline {
        let Some((_, last)) = self.timeline.span_ns else { return self.timeline };
        for (cpu, state) in std::mem::take(&mut self.cpus) {
            if let Some((thread, since)) = state.running {
                self.ran(cpu, thread, since, last);
            }
            self.timeline.cpus.push(cpu);
        }
        for (thread, since) in std::mem::take(&mut self.flushing) {
            self.flushed(thread, since, last);
        }
        self.timeline.to_ns = self.timeline.to_ns.min(last).max(self.timeline.from_ns);
        self.timeline
    }
}

/// `flush`, or `flush of 7`.
fn is_flush(name: &str) -> bool {
    name.strip_prefix(FLUSH_MARK).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
