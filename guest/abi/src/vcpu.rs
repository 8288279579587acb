//! The per-vCPU page: `gs` base of the vCPU in both rings, and shared with the host and the other vCPUs.
//!
//! Every group of fields with one kind of writer has its cache lines for itself.

use crate::state::{StateWord, Stop};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Offset of `host.index` in the page, which the host writes before boot.
pub const INDEX_OFFSET: u64 = core::mem::offset_of!(VcpuPage, host.0.index) as u64;
/// Bytes of the console buffer.
pub const CONSOLE_SIZE: usize = 512;

/// One cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// Written by the host only, and read by this vCPU. The guest could write it too, and would fool only itself.
#[derive(Debug)]
#[repr(C)]
pub struct HostLine {
    /// Counts the flushes that the host did itself on entry, without [`FLUSH_VECTOR`](crate::layout::FLUSH_VECTOR)
    /// (see "Flush on entry" in docs/guest-abi.md). Incremented after the flush took effect, before `KVM_RUN`. Part of
    /// the soft TLB's epoch.
    pub entry_flushes: AtomicU64,
    /// Number of this vCPU, written before boot.
    pub index: AtomicU32,
    /// Answers of the disk to this vCPU: [`Call::DiskIo`](crate::call::Call::DiskIo). Only grows.
    pub disk_done: AtomicU64,
}

/// Written by the flush handler and the local flush of this vCPU (ring 0). The host does not read it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct FlushLine {
    /// Acknowledgement: the flush generation that was current before this vCPU's last flush began. Only grows.
    pub flushed_gen: AtomicU64,
    /// Counts the flushes that this vCPU executed: next to every CR3 load. Part of the soft TLB's epoch.
    pub epoch: AtomicU64,
}

/// Who kicks a halted initiator: "Halting" in docs/guest-abi.md. Written by all vCPUs; the host does not read it.
///
/// The other half of the protocol is the flush handler (assembly in the guest kernel), in this order: publish
/// `flushed_gen`; take `waiters` with an exchange; for each waiter clear the own bit in *its* `remaining`, and kick it
/// if none is left.
#[derive(Debug, Default)]
#[repr(C)]
pub struct KickLine {
    /// vCPUs that halt until this one has flushed: taken by the flush handler after its acknowledgement.
    pub waiters: AtomicU64,
    /// While this vCPU halts: targets that have not acknowledged. The handler that clears the last bit kicks.
    pub remaining: AtomicU64,
}

impl KickLine {
    /// Waiter, on its own line: it is about to halt until the targets of `missing` have flushed. Begins every round.
    pub fn arm(&self, missing: u64) {
        self.remaining.store(missing, Ordering::SeqCst);
    }

    /// Waiter, on the line of each target, after `arm` and before it looks at that target's `flushed_gen` again.
    pub fn register(&self, waiter: u32) {
        self.waiters.fetch_or(1 << waiter, Ordering::SeqCst);
    }

    /// Waiter, on its own line, after that look: the targets of `acknowledged` may have taken `waiters` too early to
    /// see it, so their bits are cleared for them. True if it must halt; false if nobody is left to kick it.
    #[must_use = "who halts in spite of `false` is never kicked"]
    pub fn disarm(&self, acknowledged: u64) -> bool {
        self.remaining.fetch_and(!acknowledged, Ordering::SeqCst) & !acknowledged != 0
    }
}

/// Written by this vCPU before a call, read by the host while it handles the call.
#[derive(Debug)]
#[repr(C)]
pub struct CallLine {
    /// The mask of [`SendIpi`](crate::call::Call::SendIpi) and [`FlushOnEnter`](crate::call::Call::FlushOnEnter). Any
    /// value; the host takes it once and cuts it to the VM's vCPUs.
    pub arg0: AtomicU64,
    /// [`Phase`] of this vCPU, for messages about a guest that makes no progress. Any value.
    pub phase: AtomicU32,
    /// Odd while this vCPU walks page tables without a lock. The host does not read it.
    pub walk_seq: AtomicU32,
}

/// Spinlocks: written by this vCPU, read by the host and, for [`awaited`](Self::awaited), by the other vCPUs.
#[derive(Debug, Default)]
#[repr(C)]
pub struct LockLine {
    /// The announcement of [`TicketLock::wait_pv`](crate::lock::TicketLock::wait_pv): lock and ticket; 0: none. The host
    /// does not read it.
    pub awaited: AtomicU64,
    /// Spinlocks that this vCPU holds. The host looks, when it takes the vCPU's CPU away, whether it is 0, and counts.
    pub held: AtomicU32,
    /// Not 0 while it stands in line for one. The host looks as at `held`.
    pub waits: AtomicU32,
}

/// What the guest's scheduler keeps for this vCPU, for single-instruction access through `gs`. Written by this vCPU only.
#[derive(Debug)]
#[repr(C)]
pub struct SchedLine {
    /// While it is not 0, the running thread keeps the vCPU. The host does not read it.
    pub preempt_count: AtomicU32,
    /// A timer tick came while it was not 0. The host does not read it.
    pub need_resched: AtomicU32,
    /// The running thread's number plus 1; 0: the idle loop. The host does not read it.
    pub current: AtomicU32,
    /// Not 0: the host delivers [`TIMER_VECTOR`](crate::layout::TIMER_VECTOR) `Params::guest_hz` times a second while the
    /// vCPU runs. Looked at before each entry; any value.
    pub tick: AtomicU32,
}

/// Where a vCPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Not started.
    Boot = 0,
    /// Runs its workload.
    Work = 1,
    /// Waits for acknowledgements of its flush, spinning.
    FlushSpin = 2,
    /// Waits for acknowledgements of its flush, halted.
    FlushHalt = 3,
    /// Waits for a free set of frames.
    AllocWait = 4,
    /// Reported `Done` or a failure.
    Done = 5,
    /// Stands in line for a spinlock, spinning.
    LockSpin = 6,
    /// Stands in line for a spinlock, halted.
    LockHalt = 7,
    /// The same, with interrupts off: only a kick ends it.
    LockHaltIrqsOff = 8,
    /// Halts because it has nothing to run.
    Idle = 9,
}

impl Phase {
    /// Name of a number that the guest wrote.
    #[must_use]
    pub const fn name(number: u32) -> &'static str {
        match number {
            0 => "booting",
            1 => "working",
            2 => "spinning in a flush",
            3 => "halted in a flush",
            4 => "waiting for free frames",
            5 => "finished",
            6 => "spinning for a lock",
            7 => "halted for a lock",
            8 => "halted for a lock, interrupts off",
            9 => "idle",
            _ => "in an unknown phase",
        }
    }
}

/// What a target does when another vCPU wants something of it. A sample: it may be over by the time it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Executes, or is in a call.
    Running,
    /// Was taken off its CPU, or woken from a halt and not yet on one.
    Preempted,
    /// Halts, with interrupts on.
    Halted,
    /// Halts with interrupts off: no interrupt wakes it.
    HaltedIrqsOff,
    /// Halts because it has nothing to run.
    Idle,
}

impl Doing {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Running, Self::Preempted, Self::Halted, Self::HaltedIrqsOff, Self::Idle];

    /// From the two words that tell.
    #[must_use]
    pub const fn of(stopped: Option<Stop>, phase: u32) -> Self {
        match stopped {
            None | Some(Stop::MidInstruction) => Self::Running,
            Some(Stop::Preempted) => Self::Preempted,
            Some(Stop::Halted) if phase == Phase::Idle as u32 => Self::Idle,
            Some(Stop::Halted) if phase == Phase::LockHaltIrqsOff as u32 => Self::HaltedIrqsOff,
            Some(Stop::Halted) => Self::Halted,
        }
    }
}

/// State at an unexpected exception, valid while [`Report::Exception`](crate::call::Report::Exception) is handled. Any
/// values.
#[derive(Debug)]
#[repr(C)]
pub struct ExceptionRecord {
    /// Exception vector, 0 to 31.
    pub vector: AtomicU64,
    /// Error code, 0 for vectors that have none.
    pub error: AtomicU64,
    /// Instruction pointer.
    pub rip: AtomicU64,
    /// Code selector: ring 3 if its low two bits are set.
    pub cs: AtomicU64,
    /// Flags.
    pub rflags: AtomicU64,
    /// Stack pointer.
    pub rsp: AtomicU64,
    /// CR2: the faulting address if the vector is 14.
    pub cr2: AtomicU64,
}

/// The page. Fresh memory is all zero; `guest::boot` then writes `state` ([`HALTED`](crate::state::HALTED)) and
/// `host.index`.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct VcpuPage {
    /// Who flushes. Written by host and guests, with the functions of [`StateWord`] only.
    pub state: Line<StateWord>,
    /// From the host.
    pub host: Line<HostLine>,
    /// From this vCPU's ring 0.
    pub flush: Line<FlushLine>,
    /// From other vCPUs.
    pub kick: Line<KickLine>,
    /// From this vCPU's ring 3.
    pub call: Line<CallLine>,
    /// From this vCPU's ring 3.
    pub lock: Line<LockLine>,
    /// From this vCPU's ring 0.
    pub exception: Line<ExceptionRecord>,
    /// From this vCPU, both rings.
    pub sched: Line<SchedLine>,
    /// Text of [`Console`](crate::call::Call::Console): any bytes; the host prints them with everything that is not
    /// printable ASCII or a newline replaced.
    pub console: Line<[AtomicU8; CONSOLE_SIZE]>,
}

impl VcpuPage {
    /// Other vCPUs: what this one does now.
    #[must_use]
    pub fn doing(&self) -> Doing {
        Doing::of(self.state.0.stopped(), self.call.0.phase.load(Ordering::Relaxed))
    }

    /// Host: the first `len` bytes of the console buffer (cut to its size), made printable.
    pub fn console_text(&self, len: u32) -> impl Iterator<Item = u8> + '_ {
        let len = usize::try_from(len).unwrap_or(CONSOLE_SIZE).min(CONSOLE_SIZE);
        self.console.0[..len].iter().map(|byte| match byte.load(Ordering::Relaxed) {
            byte @ (b'\n' | b' '..=b'~') => byte,
            _ => b'?',
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_halt_is_told_apart_by_its_phase_and_a_woken_one_counts_as_preempted() {
        let word = StateWord::default();
        let doing = |phase: Phase| Doing::of(word.stopped(), phase as u32);
        assert_eq!(doing(Phase::Idle), Doing::Running);
        word.stop(Stop::Halted);
        assert_eq!([Phase::FlushHalt, Phase::LockHalt].map(doing), [Doing::Halted; 2]);
        assert_eq!((doing(Phase::LockHaltIrqsOff), doing(Phase::Idle)), (Doing::HaltedIrqsOff, Doing::Idle));
        word.stop(Stop::Preempted);
        assert_eq!(doing(Phase::Idle), Doing::Preempted);
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<VcpuPage>() == 4096);
    assert!(offset_of!(VcpuPage, state) == 0);
    assert!(offset_of!(VcpuPage, host) == 64);
    assert!(offset_of!(VcpuPage, flush) == 128);
    assert!(offset_of!(VcpuPage, kick) == 192);
    assert!(offset_of!(VcpuPage, call) == 256);
    assert!(offset_of!(VcpuPage, lock) == 320);
    assert!(offset_of!(VcpuPage, exception) == 384);
    assert!(offset_of!(VcpuPage, sched) == 448);
    assert!(offset_of!(VcpuPage, console) == 512);
};
