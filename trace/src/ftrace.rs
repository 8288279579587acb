//! The text form: what `trace-cmd report` prints of the kernel's own events.
//!
//! ```text
//! # tracer: nop
//! #
//! # vmmlab sim, mode gang, block 0, seed 7
//! # entries-in-buffer/entries-written: 1000000/1000000   #P:8
//! #
//!          vcpu0.3-4     [002]     1.500000123: sched_switch:         prev_comm=vcpu0.3 prev_pid=4 prev_prio=120 ...
//! ```
//! Formats are those of `include/trace/events/sched.h`, `ipi.h` and `arch/x86/kvm/trace.h`; `kvm_entry` and `kvm_exit`
//! in the form that they had in 3.4, since no instruction pointer is recorded. What the kernel has no event for is
//! written as user space would mark it (`tracing_mark_write`: `B|pid|name`, `E|pid`, `I|pid|text`). Entries written
//! and not in the buffer are those that found no room. Times have nine digits: nothing is rounded.
use std::fmt::Write as _;
use std::io::{self, Write};

use hostsched::CpuId;

use crate::event::{What, Who};
use crate::whole::Trace;

/// Number of the hypercall with which a guest ends the halt of another vCPU (`KVM_HC_KICK_CPU`).
pub const KICK_HYPERCALL: u64 = 5;
/// Slice of a vCPU that waits for its flush.
pub const FLUSH_MARK: &str = "flush";
/// Mark of a vCPU whose halt is over.
pub const HALT_OVER_MARK: &str = "halt_over";
/// Mark of a vCPU that spun too long.
pub const SPIN_MARK: &str = "spin";
/// Mark of a vCPU that halts.
pub const HALT_MARK: &str = "halt";
/// Why most interrupts between CPUs are sent.
const RESCHED: &str = "Rescheduling interrupts";
/// `prio` of every task of the lab: nice 0.
const PRIO: u32 = 120;

/// Writes the whole trace.
///
/// # Errors
/// Those of `out`.
pub fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let in_buffer = trace.events.len() as u64;
    let written = in_buffer + trace.dropped;
    writeln!(out, "# tracer: nop\n#\n# vmmlab {}", trace.title)?;
    writeln!(out, "# entries-in-buffer/entries-written: {in_buffer}/{written}   #P:{}\n#", trace.cpus.len())?;
    let mut writer = Writer { trace, running: trace.running_at_start() };
    let mut line = String::new();
    for event in &trace.events {
        line.clear();
        writer.line(&mut line, event);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

struct Writer<'a> {
    trace: &'a Trace,
    /// Who has each CPU.
    running: Vec<Who>,
}

impl Writer<'_> {
    fn line(&mut self, line: &mut String, event: &crate::Event) {
        let slot = self.trace.cpus.binary_search(&event.cpu).ok();
        let here = slot.map_or(Who::IDLE, |slot| self.running[slot]);
        let (comm, pid) = self.trace.names.thread(here, event.cpu);
        let (seconds, nanos) = (event.at_ns / 1_000_000_000, event.at_ns % 1_000_000_000);
        let comm = if here == Who::IDLE { "<idle>" } else { comm.as_ref() };
        // Writing to a String cannot fail.
        let _ = write!(line, "{comm:>16}-{pid:<7} [{:03}] {seconds:5}.{nanos:09}: ", event.cpu.0);
        let _ = self.event(line, event.cpu, event.what);
        if let (What::Switch { next, .. }, Some(slot)) = (event.what, slot) {
            self.running[slot] = next;
        }
    }

    fn event(&self, line: &mut String, cpu: CpuId, what: What) -> std::fmt::Result {
        let task = |task| self.trace.names.thread(Who::task(task), cpu);
        let number = |task| self.trace.names.get(task).and_then(|t| t.vcpu).map_or(0, |(_, number)| number);
        let mut name = |name: &str| write!(line, "{name}:{:1$}", "", 20usize.saturating_sub(name.len()));
        match what {
            What::Switch { prev, state, next } => {
                name("sched_switch")?;
                let (prev_comm, prev_pid) = self.trace.names.thread(prev, cpu);
                let (next_comm, next_pid) = self.trace.names.thread(next, cpu);
                let state = state.letter();
                write!(
                    line,
                    "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={PRIO} prev_state={state} ==> \
                     next_comm={next_comm} next_pid={next_pid} next_prio={PRIO}"
                )
            }
            What::Waking { task: t, target } => {
                name("sched_waking")?;
                let (comm, pid) = task(t);
                write!(line, "comm={comm} pid={pid} prio={PRIO} target_cpu={:03}", target.0)
            }
            What::Wakeup { task: t } => {
                name("sched_wakeup")?;
                let (comm, pid) = task(t);
                write!(line, "comm={comm} pid={pid} prio={PRIO} target_cpu={:03}", cpu.0)
            }
            What::Migrate { task: t, from } => {
                name("sched_migrate_task")?;
                let (comm, pid) = task(t);
                write!(line, "comm={comm} pid={pid} prio={PRIO} orig_cpu={from} dest_cpu={cpu}")
            }
            What::Entry { task } => {
                name("kvm_entry")?;
                write!(line, "vcpu {}", number(task))
            }
            What::Exit { task: _, reason } => {
                name("kvm_exit")?;
                write!(line, "reason {} rip 0x0 info 0 0", reason.name())
            }
            What::GuestIpi { from: _, to } => {
                name("kvm_apic_ipi")?;
                let vector = self.trace.flush_vector;
                write!(line, "dst {:x} vec {vector} (Fixed|physical|assert|edge|dst)", number(to))
            }
            What::GuestIrq { task: _ } => {
                name("kvm_inj_virq")?;
                write!(line, "irq {}", self.trace.flush_vector)
            }
            What::Kick { from: _, to } => {
                name("kvm_hypercall")?;
                write!(line, "nr {KICK_HYPERCALL:#x} a0 0x0 a1 {:#x} a2 0x0 a3 0x0", number(to))
            }
            What::Resched { to } => {
                name("ipi_raise")?;
                write!(line, "target_mask={} ({RESCHED})", Mask(to))
            }
            What::Gang { to, vm } => {
                name("ipi_raise")?;
                write!(line, "target_mask={} (gang of vm{vm})", Mask(to))
            }
            What::HostIrq { all: _ } => {
                name("ipi_entry")?;
                write!(line, "({RESCHED})")
            }
            What::FlushBegin { task: t, targets } => {
                name("tracing_mark_write")?;
                write!(line, "B|{}|{FLUSH_MARK}", task(t).1)?;
                targets.map_or(Ok(()), |n| write!(line, " of {n}"))
            }
            What::FlushEnd { task: t } => {
                name("tracing_mark_write")?;
                write!(line, "E|{}", task(t).1)
            }
            What::HaltOver { task: t } => {
                name("tracing_mark_write")?;
                write!(line, "I|{}|{HALT_OVER_MARK}", task(t).1)
            }
            What::Spin { task: t, yielded } => {
                name("tracing_mark_write")?;
                write!(line, "I|{}|{SPIN_MARK}{}", task(t).1, if yielded { ", yields" } else { "" })
            }
            What::Halt { task: t } => {
                name("tracing_mark_write")?;
                write!(line, "I|{}|{HALT_MARK}", task(t).1)
            }
        }
    }
}

/// A CPU mask with one bit, as the kernel prints it (`%*pb`): words of 32 bits in hexadecimal.
struct Mask(CpuId);

impl std::fmt::Display for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bit: u32 = 1 << (self.0.0 % 32);
        write!(f, "{bit:08x}")?;
        (0..self.0.0 / 32).try_for_each(|_| f.write_str(",00000000"))
    }
}
