//! The kick latch: what makes a halted vCPU go on, and a kick that comes before the halt not lost.
//!
//! A kick sets the latch and wakes the target; a halt that finds the latch set consumes it and does not sleep. Two
//! kicks before one halt are one (coalesced). A latch that nobody waits for stays set and ends a later halt, which the
//! guest must bear: it looks again after every halt.
//!
//! # Accounting
//! `sent = consumed + coalesced + set`, where `set` is 0 or 1: the latch itself. The latch is one word that only
//! read-modify-writes touch, so each kick is counted on exactly one of the three.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The latch of one vCPU.
#[derive(Debug, Default)]
pub struct KickLatch {
    set: AtomicU32,
    /// CLOCK_MONOTONIC ns of the kick that set it.
    sent: AtomicU64,
    consumed: AtomicU64,
    coalesced: AtomicU64,
}

/// Totals of one latch since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatchTotals {
    /// Kicks.
    pub sent: u64,
    /// Kicks that ended a halt.
    pub consumed: u64,
    /// Kicks that found the latch set.
    pub coalesced: u64,
    /// 1 if the latch is set.
    pub set: u64,
}

impl LatchTotals {
    /// True if every kick is accounted for.
    #[must_use]
    pub const fn balanced(&self) -> bool {
        self.sent == self.consumed + self.coalesced + self.set
    }
}

impl KickLatch {
    /// Sets the latch; false if it was set already. The caller wakes the target after a true.
    pub fn kick(&self) -> bool {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let fresh = self.set.swap(1, Ordering::AcqRel) == 0;
        if !fresh {
            self.coalesced.fetch_add(1, Ordering::Relaxed);
        }
        fresh
    }

    /// True if a halt would not sleep.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire) != 0
    }

    /// Ends a halt: takes the latch if it is set, and says so.
    pub fn consume(&self) -> bool {
        let taken = self.is_set() && self.set.swap(0, Ordering::AcqRel) != 0;
        if taken {
            self.consumed.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Totals; exact only at rest.
    #[must_use]
    pub fn totals(&self) -> LatchTotals {
        LatchTotals {
            sent: self.sent.load(Ordering::Relaxed),
            consumed: self.consumed.load(Ordering::Relaxed),
            coalesced: self.coalesced.load(Ordering::Relaxed),
            set: u64::from(self.is_set()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kick_before_the_halt_is_kept_and_a_second_one_coalesced() {
        let latch = KickLatch::default();
        assert!(latch.kick());
        assert!(!latch.kick());
        assert!(latch.consume());
        assert!(!latch.consume());
        assert!(latch.kick());
        assert_eq!(latch.totals(), LatchTotals { sent: 3, consumed: 1, coalesced: 1, set: 1 });
        assert!(latch.totals().balanced());
    }

    #[test]
    fn racing_kicks_are_each_counted_once() {
        let latch = KickLatch::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| _ = latch.kick()));
            }
            scope.spawn(|| (0..20_000).for_each(|_| _ = latch.consume()));
        });
        assert!(latch.totals().balanced());
        assert_eq!(latch.totals().sent, 40_000);
    }
}
