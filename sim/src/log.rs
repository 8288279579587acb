//! The event log: one line an event, made to be compared with `diff`.
//!
//! ```text
//!   1000001 c2 run 0.3<-          time since the start of the run (ns), CPU, event, what it is about
//!   1002001 c2 in 0.3             -: no CPU in particular
//! ```
//! [`LEGEND`] explains every event; it stands at the top of each log, so that a log explains itself. Times are absolute
//! and nothing else is in a line that changes from run to run: the first line that differs is where two runs part.
//!
//! Property: a log has at most the number of lines that it was made for; a notice says how many events it left out.
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use hostsched::CpuId;
use plan::RunPlan;

use crate::observe::{Event, Interrupt, Sink, Watch};

/// What each event looks like, and what it means.
pub const LEGEND: &[(&str, &str)] = &[
    ("run NEXT<-PREV", "schedule: NEXT has the CPU, PREV had it; V.N is vCPU N of VM V, k the kernel thread, - nobody"),
    ("in V.N", "enters guest mode"),
    ("out V.N", "leaves guest mode"),
    ("halt V.N", "halts in the host"),
    ("wake V.N cC", "a halted vCPU is woken by what this CPU executes, to run on CPU C"),
    ("send cC WHAT", "an interrupt is sent to CPU C: resched, wakeup, or gang V"),
    ("recv WHAT", "it has arrived; + a gang request that found members here; ~ the host looks at it later"),
    ("noise", "the tick gives work to the CPU's kernel thread"),
    ("flush V.N MASK", "begins a flush; the vCPUs of the hexadecimal mask must acknowledge"),
    ("ack V.N V.M", "V.N has flushed for V.M"),
    ("mark V.N", "the host flushes it before it executes again"),
    ("done V.N NS", "its flush is over after NS; !MASK: without these vCPUs"),
    ("kick V.N V.M", "V.N ends the halt of V.M, or sets its latch"),
    ("spin V.N", "a pause loop made it leave the guest; > a directed yield followed"),
    ("start V", "VM V starts"),
    ("off", "the CPU goes off line"),
    ("on", "the CPU comes on line"),
    ("ungroup V", "the group of VM V is removed"),
    ("kill V.N", "the vCPU's thread is killed, and its VM ends"),
];

/// The legend as comment lines.
fn legend() -> String {
    let line = |(event, meaning): &(&str, &str)| format!("# {event:<15} {meaning}\n");
    std::iter::once("# time(ns) CPU event\n".to_owned()).chain(LEGEND.iter().map(line)).collect()
}

/// An event as a line of the log shows it.
struct Line(u64, Event);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(at, event) = *self;
        match event {
            Event::Pick { cpu, prev, next } => write!(f, "{at} c{cpu} run {next}<-{prev}"),
            Event::Enter { cpu, vcpu } => write!(f, "{at} c{cpu} in {vcpu}"),
            Event::Exit { cpu, vcpu } => write!(f, "{at} c{cpu} out {vcpu}"),
            Event::Halt { cpu, vcpu } => write!(f, "{at} c{cpu} halt {vcpu}"),
            Event::Wake { vcpu, by, on } => write!(f, "{at} c{by} wake {vcpu} c{on}"),
            Event::Send { from, to, what } => {
                write!(f, "{at} ")?;
                place(f, from)?;
                write!(f, " send c{to} ")?;
                interrupt(f, what)
            }
            Event::Receive { cpu, what, deferred, heeded } => {
                write!(f, "{at} c{cpu} recv ")?;
                interrupt(f, what)?;
                f.write_str(if heeded { "+" } else { "" })?;
                f.write_str(if deferred { "~" } else { "" })
            }
            Event::Noise { cpu } => write!(f, "{at} c{cpu} noise"),
            Event::FlushBegin { vcpu, outstanding } => write!(f, "{at} - flush {vcpu} {outstanding:x}"),
            Event::FlushAck { by, of } => write!(f, "{at} - ack {by} {of}"),
            Event::FlushEnd { vcpu, waited_ns, outstanding: 0 } => write!(f, "{at} - done {vcpu} {waited_ns}"),
            Event::FlushEnd { vcpu, waited_ns, outstanding } => {
                write!(f, "{at} - done {vcpu} {waited_ns} !{outstanding:x}")
            }
            Event::Mark { vcpu } => write!(f, "{at} - mark {vcpu}"),
            Event::Kick { by, to } => write!(f, "{at} - kick {by} {to}"),
            Event::PauseExit { cpu, vcpu, yielded } => {
                write!(f, "{at} c{cpu} spin {vcpu}{}", if yielded { ">" } else { "" })
            }
            Event::Start { vm } => write!(f, "{at} - start {vm}"),
            Event::Offline { cpu } => write!(f, "{at} c{cpu} off"),
            Event::Online { cpu } => write!(f, "{at} c{cpu} on"),
            Event::GroupRemoved { vm } => write!(f, "{at} - ungroup {vm}"),
            Event::Killed { vcpu } => write!(f, "{at} - kill {vcpu}"),
        }
    }
}

fn place(f: &mut fmt::Formatter<'_>, cpu: Option<CpuId>) -> fmt::Result {
    match cpu {
        None => f.write_str("-"),
        Some(cpu) => write!(f, "c{cpu}"),
    }
}

fn interrupt(f: &mut fmt::Formatter<'_>, what: Interrupt) -> fmt::Result {
    match what {
        Interrupt::Resched => f.write_str("resched"),
        Interrupt::Wakeup => f.write_str("wakeup"),
        Interrupt::Gang { vm } => write!(f, "gang {vm}"),
    }
}

/// The text so far.
#[derive(Debug, Default)]
struct Text {
    text: String,
    lines_left: u64,
    left_out: u64,
}

/// The log of any number of runs, one after the other in the order in which they began.
#[derive(Debug, Clone)]
pub struct EventLog(Arc<Mutex<Text>>);

impl EventLog {
    /// An empty log with room for that many events, over all runs.
    #[must_use]
    pub fn new(lines_max: u64) -> Self {
        Self(Arc::new(Mutex::new(Text { text: legend(), lines_left: lines_max, left_out: 0 })))
    }

    fn text(&self) -> std::sync::MutexGuard<'_, Text> {
        // Whoever panicked in the middle of a line leaves a log that is worth reading.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole log, with a notice at its end if it was cut.
    #[must_use]
    pub fn render(&self) -> String {
        let text = self.text();
        match text.left_out {
            0 => text.text.clone(),
            n => format!("{}# cut here: {n} more events do not fit\n", text.text),
        }
    }

    /// Events that did not fit.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.text().left_out
    }
}

impl Watch for EventLog {
    fn begin(&self, plan: &RunPlan) -> Option<Box<dyn Sink>> {
        let (mode, block, seed) = (&plan.mode, plan.block, plan.seed);
        let _ = writeln!(self.text().text, "# run: mode {mode}, block {block}, seed {seed}");
        Some(Box::new(RunLog(self.clone())))
    }
}

/// The log of the run under way.
#[derive(Debug)]
struct RunLog(EventLog);

impl Sink for RunLog {
    fn event(&mut self, now_ns: u64, event: Event) {
        let mut text = self.0.text();
        if text.lines_left == 0 {
            text.left_out += 1;
            return;
        }
        text.lines_left -= 1;
        let _ = writeln!(text.text, "{}", Line(now_ns, event));
    }

    fn end(&mut self, now_ns: u64) {
        let _ = writeln!(self.0.text().text, "# end: {now_ns}");
    }
}
