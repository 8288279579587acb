//! One CPU goes round three vCPUs while two others leave work for it: more than loom can enumerate, so shuttle draws
//! schedules at random, by the dispatcher's own types.
//!
//! ```text
//!   vCPU 0 ── give, grant ──► vCPU 1 ── give, grant ──► vCPU 2 ── ... ──► the last one stays in the guest
//!              ▲ posters: leave work, kick whom they see holding the token; act themselves where nobody does
//! ```
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p vmm --release --lib rotation` and a target directory of its own.
use std::panic::catch_unwind;
use std::sync::Arc;

use shuttle::thread;

use super::seat::Seat;
use super::token::{Holder, Token, pending};
use crate::kick::{KickCell, Posted, Reason};
use crate::sched::VcpuIndex;
use crate::sync::{AtomicBool, AtomicU32, Ordering, park};

const VCPUS: u32 = 3;
const POSTERS: u32 = 2;
/// Hand-overs of one execution.
const TURNS: u32 = 5;
/// Schedules that the product must outlive, and each mutant must not.
const SCHEDULES: usize = 20_000;
const DEPTH: usize = 4;

/// The steps that a mutant gets wrong.
#[derive(Clone, Copy)]
struct Steps {
    /// Who takes the CPU over looks whether work waits there.
    looks: bool,
    /// The token goes before the grant.
    token_first: bool,
    /// Who leaves the CPU idle looks again.
    looks_again: bool,
}

const PRODUCT: Steps = Steps { looks: true, token_first: true, looks_again: true };

#[derive(Default)]
struct Shared {
    cells: [KickCell; VCPUS as usize],
    turn: AtomicU32,
    acting: AtomicU32,
    idle: AtomicBool,
}

/// The thread of `me`: takes the CPU when it comes, looks for work, enters, hands over. True if it ended in the guest with
/// work waiting: then somebody must have kicked it.
fn vcpu(me: u32, shared: &Shared, token: &Token, seats: &[Seat], steps: Steps) -> bool {
    loop {
        while seats[me as usize].take_grant().is_none() {
            if shared.idle.load(Ordering::SeqCst) {
                return false;
            }
            park();
        }
        assert_eq!(shared.acting.fetch_add(1, Ordering::SeqCst), 0, "two act for one CPU");
        assert_eq!(token.holder(), Holder::Vcpu(VcpuIndex(me)), "granted a CPU whose token another one has");
        if steps.looks && token.has_work() {
            token.take_work();
        }
        let turn = shared.turn.fetch_add(1, Ordering::SeqCst);
        shared.acting.fetch_sub(1, Ordering::SeqCst);
        if turn == TURNS {
            shared.idle.store(true, Ordering::SeqCst);
            seats.iter().for_each(Seat::wake_thread);
            // In the guest, unless a kick keeps it out.
            return shared.cells[me as usize].pending().is_empty();
        }
        let next = (me + 1) % VCPUS;
        if steps.token_first {
            token.give(VcpuIndex(next));
            seats[next as usize].grant(0, turn.into());
        } else {
            seats[next as usize].grant(0, turn.into());
            token.give(VcpuIndex(next));
        }
    }
}

fn rotate(steps: Steps) {
    let token = Arc::new(Token::new());
    let shared = Arc::new(Shared::default());
    let seats: Arc<[Seat]> = (0..VCPUS).map(|_| Seat::new()).collect();
    let seated = Arc::new(AtomicU32::new(0));
    assert!(token.claim());
    let vcpus: Vec<_> = (0..VCPUS)
        .map(|me| {
            let (token, shared, seats, seated) = (token.clone(), shared.clone(), seats.clone(), seated.clone());
            thread::spawn(move || {
                assert!(seats[me as usize].sit());
                if seated.fetch_add(1, Ordering::SeqCst) + 1 == VCPUS {
                    token.give(VcpuIndex(0));
                    seats[0].grant(0, 0);
                }
                vcpu(me, &shared, &token, &seats, steps)
            })
        })
        .collect();
    let posters: Vec<_> = (0..POSTERS)
        .map(|_| {
            let (token, shared) = (token.clone(), shared.clone());
            thread::spawn(move || match token.post(pending::RESCHED) {
                Holder::Vcpu(vcpu) => Some((vcpu, shared.cells[vcpu.index()].post(Reason::Resched))),
                // Not yet given to anybody: who gets it looks.
                Holder::Claimer | Holder::Nobody => None,
            })
        })
        .collect();
    let in_guest: Vec<bool> = vcpus.into_iter().map(|thread| thread.join().unwrap()).collect();
    let posted: Vec<_> = posters.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    let last = TURNS % VCPUS;
    let reached =
        |(vcpu, how): &(VcpuIndex, Posted)| vcpu.0 == last && matches!(how, Posted::Stored | Posted::Signalled);
    let told = posted.iter().any(reached);
    assert!(!in_guest[last as usize] || told || !token.has_work(), "runs on with work that it was not told of");
}

/// Three threads leave work for an idle CPU at once; whoever finds it free acts for it.
fn idle_among_three(steps: Steps) {
    let (token, acting) = (Arc::new(Token::new()), Arc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (token, acting) = (token.clone(), acting.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    if token.post(pending::RESCHED) != Holder::Nobody {
                        continue;
                    }
                    while token.claim() {
                        assert_eq!(acting.fetch_add(1, Ordering::SeqCst), 0, "two act for one CPU");
                        token.take_work();
                        acting.fetch_sub(1, Ordering::SeqCst);
                        if !(token.release() && steps.looks_again) {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!token.has_work(), "work is left behind a free token");
}

fn holds(model: fn(Steps)) {
    shuttle::check_random(move || model(PRODUCT), SCHEDULES);
    shuttle::check_pct(move || model(PRODUCT), SCHEDULES, DEPTH);
}

#[test]
fn a_cpu_that_goes_round_three_vcpus_holds() {
    holds(rotate);
    holds(idle_among_three);
    println!("rotation, idle: {SCHEDULES} random schedules and {SCHEDULES} of depth {DEPTH} each");
}

#[test]
fn every_mutant_of_the_rotation_is_caught() {
    for (name, words, model, steps) in [
        ("the new holder does not look", "not told of", rotate as fn(Steps), Steps { looks: false, ..PRODUCT }),
        ("the grant goes before the token", "another one has", rotate, Steps { token_first: false, ..PRODUCT }),
        (
            "who leaves a CPU idle does not look again",
            "left behind",
            idle_among_three,
            Steps { looks_again: false, ..PRODUCT },
        ),
    ] {
        let died = catch_unwind(move || shuttle::check_random(move || model(steps), SCHEDULES));
        let payload = died.err().unwrap_or_else(|| panic!("the mutant lives: {name}"));
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        assert!(text.contains(words), "{name}: caught for another reason: {text}");
        println!("caught: {name}");
    }
}
