//! What is known of a vCPU, a guest thread and a VM.
//!
//! ```text
//!              schedule                 enter                    HLT exit
//!     Ready ─────────────► Host(cpu) ─────────────► Guest(cpu) ─────────────► Halted
//!       ▲                     ▲ ▲        tick, IPI     │  │                     │
//!       └── preempted ────────┘ └──────────────────────┘  └─ preempted ► Ready  └─ interrupt or kick ► Ready
//! ```
//! Properties: interrupts of a vCPU that is not in guest mode, or has them off, stay pending; a vCPU with something
//! pending never halts; a halted one is woken by what becomes pending.
use std::collections::VecDeque;

use abi::vcpu::Doing;
use hostsched::CpuId;

use crate::ids::{ThreadId, VcpuId};
use crate::rng::Stream;
use crate::workload::{Program, Shared};
use crate::world::{Locking, SpinLock};

/// Where a vCPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Wants a CPU.
    Ready,
    /// Has a CPU that executes the host.
    Host(CpuId),
    /// Has a CPU that executes the guest.
    Guest(CpuId),
    /// Blocked in the host until something is pending.
    Halted,
    /// Its thread has ended.
    Gone,
}

/// What a vCPU does when it executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asks its current thread for the next operation.
    Fetch,
    /// Computes for another [`Vcpu::remaining`].
    Work,
    /// Spins for its flush.
    FlushSpin,
    /// Halts until its flush is over.
    FlushHalt,
    /// Has nothing to run.
    Idle,
    /// Spins for a spinlock.
    LockSpin,
    /// Halts until a spinlock is its own.
    LockHalt,
}

impl Phase {
    /// Number of phases, for tables by phase.
    pub(crate) const COUNT: usize = 7;
}

/// The flush that a vCPU has under way (`struct smp_flush_state`, one slot a sender).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlushSlot {
    /// Targets that have not acknowledged, by number in the VM.
    pub(crate) outstanding: u64,
    /// When the last of those that have did so; may lie ahead.
    pub(crate) ready_at: u64,
    pub(crate) started_at: u64,
    /// When the interrupt was sent ...
    pub(crate) sent_at: u64,
    /// ... and what its targets did then: a mask for each [`Doing`].
    pub(crate) doing: [u64; Doing::ALL.len()],
    /// The VM's flush generation that this flush completes.
    pub(crate) generation: u64,
    /// No flush, but an interrupt there and back ([`begin_ipi`](crate::world::World::begin_ipi)).
    pub(crate) ipi: bool,
    /// Its sender still waits (`flush_mm` is set): a handler that finds it clear does not flush.
    pub(crate) active: bool,
}

/// A vCPU.
#[derive(Debug, Clone)]
pub(crate) struct Vcpu {
    pub(crate) vm: usize,
    /// Number in its VM.
    pub(crate) number: u32,
    pub(crate) place: Place,
    /// The CPU it had last.
    pub(crate) last_cpu: CpuId,
    pub(crate) irqs_on: bool,
    /// Flush interrupts pending, one bit a sender.
    pub(crate) flush_irqs: u64,
    /// When the oldest of them was sent.
    pub(crate) flush_irq_at: u64,
    /// A reschedule interrupt is pending.
    pub(crate) resched_irq: bool,
    /// The kick latch.
    pub(crate) kick: bool,
    /// The host flushes before the next guest instruction.
    pub(crate) flush_on_enter: bool,
    /// Every flush up to this generation has been done here.
    pub(crate) tlb_generation: u64,
    pub(crate) phase: Phase,
    /// Work left, in ns as it now goes.
    pub(crate) remaining: u64,
    /// Handlers occupy it until then.
    pub(crate) busy_until: u64,
    /// Since when its time has not been accounted.
    pub(crate) mark: u64,
    /// When it became runnable.
    pub(crate) ready_since: u64,
    pub(crate) flush: FlushSlot,
    pub(crate) locking: Locking,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) queue: VecDeque<ThreadId>,
    /// Next timer interrupt.
    pub(crate) tick_at: u64,
    /// Ticks that the current thread has left.
    pub(crate) slice: u32,
    /// Alarms set for this vCPU's timer while it halts carry this; older ones are void.
    pub(crate) alarm: u32,
    pub(crate) records: u64,
    pub(crate) cpu_ns: u64,
}

impl Vcpu {
    /// Its bit in masks of its VM.
    #[inline]
    pub(crate) fn bit(&self) -> u64 {
        1 << self.number
    }

    /// What it does now.
    pub(crate) fn doing(&self) -> Doing {
        match (self.place, self.phase) {
            (Place::Guest(_) | Place::Host(_), _) => Doing::Running,
            (Place::Ready | Place::Gone, _) => Doing::Preempted,
            (Place::Halted, Phase::Idle) => Doing::Idle,
            (Place::Halted, _) if self.irqs_on => Doing::Halted,
            (Place::Halted, _) => Doing::HaltedIrqsOff,
        }
    }

    /// Something must be handled before the guest goes on.
    #[inline]
    pub(crate) fn has_irq(&self) -> bool {
        self.irqs_on && (self.flush_irqs != 0 || self.resched_irq)
    }
}

/// A guest thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) vcpu: VcpuId,
    pub(crate) program: Program,
    pub(crate) rng: Stream,
    /// What is left of the work in which it lost its vCPU, in ns.
    pub(crate) remaining: u64,
}

/// mmap_sem (`struct rw_semaphore`, blocking, first come first served).
#[derive(Debug, Clone, Default)]
pub(crate) struct RwSem {
    pub(crate) readers: u32,
    pub(crate) writer: bool,
    /// Who waits, and whether for write.
    pub(crate) waiters: VecDeque<(ThreadId, bool)>,
}

/// A VM.
#[derive(Debug, Clone)]
pub(crate) struct Vm {
    /// Its first vCPU.
    pub(crate) first: VcpuId,
    /// vCPUs that have a CPU.
    pub(crate) running: u64,
    /// vCPUs that have the address space loaded (`mm_cpumask`).
    pub(crate) mm_mask: u64,
    /// Flushes begun.
    pub(crate) generation: u64,
    /// The latest flush whose sender went on.
    pub(crate) completed: u64,
    pub(crate) mmap_sem: RwSem,
    /// Its spinlocks.
    pub(crate) locks: Vec<SpinLock>,
    /// Its wait queues.
    pub(crate) waits: Vec<VecDeque<ThreadId>>,
    /// What the threads of its workload share.
    pub(crate) shared: Shared,
    /// Its vCPUs start here.
    pub(crate) starts_at: u64,
    /// Measured from here ...
    pub(crate) measure_from: u64,
    /// ... until here.
    pub(crate) measure_to: u64,
    /// One of its vCPUs was killed, and with it all.
    pub(crate) killed: bool,
    pub(crate) records: u64,
    pub(crate) stale_reads: u64,
}
