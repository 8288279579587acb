//! The word that decides who flushes: one atomic per vCPU, {preempted, halted, flush pending}.
//!
//! ```text
//!                     host: enter = swap(0)                    (takes FLUSH in the same step)
//!      ┌──────────────────────────────────────────────┐
//!      ▼                                              │
//!   RUNNING ── host: stop = fetch_or(PREEMPTED|HALTED) ──► STOPPED ──┐ initiator: mark = cmpxchg(w, w|FLUSH)
//!      │                                                  ▲         │ "flushes before it executes again"
//!      │ initiator: mark sees no stop bit                 └─────────┘
//!      └──► "running": send it an IPI, wait for its acknowledgement
//! ```
//!
//! Rules, and the failure that each prevents:
//!
//! 1. *Mark and check are one compare-exchange* ([`StateWord::mark_flush`]). A load that sees "stopped" followed by a
//!    store of FLUSH would lose the flush to an entry in between: the vCPU runs on, and nobody sends it an IPI.
//! 2. *Stopping only sets bits* ([`StateWord::stop`] is a fetch-or). A host that stores PREEMPTED over the word when it
//!    stops an already stopped vCPU again (parked, woken, parked before it entered) wipes a pending flush.
//! 3. *Entering takes everything in one step* ([`StateWord::enter`] is a swap): a flush marked before the swap is seen
//!    by it, an initiator after the swap sees "running". With a load of FLUSH and then a store of 0, a mark in between
//!    is lost.
//! 4. *Between instructions only* ([`Stop`]). A vCPU that left guest mode in the middle of an emulated instruction may
//!    use translations when the instruction goes on, before the flush of the next entry: it stays "running", gets an
//!    IPI, and the initiator waits. Doorbells are exempt: see [`call`](crate::call).
//! 5. *The host flushes after the swap and before the next guest instruction*, on every entry: a forgotten path that
//!    enters without [`StateWord::enter`] leaves the word "stopped" while the guest runs, and marked flushes undone.
//!
//! # Memory ordering
//! All operations are read-modify-writes of one word, so they have one total order, and each is AcqRel at least. The
//! initiator clears page-table entries, then marks. If its mark comes before the target's `enter`, the swap reads from
//! it (release sequence) and the flush after the swap sees the cleared entries. If it comes after, the mark reads what
//! the swap wrote and answers "running": the initiator sends an IPI, whose handler flushes later still. The refused
//! mark changes nothing, but it must not read an old "running": a read-modify-write cannot, a plain load could. In the
//! other direction, what the target did in the guest before `stop` happens before a mark that sees it stopped.
//!
//! # Trust
//! The guest can store anything here. The host gives meaning to [`FLUSH`] only (a needless flush costs the guest time,
//! a missing one hurts only this guest), and `enter` clears every other bit.

use crate::sync::{AtomicU32, Ordering};

/// Taken off its CPU by the host.
pub const PREEMPTED: u32 = 1;
/// Blocked in [`Call::Halt`](crate::call::Call::Halt) or [`Call::Io`](crate::call::Call::Io), or not started yet.
/// Whether its interrupts are on does not matter: it executes nothing.
pub const HALTED: u32 = 2;
/// To be flushed before it executes again.
pub const FLUSH: u32 = 4;

/// Why a vCPU does not execute, as the host tells it with [`StateWord::stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Taken off its CPU at an instruction boundary (`KVM_RUN` returned EINTR or for an interrupt window) or inside a
    /// doorbell.
    Preempted,
    /// Blocked in a doorbell, waiting for a kick, a vector or a device.
    Halted,
    /// Taken off its CPU in the middle of an emulated instruction other than a doorbell: it keeps counting as running.
    MidInstruction,
}

/// Answer to [`StateWord::mark_flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// It does not execute, and flushes before it does: nothing more to do.
    Deferred,
    /// It executes, or may: send it an IPI and wait for its acknowledgement.
    Running,
}

/// Answer to [`StateWord::enter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// Flush before the first guest instruction.
    pub flush: bool,
    /// The word said that it was stopped. If the host's own books say otherwise, the guest wrote the word.
    pub was_stopped: bool,
}

/// The word. All zero (fresh memory) means running, the safe default: initiators then send IPIs. `guest::boot` starts
/// every vCPU as [`HALTED`].
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct StateWord(pub(crate) AtomicU32);

impl StateWord {
    /// Host: the vCPU has stopped. To be called by the thread that owns it, after `KVM_RUN` returned. Idempotent, and
    /// never takes a pending flush away. True if a flush is pending.
    pub fn stop(&self, why: Stop) -> bool {
        let bit = match why {
            Stop::Preempted => PREEMPTED,
            Stop::Halted => HALTED,
            Stop::MidInstruction => return self.flush_pending(),
        };
        self.0.fetch_or(bit, Ordering::SeqCst) & FLUSH != 0
    }

    /// Host: the vCPU is about to execute. To be called by the thread that owns it before every `KVM_RUN` that may
    /// follow a stop or a [`demand_flush`](Self::demand_flush); the flush itself comes after this and before `KVM_RUN`.
    #[must_use = "a flush that is taken and not done is lost"]
    pub fn enter(&self) -> Entered {
        let was = self.0.swap(0, Ordering::SeqCst);
        Entered { flush: was & FLUSH != 0, was_stopped: was & (PREEMPTED | HALTED) != 0 }
    }

    /// Initiator (guest): mark a flush if the vCPU does not execute. Page-table entries must have been cleared before.
    #[inline]
    pub fn mark_flush(&self) -> Marked {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // Also a refusal goes through a read-modify-write (of the same value): see "Memory ordering".
            let running = seen & (PREEMPTED | HALTED) == 0;
            let wanted = if running { seen } else { seen | FLUSH };
            match self.0.compare_exchange_weak(seen, wanted, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) if running => return Marked::Running,
                Ok(_) => return Marked::Deferred,
                Err(now) => seen = now,
            }
        }
    }

    /// Host, for [`Call::FlushOnEnter`](crate::call::Call::FlushOnEnter): flush before the next guest instruction,
    /// whatever the vCPU does now. If it is `Running`, the caller must also force it out of guest mode (kick) and wait
    /// until it has left: the flush is taken by the `enter` that follows.
    pub fn demand_flush(&self) -> Marked {
        let was = self.0.fetch_or(FLUSH, Ordering::SeqCst);
        if was & (PREEMPTED | HALTED) == 0 { Marked::Running } else { Marked::Deferred }
    }

    /// Why it does not execute, as a sample for statistics and guesses: nothing that must be right may be decided by it.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        match self.0.load(Ordering::Relaxed) {
            word if word & PREEMPTED != 0 => Some(Stop::Preempted),
            word if word & HALTED != 0 => Some(Stop::Halted),
            _ => None,
        }
    }

    /// True if the vCPU has a flush to do. Between `enter` and the next stop only `demand_flush` can set it.
    #[must_use]
    pub fn flush_pending(&self) -> bool {
        self.0.load(Ordering::SeqCst) & FLUSH != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn running() -> StateWord {
        StateWord::default()
    }

    #[test]
    fn a_running_vcpu_is_not_marked() {
        let word = running();
        assert_eq!(word.mark_flush(), Marked::Running);
        assert!(!word.flush_pending());
    }

    #[test]
    fn a_stopped_vcpu_flushes_once_on_entry() {
        for why in [Stop::Preempted, Stop::Halted] {
            let word = running();
            assert!(!word.stop(why));
            assert_eq!(word.mark_flush(), Marked::Deferred);
            assert_eq!(word.mark_flush(), Marked::Deferred);
            assert_eq!(word.enter(), Entered { flush: true, was_stopped: true });
            assert_eq!(word.enter(), Entered { flush: false, was_stopped: false });
            assert_eq!(word.mark_flush(), Marked::Running);
        }
    }

    #[test]
    fn stopping_again_keeps_a_pending_flush() {
        let word = running();
        word.stop(Stop::Preempted);
        word.mark_flush();
        assert!(word.stop(Stop::Preempted));
        assert!(word.stop(Stop::Halted));
        assert!(word.enter().flush);
    }

    #[test]
    fn a_vcpu_inside_an_emulated_instruction_counts_as_running() {
        let word = running();
        word.stop(Stop::MidInstruction);
        assert_eq!(word.mark_flush(), Marked::Running);
    }

    #[test]
    fn a_vcpu_that_never_ran_is_marked() {
        let word = StateWord(AtomicU32::new(HALTED));
        assert_eq!(word.mark_flush(), Marked::Deferred);
        assert!(word.enter().flush);
    }

    #[test]
    fn a_demanded_flush_is_taken_by_the_next_entry_in_any_state() {
        let word = running();
        assert_eq!(word.demand_flush(), Marked::Running);
        assert!(word.enter().flush);
        word.stop(Stop::Halted);
        assert_eq!(word.demand_flush(), Marked::Deferred);
        assert!(word.enter().flush);
    }

    #[test]
    fn garbage_from_the_guest_does_not_outlive_an_entry() {
        let word = StateWord(AtomicU32::new(u32::MAX));
        assert!(word.enter().flush);
        assert_eq!(word.mark_flush(), Marked::Running);
        assert!(!word.flush_pending());
    }
}
