//! The fields of the events that are understood.
//!
//! | | the kernel's format | as the plug-ins of trace-cmd and perf print it |
//! |---|---|---|
//! | switch | `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 ...` | `a:1 [120] S ==> b:2 [120]` |
//! | wake-up | `comm=a pid=1 prio=120 success=1 target_cpu=002` | `a:1 [120] success=1 CPU:002` |
//!
//! Older tools leave out `==>` and print `prev_state` as a number: 0, or a bit above those of the sleeping states for a
//! thread that was preempted.
use super::line::{Body, Damage, State, Thread};
use crate::ftrace::KICK_HYPERCALL;

/// States below which `prev_state` names a way of not being runnable (`TASK_WAKING` of 3.x).
const NOT_RUNNABLE: u64 = 0xff;

/// Reads the fields of the event `name`.
pub(super) fn body<'a>(name: &str, fields: &'a str) -> Result<Body<'a>, Damage> {
    // trace-cmd's own remark; what follows is `key=value` all the same.
    let fields = fields.strip_prefix("[FAILED TO PARSE]").map_or(fields, str::trim_start);
    Ok(match name {
        "sched_switch" => switch(fields)?,
        "sched_waking" => Body::Waking { thread: woken(fields)? },
        "sched_wakeup" | "sched_wakeup_new" if fields.contains(" success=0") => Body::Other,
        "sched_wakeup" | "sched_wakeup_new" => Body::Wakeup { thread: woken(fields)? },
        "sched_migrate_task" => Body::Migrate { thread: woken(fields)? },
        "kvm_entry" => Body::Entry,
        "kvm_exit" => Body::Exit { reason: word_after(fields, "reason").ok_or(Damage::Field("reason"))? },
        "kvm_apic_ipi" => {
            let to = word_after(fields, "dst").and_then(|word| u32::from_str_radix(word, 16).ok());
            Body::GuestIpi { to: to.ok_or(Damage::Field("dst"))? }
        }
        "kvm_inj_virq" => Body::GuestIrq,
        "kvm_hypercall" => hypercall(fields)?,
        "ipi_raise" => ipi(fields)?,
        "ipi_entry" => Body::IpiEntry,
        "tracing_mark_write" | "print" => mark(fields),
        _ => Body::Other,
    })
}

fn switch(fields: &str) -> Result<Body<'_>, Damage> {
    let Some(rest) = fields.strip_prefix("prev_comm=") else { return switch_of_plugin(fields) };
    let (comm, rest) = rest.split_once(" prev_pid=").ok_or(Damage::Field("prev_pid"))?;
    let prev = Thread { comm, pid: number(rest, "prev_pid")? };
    let state = value(rest, "prev_state=").ok_or(Damage::Field("prev_state"))?;
    let (_, rest) = rest.split_once("next_comm=").ok_or(Damage::Field("next_comm"))?;
    let (comm, rest) = rest.split_once(" next_pid=").ok_or(Damage::Field("next_pid"))?;
    let next = Thread { comm, pid: number(rest, "next_pid")? };
    Ok(Body::Switch { prev, state: state_of(state), next })
}

/// `a:1 [120] S ==> b:2 [120]`.
fn switch_of_plugin(fields: &str) -> Result<Body<'_>, Damage> {
    let (prev, next) = fields.split_once(" ==> ").ok_or(Damage::Field("==>"))?;
    let (_, state) = prev.rsplit_once(' ').ok_or(Damage::Field("prev_state"))?;
    Ok(Body::Switch {
        prev: with_prio(prev).ok_or(Damage::Field("prev_pid"))?,
        state: state_of(state),
        next: with_prio(next).ok_or(Damage::Field("next_pid"))?,
    })
}

/// `a:1 [120]` and whatever follows.
fn with_prio(text: &str) -> Option<Thread<'_>> {
    let (comm, pid) = text[..text.rfind(" [")?].rsplit_once(':')?;
    Some(Thread { comm, pid: pid.parse().ok()? })
}

/// `R`, `R+`, `S`, `D|W`, `0`, `1`, `256`.
fn state_of(text: &str) -> State {
    let runnable = match text.parse::<u64>() {
        Ok(bits) => bits & NOT_RUNNABLE == 0,
        Err(_) => text.starts_with('R'),
    };
    if runnable { State::Runnable } else { State::Blocked }
}

fn woken(fields: &str) -> Result<Thread<'_>, Damage> {
    match fields.strip_prefix("comm=") {
        Some(rest) => {
            let (comm, rest) = rest.split_once(" pid=").ok_or(Damage::Field("pid"))?;
            Ok(Thread { comm, pid: number(rest, "pid")? })
        }
        None => with_prio(fields).ok_or(Damage::Field("pid")),
    }
}

/// The digits at the beginning of `text`.
fn number(text: &str, field: &'static str) -> Result<u32, Damage> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().map_err(|_| Damage::Field(field))
}

/// The word that follows `key` somewhere in `text`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split_whitespace().next()
}

/// The word after the word `key`.
fn word_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == key)?;
    words.next()
}

fn hypercall(fields: &str) -> Result<Body<'_>, Damage> {
    let hex = |key| {
        let word = word_after(fields, key)?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let nr = hex("nr").ok_or(Damage::Field("nr"))?;
    if nr != KICK_HYPERCALL {
        return Ok(Body::Other);
    }
    let to = hex("a1").and_then(|vcpu| u32::try_from(vcpu).ok()).ok_or(Damage::Field("a1"))?;
    Ok(Body::Kick { to })
}

/// `target_mask=00000000,00000004 (why)`.
fn ipi(fields: &str) -> Result<Body<'_>, Damage> {
    let mask = value(fields, "target_mask=").and_then(first_of_mask).ok_or(Damage::Field("target_mask"))?;
    let why = fields.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    Ok(Body::Ipi { to: mask, why })
}

/// The lowest CPU of a mask of 32-bit words, the highest word first.
fn first_of_mask(mask: &str) -> Option<u32> {
    (0u32..).step_by(32).zip(mask.rsplit(',')).find_map(|(base, word)| {
        let bits = u32::from_str_radix(word, 16).ok().filter(|bits| *bits != 0)?;
        base.checked_add(bits.trailing_zeros())
    })
}

/// `B|pid|name`, `E|pid`, `I|pid|text`.
fn mark(fields: &str) -> Body<'_> {
    let mut parts = fields.splitn(3, '|');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("B"), Some(_), Some(name)) => Body::MarkBegin { name },
        (Some("E"), _, _) => Body::MarkEnd,
        (Some("I"), Some(_), Some(text)) => Body::Mark { text },
        _ => Body::Other,
    }
}
