//! The dispatcher's own protocols, model-checked: the token of a pCPU, and the seat of a vCPU. See [`crate::model`].
use std::sync::Arc;

use loom::thread;

use super::seat::Seat;
use super::token::{Holder, Token, pending};
use crate::kick::{KickCell, Posted, Reason};
use crate::model::{Mutant, all_caught, holds, run_mutant};
use crate::sched::VcpuIndex;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock, park};

/// Two threads leave work for an idle CPU; whoever finds it free acts for it. None is left behind, never two act at once.
fn work_for_an_idle_cpu(looks_again: bool) {
    let token = Arc::new(Token::new());
    let acting = Arc::new(AtomicU32::new(0));
    let act = move |token: &Token, acting: &AtomicU32| {
        if token.post(pending::RESCHED) != Holder::Nobody {
            return;
        }
        while token.claim() {
            assert_eq!(acting.fetch_add(1, Ordering::AcqRel), 0, "two act for one CPU");
            token.take_work();
            acting.fetch_sub(1, Ordering::AcqRel);
            if !(token.release() && looks_again) {
                break;
            }
        }
    };
    let other = {
        let (token, acting) = (token.clone(), acting.clone());
        thread::spawn(move || act(&token, &acting))
    };
    act(&token, &acting);
    other.join().unwrap();
    assert!(!token.has_work(), "work is left behind a free token");
}

/// vCPU 0 hands its CPU to vCPU 1 while somebody leaves work there: the kick may reach the one who has just left, so the
/// new holder looks after it took over.
fn work_during_a_hand_over(new_holder_looks: bool) {
    let token = Arc::new(Token::new());
    assert!(token.claim());
    token.give(VcpuIndex(0));
    let cells = Arc::new([KickCell::new(), KickCell::new()]);
    // This thread is vCPU 1's.
    let seat = Arc::new(Seat::new());
    assert!(seat.sit());
    let poster = {
        let (token, cells) = (token.clone(), cells.clone());
        thread::spawn(move || match token.post(pending::RESCHED) {
            Holder::Vcpu(vcpu) => Some((vcpu, cells[vcpu.index()].post(Reason::Resched))),
            Holder::Claimer | Holder::Nobody => None,
        })
    };
    let outgoing = {
        let (token, seat) = (token.clone(), seat.clone());
        thread::spawn(move || {
            token.give(VcpuIndex(1));
            seat.grant(0, 1);
        })
    };
    while seat.take_grant().is_none() {
        park();
    }
    let in_guest = if new_holder_looks && token.has_work() {
        token.take_work();
        false
    } else {
        // A kick that is waiting keeps it out.
        cells[1].pending().is_empty()
    };
    outgoing.join().unwrap();
    let posted = poster.join().unwrap();
    let reached = matches!(posted, Some((VcpuIndex(1), Posted::Stored | Posted::Signalled)));
    assert!(!in_guest || reached || !token.has_work(), "runs on with work that it was not told of");
}

/// A vCPU halts while two others raise what it waits for: it is enqueued again, by one of them, and never while it is
/// still its CPU's current task.
fn halt_and_wake(looks: bool) {
    let seat = Arc::new(Seat::new());
    let raised = Arc::new(AtomicBool::new(false));
    // Tasks on the run queue: the vCPU itself, while it has not blocked.
    let queued = Arc::new(Mutex::new(1));
    let wakers = [(), ()].map(|()| {
        let (seat, raised, queued) = (seat.clone(), raised.clone(), queued.clone());
        thread::spawn(move || {
            raised.swap(true, Ordering::AcqRel);
            if let Some(gate) = seat.begin_wake() {
                let mut queued = lock(&queued);
                assert_eq!(*queued, 0, "enqueued twice");
                *queued = 1;
                drop(queued);
                gate.awake();
            }
        })
    });
    if let Some(gate) = seat.begin_halt(&|| looks && raised.load(Ordering::Acquire)) {
        *lock(&queued) -= 1;
        gate.fall_asleep();
    }
    for waker in wakers {
        waker.join().unwrap();
    }
    assert_eq!(*lock(&queued), 1, "sleeps for ever");
}

/// A grant reaches a thread that is about to park. A lost one is a deadlock, which loom reports.
fn grant_and_park(looks: bool) {
    let seat = Arc::new(Seat::new());
    assert!(seat.sit());
    let giver = {
        let seat = seat.clone();
        thread::spawn(move || seat.grant(3, 7))
    };
    if looks {
        loop {
            match seat.take_grant() {
                Some(grant) => break assert_eq!(grant, (3, 7)),
                None => park(),
            }
        }
    } else {
        // Parks once more than there are grants.
        park();
        park();
    }
    giver.join().unwrap();
}

#[test]
fn the_product_holds() {
    holds("work for an idle CPU", || work_for_an_idle_cpu(true));
    holds("work during a hand-over", || work_during_a_hand_over(true));
    holds("halt against two wakers", || halt_and_wake(true));
    holds("grant against park", || grant_and_park(true));
}

const MUTANTS: [Mutant; 7] = [
    ("a token without fences", true, "left behind", || work_for_an_idle_cpu(true)),
    ("a released token is not looked at again", false, "left behind", || work_for_an_idle_cpu(false)),
    ("a hand-over without fences", true, "not told of", || work_during_a_hand_over(true)),
    ("a new holder that does not look", false, "not told of", || work_during_a_hand_over(false)),
    ("a seat without fences", true, "sleeps for ever", || halt_and_wake(true)),
    ("a halt that does not look", false, "sleeps for ever", || halt_and_wake(false)),
    ("a thread that parks without looking", false, "deadlock", || grant_and_park(false)),
];

#[test]
fn every_mutant_is_caught() {
    all_caught("dispatch::model::one_mutant", &MUTANTS);
}

#[test]
#[ignore = "fails on purpose: run by every_mutant_is_caught"]
fn one_mutant() {
    run_mutant(&MUTANTS);
}
