//! Interrupt vectors that wait for a vCPU: the part of a local APIC that the lab's guests need.
//!
//! # Problem
//! Without an in-kernel irqchip `KVM_INTERRUPT` queues its vector at once, whatever the guest's interrupt flag says,
//! and overwrites one that is queued already. So the VMM keeps the pending vectors and hands KVM one at a time, only
//! when KVM can take it ([`Injection`]).
//!
//! # Properties
//! - A vector leaves the bitmap only when `KVM_INTERRUPT` took it; KVM then delivers it before the next guest
//!   instruction, and keeps it across returns of `KVM_RUN` that come earlier (`ready_for_interrupt_injection` stays 0
//!   meanwhile, so nothing overwrites it). It is never in neither place.
//! - The same vector raised twice before delivery is delivered once: handlers look at state, not at counts.

use crate::sync::{AtomicU64, Ordering};

/// The set of vectors that wait for one vCPU. Anyone may raise; only the owner takes.
#[derive(Debug, Default)]
pub struct PendingVectors {
    words: [AtomicU64; 4],
    /// CLOCK_MONOTONIC ns at which the set was last raised while empty; 0 when nothing waits.
    since_ns: AtomicU64,
}

impl PendingVectors {
    /// Adds `vector` at time `now_ns`; true if it was not waiting already.
    pub fn raise(&self, vector: u8, now_ns: u64) -> bool {
        // The first raise of a busy period keeps its time: the histogram shows the longest wait.
        let _ = self.since_ns.compare_exchange(0, now_ns.max(1), Ordering::Relaxed, Ordering::Relaxed);
        self.raise_untimed(vector)
    }

    /// The same for a vector whose delivery is not measured.
    pub fn raise_untimed(&self, vector: u8) -> bool {
        let (word, bit) = Self::place(vector);
        word_of(&self.words, word).fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// The highest waiting vector (vectors are priorities, as on the APIC).
    #[must_use]
    pub fn highest(&self) -> Option<u8> {
        (0u8..4).rev().find_map(|index| {
            let bits = word_of(&self.words, index).load(Ordering::Acquire);
            let top = u8::try_from(bits.checked_ilog2()?).unwrap_or(63);
            Some(index * 64 + top)
        })
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.highest().is_none()
    }

    /// Removes `vector`, which KVM has accepted; the time since when something had waited, if known.
    pub fn accepted(&self, vector: u8) -> Option<u64> {
        // The time goes first: a raise that comes between the two restarts it, and then finds or sets the bit.
        let since = self.since_ns.swap(0, Ordering::Relaxed);
        self.accepted_untimed(vector);
        (since != 0).then_some(since)
    }

    /// The same for a vector whose delivery is not measured.
    pub fn accepted_untimed(&self, vector: u8) {
        let (word, bit) = Self::place(vector);
        word_of(&self.words, word).fetch_and(!bit, Ordering::AcqRel);
    }

    const fn place(vector: u8) -> (u8, u64) {
        (vector / 64, 1 << (vector % 64))
    }
}

fn word_of(words: &[AtomicU64; 4], index: u8) -> &AtomicU64 {
    &words[usize::from(index & 3)]
}

/// What to do about a waiting vector before the next entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// Nothing waits.
    None,
    /// Give this vector to KVM now.
    Inject(u8),
    /// Ask for an exit as soon as KVM can take one.
    Window,
}

impl Injection {
    /// Decides from what waits and from the two flags that `kvm_run` carried out of the last exit.
    #[must_use]
    pub fn decide(highest: Option<u8>, ready_for_injection: bool, interrupts_enabled: bool) -> Self {
        match highest {
            None => Self::None,
            Some(vector) if ready_for_injection && interrupts_enabled => Self::Inject(vector),
            Some(_) => Self::Window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_vector_goes_first_and_each_once() {
        let pending = PendingVectors::default();
        assert!(pending.raise(0x20, 5));
        assert!(pending.raise(0xf0, 7));
        assert!(!pending.raise(0xf0, 9), "raised twice, waits once");
        assert_eq!(pending.highest(), Some(0xf0));
        assert_eq!(pending.accepted(0xf0), Some(5));
        assert_eq!(pending.highest(), Some(0x20));
        pending.accepted(0x20);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_vector_waits_for_the_flag_and_for_kvm() {
        assert_eq!(Injection::decide(None, true, true), Injection::None);
        assert_eq!(Injection::decide(Some(240), true, true), Injection::Inject(240));
        for (ready, enabled) in [(false, true), (true, false), (false, false)] {
            assert_eq!(Injection::decide(Some(240), ready, enabled), Injection::Window);
        }
    }
}
