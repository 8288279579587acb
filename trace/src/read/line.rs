//! One line of a trace: who, where, when, what.
//!
//! The CPU in brackets followed by a time is what every format has in common; what stands before it is the task, and
//! what follows the event. Thread names may hold spaces, colons and brackets, so the line is searched for that pair.
use std::fmt;

use super::Item;
use super::fields::body;

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Longer than [`super::LINE_MAX`].
    TooLong,
    /// No `[CPU] SECONDS.FRACTION:`.
    NoTime,
    /// Nothing that reads as a thread before the CPU.
    NoThread,
    /// A CPU number that does not fit 32 bits, or a time that does not fit 64 bits of nanoseconds.
    TooLarge,
    /// A field of an event that should be there.
    Field(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the line is longer than {} bytes", super::LINE_MAX),
            Self::NoTime => f.write_str("there is no [CPU] and time"),
            Self::NoThread => f.write_str("there is no thread before the CPU"),
            Self::TooLarge => f.write_str("its CPU or time is too large"),
            Self::Field(name) => write!(f, "its field {name} cannot be read"),
        }
    }
}

/// A thread as a trace names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread<'a> {
    /// Its name.
    pub comm: &'a str,
    /// Its id; 0 is the idle thread of the CPU.
    pub pid: u32,
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It wants to go on.
    Runnable,
    /// It waits for something, or has ended.
    Blocked,
}

/// An event's own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// `sched_switch`.
    Switch {
        /// Who had the CPU.
        prev: Thread<'a>,
        /// How it left.
        state: State,
        /// Who has it.
        next: Thread<'a>,
    },
    /// `sched_waking`.
    Waking {
        /// Who is woken.
        thread: Thread<'a>,
    },
    /// `sched_wakeup`, `sched_wakeup_new`.
    Wakeup {
        /// Who was woken.
        thread: Thread<'a>,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Who moved.
        thread: Thread<'a>,
    },
    /// `kvm_entry`.
    Entry,
    /// `kvm_exit`.
    Exit {
        /// By the kernel's name.
        reason: &'a str,
    },
    /// `kvm_apic_ipi`.
    GuestIpi {
        /// The receiving vCPU's number.
        to: u32,
    },
    /// `kvm_inj_virq`.
    GuestIrq,
    /// `kvm_hypercall` with the number of `KVM_HC_KICK_CPU`.
    Kick {
        /// The receiving vCPU's number.
        to: u32,
    },
    /// `ipi_raise` to one CPU.
    Ipi {
        /// The first CPU of the mask.
        to: u32,
        /// The reason in parentheses.
        why: &'a str,
    },
    /// `ipi_entry`.
    IpiEntry,
    /// `tracing_mark_write`, `B|pid|name`.
    MarkBegin {
        /// The name.
        name: &'a str,
    },
    /// `tracing_mark_write`, `E|pid`.
    MarkEnd,
    /// `tracing_mark_write`, `I|pid|text`.
    Mark {
        /// The text.
        text: &'a str,
    },
    /// Any other event.
    Other,
}

/// An event of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// When, in ns of the trace's clock.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The thread that had the CPU, as the tracer saw it: `<...>` if it did not know the name.
    pub thread: Thread<'a>,
    /// The event's name, without its subsystem.
    pub name: &'a str,
    /// What happened.
    pub body: Body<'a>,
}

/// Reads a line without its end; `None` for one that is no event: a comment, a header, nothing.
pub(super) fn parse(text: &str) -> Option<Item<'_>> {
    let trimmed = text.trim_start();
    if trimmed.is_empty() || trimmed.starts_with('#') || is_header(trimmed) {
        return None;
    }
    if let Some(lost) = lost(trimmed) {
        return Some(Item::Lost(lost));
    }
    Some(event(text).map_or_else(Item::Damaged, Item::Event))
}

/// `version = 6`, `cpus=8`, `CPU 3 is empty`.
fn is_header(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.strip_prefix("version = ").is_some_and(digits)
        || text.strip_prefix("cpus=").is_some_and(digits)
        || text.strip_prefix("CPU ").and_then(|rest| rest.strip_suffix(" is empty")).is_some_and(digits)
}

/// `CPU:3 [LOST 120 EVENTS]`; `CPU:3 [EVENTS DROPPED]`, which does not say how many.
fn lost(text: &str) -> Option<u64> {
    let (_, rest) = text.strip_prefix("CPU:")?.split_once(" [")?;
    let rest = rest.strip_suffix(']')?;
    if rest == "EVENTS DROPPED" {
        return Some(1);
    }
    rest.strip_prefix("LOST ")?.strip_suffix(" EVENTS")?.parse().ok()
}

fn event(text: &str) -> Result<Line<'_>, Damage> {
    let Place { head, cpu, time, rest } = place(text).ok_or(Damage::NoTime)?;
    let thread = thread(head).ok_or(Damage::NoThread)?;
    let cpu = cpu.parse().map_err(|_| Damage::TooLarge)?;
    let at_ns = nanos(time).ok_or(Damage::TooLarge)?;
    let (name, fields) = name(rest);
    Ok(Line { at_ns, cpu, thread, name, body: body(name, fields)? })
}

/// The pieces of a line.
struct Place<'a> {
    head: &'a str,
    cpu: &'a str,
    time: &'a str,
    rest: &'a str,
}

/// Searches for `[CPU] flags? SECONDS.FRACTION:`.
fn place(text: &str) -> Option<Place<'_>> {
    text.match_indices('[').find_map(|(open, _)| {
        let (cpu, after) = text[open + 1..].split_once(']')?;
        if cpu.is_empty() || !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (first, rest) = token(after);
        let (time, rest) = match first.strip_suffix(':') {
            Some(time) => (time, rest),
            // Flags like `d.h3` stand between.
            None if first.len() <= 8 => {
                let (second, rest) = token(rest);
                (second.strip_suffix(':')?, rest)
            }
            None => return None,
        };
        let (seconds, fraction) = time.split_once('.')?;
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (digits(seconds) && digits(fraction)).then_some(Place { head: &text[..open], cpu, time, rest })
    })
}

/// The first word, and what follows it.
fn token(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// `comm-pid`, `comm-pid (tgid)`, `comm pid`, `comm pid/tid`.
fn thread(head: &str) -> Option<Thread<'_>> {
    let mut head = head.trim();
    if let Some(open) = head.strip_suffix(')').and_then(|rest| rest.rfind(" (")) {
        head = head[..open].trim_end();
    }
    if let Some((comm, pids)) = head.rsplit_once(char::is_whitespace) {
        let pid = pids.rsplit('/').next().unwrap_or(pids);
        if let Ok(pid) = pid.parse() {
            return Some(Thread { comm: comm.trim_end(), pid });
        }
    }
    let (comm, pid) = head.rsplit_once('-')?;
    Some(Thread { comm, pid: pid.parse().ok()? })
}

/// Seconds with a fraction, in ns; digits beyond the ninth are cut.
fn nanos(time: &str) -> Option<u64> {
    let (seconds, fraction) = time.split_once('.')?;
    let fraction = &fraction[..fraction.len().min(9)];
    let unit = 10u64.checked_pow(9 - u32::try_from(fraction.len()).ok()?)?;
    let nanos = fraction.parse::<u64>().ok()? * unit;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The event's name, without a counter's value and a subsystem before it, and its fields.
fn name(rest: &str) -> (&str, &str) {
    let (mut name, mut fields) = token(rest);
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        (name, fields) = token(fields);
    }
    let name = name.strip_suffix(':').unwrap_or(name);
    let name = name.rsplit(':').next().unwrap_or(name);
    (name, fields.trim())
}
