//! Kicks: how one thread makes another leave `KVM_RUN`.
//!
//! # Problem
//! A vCPU thread inside `KVM_RUN` sees nothing of the world. Someone who wants its attention (a tick, a scheduling
//! decision, an interrupt to inject, the end of the run) must make the ioctl return, and must not lose that wish when
//! it comes one instruction before the ioctl starts.
//!
//! # Protocol
//! ```text
//!   sender                              target (owner of the vCPU)
//!   reasons |= why                      immediate_exit = 0
//!   fence                               reasons != 0 ?  -> do not enter
//!   run odd ?  -> tgkill(target)        run += 1  (odd: in KVM_RUN)
//!                                       fence
//!   signal handler, on the target:      reasons != 0 ?  -> run += 1, do not enter
//!   immediate_exit = 1                  KVM_RUN         (EINTR at once if immediate_exit)
//!                                       run += 1  (even: outside)
//! ```
//! Either the sender sees that the target is in a run and signals, or the target sees the reason before it enters: the
//! two fences order "store mine, then load yours" on both sides, so that both cannot miss. A signal that arrives between
//! the last test and the ioctl runs the handler, whose `immediate_exit = 1` makes the ioctl return at once. A signal
//! that arrives late, after that run ended, costs one spurious return of a later `KVM_RUN`.
//!
//! `run` is a sequence, not a flag, so that a sender can also wait until the target has *left* the run in which it
//! saw it ([`KickCell::current_run`], [`KickCell::has_left`]): a flag might be set again by the next run.
//!
//! # Accounting
//! Every post is either the one that set its bit (and is consumed by a later [`KickCell::take`]) or found it set
//! (coalesced). At rest, with no reason pending: `sent = consumed + coalesced`.
//!
//! # The tick
//! [`KickCell::arm_tick`] lets the owner's own timer (see [`tick`](crate::tick)) post [`Reason::Tick`] from the signal
//! handler. The deadline is the generation: a signal that comes when no tick is armed, or before the deadline now
//! armed, belongs to an earlier arming and is dropped, so a late one never reaches a thread that has been parked.

mod reason;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
// The byte that is shared with KVM, not with a thread of ours: not a matter for the model checker.
use std::sync::atomic::AtomicU8;

use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use crate::clock::monotonic_ns;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, OnceLock, Ordering, fence};
pub use reason::{Reason, Reasons, Tick};

/// Offset of the kick signal above `SIGRTMIN`, away from the numbers that debuggers and runtimes use by habit.
const SIGNAL_OFFSET: i32 = 5;

/// What became of a [`KickCell::post`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// The reason was already waiting to be taken.
    Coalesced,
    /// Stored; the target was outside `KVM_RUN` and looks before it enters.
    Stored,
    /// Stored, and the target was signalled out of `KVM_RUN`.
    Signalled,
}

/// Totals of one cell since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KickTotals {
    /// Posts.
    pub sent: u64,
    /// Reasons taken by the owner.
    pub consumed: u64,
    /// Posts that found their reason set.
    pub coalesced: u64,
    /// Signals sent for them.
    pub signals: u64,
}

/// The mailbox of one vCPU thread. Anyone may [`post`](Self::post); everything else is for the owner.
#[derive(Debug, Default)]
pub struct KickCell {
    reasons: AtomicU32,
    /// Number of entries and exits: odd while the owner is, or is about to be, in `KVM_RUN`.
    run: AtomicU64,
    /// Kernel thread id of the owner; 0 while no thread is bound.
    tid: AtomicI32,
    /// CLOCK_MONOTONIC deadline of the armed tick of each kind in ns; 0 = none.
    tick_deadline_ns: [AtomicU64; 2],
    sent: AtomicU64,
    consumed: AtomicU64,
    coalesced: AtomicU64,
    signals: AtomicU64,
}

impl KickCell {
    /// An empty cell without an owner.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves `reason` for the owner and makes it look: at once if it is in `KVM_RUN`, else before it next enters.
    ///
    /// Does not wake a *parked* owner: who unparks it is the scheduler's business.
    pub fn post(&self, reason: Reason) -> Posted {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let before = self.reasons.fetch_or(reason as u32, Ordering::AcqRel);
        // Also before a coalesced post returns: its sender may ask for the current run next.
        fence(Ordering::SeqCst);
        if before & reason as u32 != 0 {
            // Whoever set the bit saw to it that the owner looks.
            self.coalesced.fetch_add(1, Ordering::Relaxed);
            return Posted::Coalesced;
        }
        if self.current_run().is_none() {
            return Posted::Stored;
        }
        self.signals.fetch_add(1, Ordering::Relaxed);
        signal_thread(self.tid.load(Ordering::Relaxed));
        Posted::Signalled
    }

    /// The run in which the owner is now, if it is in one. Call it after [`post`](Self::post): what is `None` then will
    /// see the reason before it enters.
    #[must_use]
    pub fn current_run(&self) -> Option<RunSeq> {
        let run = self.run.load(Ordering::Acquire);
        (run % 2 == 1).then_some(RunSeq(run))
    }

    /// True once the owner has left the run in which it was seen.
    #[must_use]
    pub fn has_left(&self, seen: RunSeq) -> bool {
        self.run.load(Ordering::Acquire) != seen.0
    }

    /// The waiting reasons, left where they are.
    #[must_use]
    pub fn pending(&self) -> Reasons {
        Reasons(self.reasons.load(Ordering::Acquire))
    }

    /// Takes all waiting reasons.
    pub fn take(&self) -> Reasons {
        if self.pending().is_empty() {
            return Reasons::default();
        }
        let taken = Reasons(self.reasons.swap(0, Ordering::AcqRel));
        self.consumed.fetch_add(u64::from(taken.len()), Ordering::Relaxed);
        taken
    }

    /// Totals so far.
    #[must_use]
    pub fn totals(&self) -> KickTotals {
        KickTotals {
            sent: self.sent.load(Ordering::Relaxed),
            consumed: self.consumed.load(Ordering::Relaxed),
            coalesced: self.coalesced.load(Ordering::Relaxed),
            signals: self.signals.load(Ordering::Relaxed),
        }
    }

    /// From now on a timer signal at or after `deadline_ns` (CLOCK_MONOTONIC) posts that tick's reason, once.
    pub fn arm_tick(&self, tick: Tick, deadline_ns: u64) {
        self.tick_deadline_ns[tick as usize].store(deadline_ns, Ordering::Release);
    }

    /// From now on timer signals for that tick are dropped.
    pub fn disarm_tick(&self, tick: Tick) {
        self.tick_deadline_ns[tick as usize].store(0, Ordering::Release);
    }

    /// In the signal handler, on the owner: true if an armed tick is due, which disarms and posts it.
    fn tick_due(&self, now_ns: u64) -> bool {
        let mut due = false;
        for tick in Tick::ALL {
            let armed = &self.tick_deadline_ns[tick as usize];
            let deadline = armed.load(Ordering::Acquire);
            if deadline == 0 || now_ns < deadline {
                continue;
            }
            due = true;
            armed.store(0, Ordering::Relaxed);
            self.sent.fetch_add(1, Ordering::Relaxed);
            let bit = tick.reason() as u32;
            if self.reasons.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
                self.coalesced.fetch_add(1, Ordering::Relaxed);
            }
        }
        due
    }

    /// Second half of the target's protocol: `None` if a reason is waiting, else the permission to call `KVM_RUN`.
    fn begin_run(&self) -> Option<InRun<'_>> {
        if !self.pending().is_empty() {
            return None;
        }
        self.step_run();
        fence(Ordering::SeqCst);
        let guard = InRun { cell: self };
        self.pending().is_empty().then_some(guard)
    }

    /// Into a run or out of it; the owner is the only writer.
    fn step_run(&self) {
        self.run.store(self.run.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// One stay of an owner in `KVM_RUN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSeq(u64);

/// The owner may be in `KVM_RUN` while this lives.
#[derive(Debug)]
#[must_use]
pub struct InRun<'a> {
    cell: &'a KickCell,
}

impl Drop for InRun<'_> {
    fn drop(&mut self) {
        self.cell.step_run();
    }
}

thread_local! {
    /// What the signal handler may touch on this thread: its cell and its vCPU's `immediate_exit`, or null.
    static TARGET: Cell<(*const KickCell, *mut u8)> = const { Cell::new((ptr::null(), ptr::null_mut())) };
}

/// The tie between a cell, the calling thread and the `kvm_run` page of its vCPU. Lives on the vCPU thread.
#[derive(Debug)]
pub struct Bound<'a> {
    cell: &'a KickCell,
    immediate_exit: *mut u8,
    /// Not `Send`: the thread-local pointer belongs to the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl<'a> Bound<'a> {
    /// Makes the calling thread the owner of `cell`.
    ///
    /// # Safety
    /// `immediate_exit` must point to that byte of the `kvm_run` page of a vCPU that only this thread runs, and stay
    /// mapped until the value is dropped.
    pub unsafe fn new(cell: &'a KickCell, immediate_exit: *mut u8) -> Self {
        TARGET.set((ptr::from_ref(cell), immediate_exit));
        cell.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        Self { cell, immediate_exit, _thread: PhantomData }
    }

    /// The target's protocol: `None` if there is something to do first, else the permission to call `KVM_RUN`.
    pub fn enter(&self) -> Option<InRun<'a>> {
        self.set_immediate_exit(0);
        self.cell.begin_run()
    }

    fn set_immediate_exit(&self, value: u8) {
        // SAFETY: `Bound::new` was promised that the byte is mapped as long as `self` lives; the only other writer is
        // the signal handler of this same thread, and KVM only reads it. Unsafe because it is memory shared with KVM.
        unsafe { AtomicU8::from_ptr(self.immediate_exit) }.store(value, Ordering::Relaxed);
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        Tick::ALL.into_iter().for_each(|tick| self.cell.disarm_tick(tick));
        self.cell.tid.store(0, Ordering::Release);
        TARGET.set((ptr::null(), ptr::null_mut()));
    }
}

/// The kick signal's number.
#[must_use]
pub fn kick_signal() -> i32 {
    SIGRTMIN() + SIGNAL_OFFSET
}

/// Installs the signal handler, once for the process.
///
/// # Errors
/// The errno of `sigaction`, every time it is asked.
pub fn install_handler() -> Result<(), std::io::Error> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    let errno =
        *INSTALLED.get_or_init(|| register_signal_handler(kick_signal(), on_kick).map_or_else(|e| e.errno(), |()| 0));
    if errno == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(errno)) }
}

/// The handler: async-signal-safe (a const-initialised thread-local without destructor, atomics, `clock_gettime`).
extern "C" fn on_kick(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let (cell, immediate_exit) = TARGET.get();
    if cell.is_null() {
        return; // a late signal on a thread that is no vCPU's any more
    }
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO; both pointers are those of a
    // live `Bound` on this very thread, which clears them before it goes. Unsafe because a handler gets raw pointers.
    let (code, cell, immediate_exit) = unsafe { ((*info).si_code, &*cell, AtomicU8::from_ptr(immediate_exit)) };
    if code == libc::SI_TIMER && !cell.tick_due(monotonic_ns()) {
        return;
    }
    immediate_exit.store(1, Ordering::Relaxed);
}

fn signal_thread(tid: i32) {
    if tid == 0 {
        return;
    }
    // SAFETY: tgkill takes three integers and touches no memory of ours. Unsafe because libc has no safe wrapper. It
    // can only fail with ESRCH (the thread ended after it was seen in KVM_RUN), and then there is no one to kick.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, kick_signal()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_rest_sent_is_consumed_plus_coalesced() {
        let cell = KickCell::new();
        assert_eq!(cell.post(Reason::Tick), Posted::Stored);
        assert_eq!(cell.post(Reason::Tick), Posted::Coalesced);
        assert_eq!(cell.post(Reason::Stop), Posted::Stored);
        assert_eq!(cell.take().len(), 2);
        assert!(cell.take().is_empty());
        assert_eq!(cell.totals(), KickTotals { sent: 3, consumed: 2, coalesced: 1, signals: 0 });
    }

    #[test]
    fn a_reason_left_before_the_entry_forbids_it() {
        let mut byte = 1;
        let cell = KickCell::new();
        // SAFETY: the byte outlives `bound`; no vCPU runs at all.
        let bound = unsafe { Bound::new(&cell, &raw mut byte) };
        drop(bound.enter().expect("nothing is waiting"));
        cell.post(Reason::Resched);
        assert!(bound.enter().is_none());
        assert!(cell.take().contains(Reason::Resched));
        assert!(bound.enter().is_some());
    }

    #[test]
    fn a_signal_between_the_last_test_and_kvm_run_forces_an_immediate_exit() {
        install_handler().unwrap();
        let mut byte = 0;
        let cell = KickCell::new();
        // SAFETY: the byte outlives `bound`; no vCPU runs at all.
        let bound = unsafe { Bound::new(&cell, &raw mut byte) };
        let in_run = bound.enter().expect("nothing is waiting");
        assert_eq!(cell.post(Reason::Interrupt), Posted::Signalled);
        let seen = cell.current_run().expect("in the run that was just entered");
        assert!(!cell.has_left(seen));
        drop(in_run);
        assert!(cell.has_left(seen) && cell.current_run().is_none());
        // tgkill to the calling thread delivers before it returns.
        assert_eq!(byte, 1);
    }

    #[test]
    fn a_late_tick_of_an_earlier_arming_is_dropped() {
        let cell = KickCell::new();
        cell.arm_tick(Tick::Host, 100);
        assert!(!cell.tick_due(99));
        assert!(cell.tick_due(100));
        assert!(!cell.tick_due(200), "one arming posts one tick");
        cell.arm_tick(Tick::Host, 300);
        cell.disarm_tick(Tick::Host);
        assert!(!cell.tick_due(400));
        assert_eq!(cell.totals().sent, 1);
    }

    #[test]
    fn the_ticks_of_host_and_guest_are_armed_apart() {
        let cell = KickCell::new();
        cell.arm_tick(Tick::Host, 500);
        cell.arm_tick(Tick::Guest, 300);
        assert!(cell.tick_due(400));
        let taken = cell.take();
        assert!(taken.contains(Reason::GuestTick) && !taken.contains(Reason::Tick));
        assert!(cell.tick_due(500));
        assert!(cell.take().contains(Reason::Tick));
    }
}
