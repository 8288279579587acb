//! The locks, model-checked with loom: how and what for stands in the crate's `model.rs`.
//!
//! ```text
//!   main           has the lock, counts, lets go, kicks
//!   two others     take tickets, wait as paravirt waiters that halt at once, count, let go, kick
//! ```
//! A model fails if a count is lost (two owners at a time, or one that does not see what the last one wrote), or if somebody
//! halts for ever: loom reports a deadlock. A halt may end for no reason, which loom tries too.
use std::vec::Vec;

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Notify};
use loom::thread;

use super::{LockId, SERVED, SLOW, Ticket, TicketLock, UnfairLock, Waiter, awaited, served, who_awaits};
use crate::model::{Mutant, all_caught, check, run_mutant};
use crate::sync::{AtomicU64, Ordering};
use crate::vcpu::LockLine;

const ID: LockId = LockId(1);

/// The steps that a mutant may get wrong.
#[derive(Clone, Copy)]
struct Steps {
    wait: fn(&Vm, u32, Ticket),
    unlock: fn(&TicketLock, Ticket) -> Option<Ticket>,
    kick: fn(&Vm, u32),
}

const PRODUCT: Steps = Steps {
    wait: |vm, me, ticket| vm.tickets.wait_pv(ID, ticket, &vm.lines[me as usize], 0, &mut Halts(vm, me)),
    unlock: TicketLock::unlock,
    kick: |vm, vcpu| vm.latches[vcpu as usize].notify(),
};

/// What three vCPUs share.
struct Vm {
    tickets: TicketLock,
    unfair: UnfairLock,
    lines: Vec<LockLine>,
    latches: Vec<Notify>,
    halts: Vec<AtomicBool>,
    count: AtomicU64,
}

struct Halts<'a>(&'a Vm, u32);

impl Waiter for Halts<'_> {
    fn spin(&mut self) {
        thread::yield_now();
    }
    fn halt(&mut self) {
        let Self(vm, me) = *self;
        vm.halts[me as usize].store(true, Ordering::Release);
        vm.latches[me as usize].wait();
        vm.halts[me as usize].store(false, Ordering::Release);
    }
}

impl Vm {
    fn new(slow: bool) -> Arc<Self> {
        let tickets = TicketLock::default();
        if slow {
            tickets.0.fetch_or(SLOW, Ordering::Relaxed);
        }
        Arc::new(Self {
            tickets,
            unfair: UnfairLock::default(),
            lines: (0..3).map(|_| LockLine::default()).collect(),
            latches: (0..3).map(|_| Notify::new()).collect(),
            halts: (0..3).map(|_| AtomicBool::new(false)).collect(),
            count: AtomicU64::new(0),
        })
    }

    /// Two owners at once lose a count, and so does one that does not see the last one's.
    fn count(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }

    fn let_go(&self, steps: Steps, ticket: Ticket) {
        self.count();
        let next = (steps.unlock)(&self.tickets, ticket);
        if let Some(vcpu) = next.and_then(|next| who_awaits(ID, next, self.lines.iter())) {
            (steps.kick)(self, vcpu);
        }
    }
}

/// `slow`: the flag is left over from waiters that are gone.
fn three_owners(steps: Steps, slow: bool) {
    let vm = Vm::new(slow);
    let (own, mine) = vm.tickets.take();
    assert!(mine);
    let others = [1, 2].map(|me| {
        let vm = vm.clone();
        thread::spawn(move || {
            let (ticket, mine) = vm.tickets.take();
            if !mine {
                (steps.wait)(&vm, me, ticket);
            }
            vm.let_go(steps, ticket);
        })
    });
    vm.let_go(steps, own);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(vm.count.load(Ordering::Relaxed), 3, "a count is lost");
}

/// Spinning: who looks first has it.
fn two_unfair(take: fn(&UnfairLock) -> bool) {
    let vm = Vm::new(false);
    let other = {
        let vm = vm.clone();
        thread::spawn(move || {
            while !take(&vm.unfair) {
                thread::yield_now();
            }
            vm.count();
            vm.unfair.unlock();
        })
    };
    if take(&vm.unfair) {
        vm.count();
        vm.unfair.unlock();
    } else {
        vm.unfair.wait(&mut Halts(&vm, 0));
        vm.count();
        vm.unfair.unlock();
    }
    other.join().unwrap();
    assert_eq!(vm.count.load(Ordering::Relaxed), 2, "a count is lost");
}

#[test]
fn the_locks_hold() {
    check("three owners that halt", || three_owners(PRODUCT, false));
    check("three owners, flag left over", || three_owners(PRODUCT, true));
    check("two owners of an unfair lock", || two_unfair(UnfairLock::take));
}

const LOST: &str = "a count is lost";
const ASLEEP: &str = "deadlock";

/// The product's loop with a wrong announcement.
fn wait_with(vm: &Vm, me: u32, ticket: Ticket, announce: fn(&Vm, u32, Ticket) -> bool) {
    while !announce(vm, me, ticket) {
        Halts(vm, me).halt();
        vm.lines[me as usize].awaited.store(0, Ordering::Relaxed);
    }
    vm.lines[me as usize].awaited.store(0, Ordering::Relaxed);
}

const MUTANTS: [Mutant; 7] = [
    ("a halt without a look after the announcement", ASLEEP, || {
        let wait = |vm: &Vm, me, ticket| {
            while !vm.tickets.is_turn(ticket) {
                let _ = vm.tickets.announce(ID, ticket, &vm.lines[me as usize]);
                Halts(vm, me).halt();
            }
        };
        loom::model(move || three_owners(Steps { wait, ..PRODUCT }, false));
    }),
    ("a flag before the announcement", ASLEEP, || {
        let wait = |vm: &Vm, me, ticket| {
            wait_with(vm, me, ticket, |vm, me, ticket| {
                let mine = served(vm.tickets.0.fetch_or(SLOW, Ordering::AcqRel)) == ticket;
                vm.lines[me as usize].awaited.store(awaited(ID, ticket), Ordering::Release);
                mine
            });
        };
        loom::model(move || three_owners(Steps { wait, ..PRODUCT }, false));
    }),
    ("a flag that is read before the lock is let go", ASLEEP, || {
        let unlock = |lock: &TicketLock, _: Ticket| {
            let slow = lock.0.load(Ordering::Acquire) & SLOW != 0;
            let before = lock.0.fetch_add(1, Ordering::AcqRel);
            slow.then_some(Ticket(served(before).0 + 1))
        };
        loom::model(move || three_owners(Steps { unlock, ..PRODUCT }, false));
    }),
    ("a flag that is cleared while somebody comes", ASLEEP, || {
        let unlock = |lock: &TicketLock, ticket: Ticket| {
            let before = lock.0.fetch_add(1, Ordering::AcqRel);
            let next = Ticket(ticket.0 + 1);
            if before & SLOW != 0 && super::next_free(before) == next {
                lock.0.fetch_and(!SLOW, Ordering::AcqRel);
                return None;
            }
            (before & SLOW != 0).then_some(next)
        };
        loom::model(move || three_owners(Steps { unlock, ..PRODUCT }, true));
    }),
    ("a kick that is lost unless its target halts already", ASLEEP, || {
        let kick = |vm: &Vm, vcpu: u32| {
            if vm.halts[vcpu as usize].load(Ordering::Acquire) {
                vm.latches[vcpu as usize].notify();
            }
        };
        loom::model(move || three_owners(Steps { kick, ..PRODUCT }, false));
    }),
    ("the end of a halt is taken for the lock", LOST, || {
        let wait = |vm: &Vm, me, ticket| {
            if !vm.tickets.announce(ID, ticket, &vm.lines[me as usize]) {
                Halts(vm, me).halt();
            }
        };
        loom::model(move || three_owners(Steps { wait, ..PRODUCT }, false));
    }),
    ("a test, then a set", LOST, || {
        loom::model(|| {
            two_unfair(|lock| {
                let free = lock.0.load(Ordering::Acquire) == 0;
                if free {
                    lock.0.store(1, Ordering::Release);
                }
                free
            });
        });
    }),
];

#[test]
fn every_mutant_of_the_locks_is_caught() {
    const _: () = assert!(SERVED & SLOW == 0);
    all_caught("lock::model::one_mutant", &MUTANTS);
}

#[test]
#[ignore = "fails on purpose: run by every_mutant_of_the_locks_is_caught"]
fn one_mutant() {
    run_mutant(&MUTANTS);
}
