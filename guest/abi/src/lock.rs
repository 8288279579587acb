//! Spinlocks of the guest: ticket locks, test-and-set locks, and what a paravirt ticket lock does besides.
//!
//! ```text
//!   TicketLock   63 .......... 33 | 32 |  31  | 30 ........... 0
//!                next free ticket |  0 | SLOW | ticket that is served
//!
//!   take:   ticket = next free += 1                          mine at once, if it is the one that is served
//!   wait:   spin until served = ticket
//!   pv:     spin a budget; announce (lock, ticket) in the own page; set SLOW, and look at `served` in that same step;
//!           still not served: halt; spin again whatever ended the halt
//!   early:  pv, but it looks now and then whether who has the lock is on a CPU, and halts at once if not
//!   unlock: served += 1, and look at SLOW in that same step; set: kick who announced the ticket that is served now
//! ```
//!
//! The paravirt form is that of "Paravirtualized ticket spinlocks" (Fitzhardinge and Raghavendra, LKML 2012 and 2013,
//! Linux 3.12: `__ticket_lock_spinning`, `__ticket_unlock_slowpath`, `TICKET_SLOWPATH_FLAG`). Linux writes the served
//! ticket and reads the flag with two instructions and a barrier between; here both ends meet in one read-modify-write of
//! one word, so that order needs no argument. The early end of spinning is that of `pv_wait_early`
//! (Linux 4.4, queued spinlocks) with the sign of `vcpu_is_preempted` (Linux 4.10 on KVM). The test-and-set lock is
//! `virt_spin_lock` of Linux 4.2.
//!
//! Tickets have 31 bits and wrap around. The free tickets wrap off the word's top; who lets go with the last ticket
//! subtracts instead of adding, so that no carry reaches `SLOW`.
//!
//! Properties, each with the mutants that break it in `model.rs`: one owner at a time, who sees what the last one wrote;
//! tickets are served in order; whoever halts is kicked when its ticket is served, if it does not look up before.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::vcpu::LockLine;

#[cfg(all(test, loom))]
mod model;

/// The ticket that is served.
const SERVED: u64 = (1 << 31) - 1;
/// Somebody in line may halt: who lets go looks for whom to kick.
const SLOW: u64 = 1 << 31;
const NEXT_SHIFT: u32 = 33;
/// Turns of spinning between two looks at who has the lock. Who was kicked needs a while to get there: as many turns as
/// it takes where CPUs are free are worth spinning.
pub const LOOK_EVERY: u32 = 1024;

/// A place in the line of a [`TicketLock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u32);

/// Names a lock in announcements: any number but 0, each lock another, as its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockId(pub u32);

/// What a vCPU does while it stands in line.
pub trait Waiter {
    /// One turn of spinning.
    fn spin(&mut self);
    /// True if to go on spinning is in vain: who has the lock now, with that ticket, does not execute.
    fn in_vain(&self, served: Ticket) -> bool {
        let _ = served;
        false
    }
    /// Halts until it is kicked; a kick that came before counts. May return for no reason.
    fn halt(&mut self);
}

/// First come, first served. All zero is free.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct TicketLock(AtomicU64);

#[allow(clippy::cast_possible_truncation)] // 31 bits are left.
const fn served(word: u64) -> Ticket {
    Ticket((word & SERVED) as u32)
}

#[allow(clippy::cast_possible_truncation)] // 31 bits are left.
const fn next_free(word: u64) -> Ticket {
    Ticket((word >> NEXT_SHIFT) as u32)
}

impl TicketLock {
    /// A free lock.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes a place in the line; true if the lock is the caller's now.
    #[must_use]
    pub fn take(&self) -> (Ticket, bool) {
        let before = self.0.fetch_add(1 << NEXT_SHIFT, Ordering::AcqRel);
        (next_free(before), next_free(before) == served(before))
    }

    /// True if the lock belongs to who has that ticket.
    #[must_use]
    pub fn is_turn(&self, ticket: Ticket) -> bool {
        served(self.0.load(Ordering::Acquire)) == ticket
    }

    /// Spins until it is that ticket's turn.
    pub fn wait(&self, ticket: Ticket, waiter: &mut impl Waiter) {
        while !self.is_turn(ticket) {
            waiter.spin();
        }
    }

    /// The same, but halts after each `spins` turns of spinning, or when they are in vain. `own` is the caller's line, `id`
    /// names this lock.
    pub fn wait_pv(&self, id: LockId, ticket: Ticket, own: &LockLine, spins: u32, waiter: &mut impl Waiter) {
        loop {
            for turn in 0..spins {
                let served = served(self.0.load(Ordering::Acquire));
                if served == ticket {
                    return;
                }
                if turn % LOOK_EVERY == LOOK_EVERY - 1 && waiter.in_vain(served) {
                    break;
                }
                waiter.spin();
            }
            let mine = self.announce(id, ticket, own);
            if !mine {
                waiter.halt();
            }
            own.awaited.store(0, Ordering::Relaxed);
            if mine {
                return;
            }
        }
    }

    /// Tells the next one to let go whom to kick; true if the lock is the caller's already and nobody will.
    fn announce(&self, id: LockId, ticket: Ticket, own: &LockLine) -> bool {
        own.awaited.store(awaited(id, ticket), Ordering::Relaxed);
        // Releases the announcement. Who lets go before this step is seen by it; who does after it sees the flag.
        served(self.0.fetch_or(SLOW, Ordering::AcqRel)) == ticket
    }

    /// Lets go. The ticket whose holder must be kicked if it has announced itself: see [`who_awaits`].
    #[must_use = "a waiter that is not kicked sleeps for ever"]
    pub fn unlock(&self, ticket: Ticket) -> Option<Ticket> {
        let step = if u64::from(ticket.0) == SERVED { SERVED.wrapping_neg() } else { 1 };
        let before = self.0.fetch_add(step, Ordering::AcqRel);
        if before & SLOW == 0 {
            return None;
        }
        let now = before.wrapping_add(step);
        // Nobody in line: the flag goes, unless somebody has come since (who may have set it again).
        let empty = next_free(now) == served(now);
        if empty && self.0.compare_exchange(now, now & !SLOW, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return None;
        }
        Some(served(now))
    }
}

fn awaited(id: LockId, ticket: Ticket) -> u64 {
    u64::from(id.0) << 32 | u64::from(ticket.0)
}

/// The vCPU that has announced that it waits for that ticket of that lock. `lines`: those of all vCPUs, by number.
pub fn who_awaits<'a>(id: LockId, ticket: Ticket, lines: impl Iterator<Item = &'a LockLine>) -> Option<u32> {
    let found = (0..).zip(lines).find(|(_, line)| line.awaited.load(Ordering::Relaxed) == awaited(id, ticket));
    found.map(|(vcpu, _)| vcpu)
}

/// Whoever looks first when it is free. All zero is free.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnfairLock(AtomicU32);

impl UnfairLock {
    /// A free lock.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// True if the lock was free; it is the caller's now.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.swap(1, Ordering::AcqRel) == 0
    }

    /// Spins until it has the lock. It looks with plain loads, so that waiters do not take the line from each other.
    pub fn wait(&self, waiter: &mut impl Waiter) {
        loop {
            if self.0.load(Ordering::Relaxed) == 0 && self.take() {
                return;
            }
            waiter.spin();
        }
    }

    /// Lets go.
    pub fn unlock(&self) {
        // A store would do; the model checker orders one against another's swap either way.
        self.0.swap(0, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const ID: LockId = LockId(7);

    /// Counts, and lets the lock go when it halts.
    struct Holder<'a>(&'a TicketLock, Ticket, [u32; 2]);

    impl Waiter for Holder<'_> {
        fn spin(&mut self) {
            self.2[0] += 1;
        }
        fn halt(&mut self) {
            self.2[1] += 1;
            // The first halt ends for no reason.
            if self.2[1] == 2 {
                assert!(self.0.unlock(self.1).is_some());
            }
        }
    }

    #[test]
    fn tickets_are_served_in_order_across_their_wrap() {
        let lock = TicketLock(AtomicU64::new((SERVED - 1) << NEXT_SHIFT | (SERVED - 1)));
        for _ in 0..4 {
            let (first, mine) = lock.take();
            let (second, not_mine) = lock.take();
            assert!(mine && !not_mine && lock.is_turn(first) && !lock.is_turn(second));
            assert_eq!(lock.unlock(first), None);
            assert!(lock.is_turn(second));
            assert_eq!(lock.unlock(second), None);
        }
        assert_eq!(lock.0.load(Ordering::Relaxed), 6 << NEXT_SHIFT | 6);
    }

    #[test]
    fn who_has_spun_its_budget_halts_and_is_found_by_who_lets_go() {
        let (lock, lines) = (TicketLock::new(), [LockLine::default(), LockLine::default()]);
        let (holder, _) = lock.take();
        let (waiter, _) = lock.take();
        assert!(!lock.announce(ID, waiter, &lines[1]));
        let next = lock.unlock(holder).expect("the flag is set");
        assert_eq!(next, waiter);
        assert_eq!(who_awaits(ID, next, lines.iter()), Some(1));
        assert_eq!(who_awaits(LockId(8), next, lines.iter()), None);
        assert!(lock.announce(ID, waiter, &lines[1]), "its turn: it must not halt");
        assert_eq!(lock.unlock(waiter), None, "nobody is left in line");
        assert_eq!(lock.0.load(Ordering::Relaxed) & SLOW, 0);
    }

    #[test]
    fn a_halt_that_ends_early_is_followed_by_another() {
        let (lock, line) = (TicketLock::new(), LockLine::default());
        let (holder, _) = lock.take();
        let (ticket, _) = lock.take();
        let mut waiter = Holder(&lock, holder, [0, 0]);
        lock.wait_pv(ID, ticket, &line, 5, &mut waiter);
        assert_eq!(waiter.2, [10, 2]);
        assert_eq!(line.awaited.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_spins_in_vain_halts_at_its_first_look() {
        struct Behind<'a>(Holder<'a>);
        impl Waiter for Behind<'_> {
            fn spin(&mut self) {
                self.0.spin();
            }
            fn in_vain(&self, served: Ticket) -> bool {
                assert_eq!(served, self.0.1, "it is told who is served");
                true
            }
            fn halt(&mut self) {
                self.0.halt();
            }
        }
        let (lock, line) = (TicketLock::new(), LockLine::default());
        let (holder, _) = lock.take();
        let (ticket, _) = lock.take();
        let mut waiter = Behind(Holder(&lock, holder, [0, 0]));
        lock.wait_pv(ID, ticket, &line, 1_000_000, &mut waiter);
        assert_eq!(waiter.0.2, [2 * (LOOK_EVERY - 1), 2]);
    }

    #[test]
    fn threads_count_together_under_every_lock() {
        struct Yields;
        impl Waiter for Yields {
            fn spin(&mut self) {
                std::thread::yield_now();
            }
            fn halt(&mut self) {
                std::thread::yield_now();
            }
        }
        const TURNS: u64 = 2_000;
        let (tickets, unfair) = (TicketLock::new(), UnfairLock::new());
        let [by_ticket, by_pv, by_swap] = [0; 3].map(AtomicU64::new);
        let add = |sum: &AtomicU64| sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let line = LockLine::default();
                    for _ in 0..TURNS {
                        let (ticket, mine) = tickets.take();
                        if !mine {
                            tickets.wait(ticket, &mut Yields);
                        }
                        add(&by_ticket);
                        let _ = tickets.unlock(ticket);
                        let (ticket, mine) = tickets.take();
                        if !mine {
                            tickets.wait_pv(ID, ticket, &line, 1, &mut Yields);
                        }
                        add(&by_pv);
                        let _ = tickets.unlock(ticket);
                        unfair.wait(&mut Yields);
                        add(&by_swap);
                        unfair.unlock();
                    }
                });
            }
        });
        assert_eq!([by_ticket, by_pv, by_swap].map(AtomicU64::into_inner), [3 * TURNS; 3]);
    }
}
