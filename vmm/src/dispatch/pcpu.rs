//! One pCPU of the run: its token, its mailbox, its clock of ticks, its counters.

use hostsched::Ipi;

use super::seat::Slot;
use super::stats::CpuStats;
use super::token::Token;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, fence, lock};

/// The longest time without a tick on a CPU with one runnable task: a sixth of the shortest interval at which a busy CPU
/// of one package balances (1 ms x `busy_factor` 64), so that balancing is hardly late; at 45 us an exit it costs
/// 0.5 % of the CPU.
const SOLO_TICK_NS: u64 = 10_000_000;

/// A pCPU. Aligned so that two CPUs never share a cache line (64 bytes, fetched in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Pcpu {
    /// Its position in the run's list.
    pub(super) slot: Slot,
    /// The kernel's number.
    pub(super) number: u32,
    /// Who acts as this CPU, and what waits for it.
    pub(super) token: Token,
    mailbox: Mutex<Vec<Ipi>>,
    /// When the next tick is due. Written by the token's holder.
    next_tick_ns: AtomicU64,
    /// The timer is set to a later tick than the next.
    stretched: AtomicBool,
    /// When the first kick since the last entry was sent; 0 for none.
    kicked_at_ns: AtomicU64,
    /// Threads that may be in `KVM_RUN` for this CPU now, and the most there ever were.
    in_run: AtomicU32,
    in_run_max: AtomicU32,
    stats: Mutex<CpuStats>,
}

impl Pcpu {
    pub(super) fn new(slot: Slot, number: u32) -> Self {
        Self {
            slot,
            number,
            token: Token::new(),
            mailbox: Mutex::default(),
            next_tick_ns: AtomicU64::new(0),
            stretched: AtomicBool::new(false),
            kicked_at_ns: AtomicU64::new(0),
            in_run: AtomicU32::new(0),
            in_run_max: AtomicU32::new(0),
            stats: Mutex::new(CpuStats::new()),
        }
    }

    /// Puts an IPI into the mailbox. The caller then posts the work to the token.
    pub(super) fn put(&self, ipi: Ipi) {
        lock(&self.mailbox).push(ipi);
    }

    /// The holder takes the oldest IPI.
    pub(super) fn take_mail(&self) -> Option<Ipi> {
        let mut mailbox = lock(&self.mailbox);
        (!mailbox.is_empty()).then(|| mailbox.remove(0))
    }

    /// When the next tick is due.
    pub(super) fn next_tick_ns(&self) -> u64 {
        self.next_tick_ns.load(Ordering::Relaxed)
    }

    /// Sets the next tick to the first multiple of the period after `now_ns`: ticks keep their phase, and those that an
    /// idle CPU slept through are left out, as in the kernel (`tick_nohz_restart`).
    pub(super) fn advance_tick(&self, now_ns: u64, period_ns: u64) {
        self.next_tick_ns.store((now_ns / period_ns + 1) * period_ns, Ordering::Relaxed);
    }

    /// The deadline for the holder's timer: the next tick, or one that lies further ahead while `alone()` says that the
    /// CPU has one runnable task. Like a kernel with `NO_HZ_FULL`: a tick costs an exit, and one task needs none to be
    /// preempted. The tick is taken on time all the same if the guest exits meanwhile.
    pub(super) fn tick_deadline_ns(&self, alone: impl Fn() -> bool, period_ns: u64) -> u64 {
        let next = self.next_tick_ns();
        // First say it, then look: a waker enqueues first and then looks here, so one of the two sees the other.
        self.stretched.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if alone() {
            return next + (SOLO_TICK_NS / period_ns).saturating_sub(1) * period_ns;
        }
        self.end_stretch();
        next
    }

    /// The holder's timer is set to the next tick, or the holder goes.
    pub(super) fn end_stretch(&self) {
        self.stretched.store(false, Ordering::Relaxed);
    }

    /// After a task was enqueued here: true if the holder must set its timer anew.
    pub(super) fn tick_is_too_late(&self) -> bool {
        fence(Ordering::SeqCst);
        self.stretched.load(Ordering::Relaxed)
    }

    /// A kick is sent to this CPU.
    pub(super) fn note_kick(&self, now_ns: u64) {
        let _ = self.kicked_at_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The kick that the coming entry answers.
    pub(super) fn take_kick(&self) -> Option<u64> {
        if self.kicked_at_ns.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.kicked_at_ns.swap(0, Ordering::Relaxed)).filter(|at| *at != 0)
    }

    /// The holder is about to enter.
    pub(super) fn enter(&self) {
        let now = self.in_run.fetch_add(1, Ordering::AcqRel) + 1;
        if now > self.in_run_max.load(Ordering::Relaxed) {
            self.in_run_max.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// The holder is back.
    pub(super) fn leave(&self) {
        self.in_run.fetch_sub(1, Ordering::AcqRel);
    }

    /// The most threads that were ever allowed into `KVM_RUN` at once.
    pub(super) fn in_run_max(&self) -> u32 {
        self.in_run_max.load(Ordering::Relaxed)
    }

    /// Changes or reads the counters. Cheap: only the token's holder and the end of a measurement come here.
    pub(super) fn count<R>(&self, f: impl FnOnce(&mut CpuStats) -> R) -> R {
        f(&mut lock(&self.stats))
    }
}
