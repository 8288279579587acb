//! The protocols of the vCPU threads, model-checked with loom: every interleaving of up to a bounded number of
//! preemptions, and every reordering that the memory model allows, of the product's own types.
//!
//! Run with `LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" cargo test -p vmm --release --lib model` (and a target
//! directory of its own).
//!
//! Here: kicks, halts under the kernel's scheduler, latches, vectors. `dispatch/model.rs` has the token and the seat. Each
//! wrong form of a step that has hit somebody (a *mutant*) must be caught, or the checker has proved nothing. Among them is
//! "no fences": the whole crate takes them from [`sync`](crate::sync), which leaves them out on demand.
use std::process::Command;
use std::string::String;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use crate::kick::{Bound, KickCell, Posted, Reason, install_handler};
use crate::latch::KickLatch;
use crate::sched::{HostSched, PreemptNotifier, SchedOut, VcpuIndex, VcpuSched};
use crate::sync::WITHOUT_FENCES;
use crate::vectors::PendingVectors;

/// Explores a model that must hold, and tells how many executions that were.
pub(crate) fn holds(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} executions", executions.load(Ordering::Relaxed));
}

/// Something wrong, whether it is "no fences", what the model says of it, and the model.
pub(crate) type Mutant = (&'static str, bool, &'static str, fn());

const CHILD: &str = "VMM_MUTANT";

/// Lets each mutant die in a process of its own, which the failing model may take with it: `child` is the name of the
/// ignored test that ends in [`run_mutant`].
pub(crate) fn all_caught(child: &str, mutants: &[Mutant]) {
    for (index, (name, no_fences, words, _)) in mutants.iter().enumerate() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", child, "--ignored", "--nocapture"]).env(CHILD, index.to_string());
        if *no_fences {
            command.env(WITHOUT_FENCES, "1");
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "the mutant lives: {name}");
        assert!(text.contains(words), "{name}: caught for another reason: {text}");
        println!("caught: {name}");
    }
}

/// The mutant that the parent process named.
pub(crate) fn run_mutant(mutants: &[Mutant]) {
    let index: usize = std::env::var(CHILD).unwrap().parse().unwrap();
    loom::model(mutants[index].3);
}

/// A cell bound to the calling thread. The byte outlives it, and no vCPU runs.
fn bound(cell: &KickCell) -> Bound<'_> {
    install_handler().unwrap();
    let byte = Box::leak(Box::new(0));
    // SAFETY: the byte is leaked, so it outlives every binding; there is no kvm_run page that KVM would read. Unsafe
    // because a binding keeps a raw pointer for its signal handler.
    unsafe { Bound::new(cell, byte) }
}

/// A kick is seen before the entry or signals into it.
fn kick_and_enter(looks: bool) {
    let cell = Arc::new(KickCell::new());
    let sender = {
        let cell = cell.clone();
        thread::spawn(move || cell.post(Reason::Interrupt))
    };
    let bound = bound(&cell);
    // The owner enters if nothing is waiting, and stays until the sender is through.
    let in_run = bound.enter();
    let entered = in_run.is_some() || !looks;
    let posted = sender.join().unwrap();
    assert!(!entered || posted == Posted::Signalled, "in KVM_RUN with a reason that nobody signalled");
    drop(in_run);
    assert!(cell.take().contains(Reason::Interrupt));
    let totals = cell.totals();
    assert_eq!(totals.sent, totals.consumed + totals.coalesced);
}

/// A waiter knows when the target has left its run.
fn wait_until_left() {
    let cell = Arc::new(KickCell::new());
    // Two senders, so that one of them may find the reason already there.
    let senders = [(), ()].map(|()| {
        let cell = cell.clone();
        thread::spawn(move || {
            cell.post(Reason::Interrupt);
            // What is in no run now must see the reason before its next one.
            cell.current_run().is_none()
        })
    });
    let bound = bound(&cell);
    let in_run = bound.enter();
    for sender in senders {
        let outside = sender.join().unwrap();
        assert!(!(outside && in_run.is_some()), "called outside while in the guest");
    }
}

#[derive(Debug)]
struct Silent;

impl PreemptNotifier for Silent {
    fn sched_out(&self, _vcpu: VcpuIndex, _why: SchedOut) {}
    fn sched_in(&self, _vcpu: VcpuIndex) {}
}

/// A kick just before the halt is not lost: a lost one is a deadlock, which loom reports.
fn kick_and_halt(looks: bool) {
    let cells: Arc<[KickCell]> = (0..1).map(|_| KickCell::new()).collect();
    let sched = Arc::new(HostSched::new(cells.clone(), Arc::new(Silent)));
    let latch = Arc::new(KickLatch::default());
    let sender = {
        let (sched, latch) = (sched.clone(), latch.clone());
        thread::spawn(move || {
            if latch.kick() {
                sched.wake(VcpuIndex(0), None);
            }
        })
    };
    let bound = bound(&cells[0]);
    let mut me = sched.attach(VcpuIndex(0), &bound).unwrap();
    if looks {
        while !latch.consume() {
            me.halt(&|| latch.is_set());
        }
    } else if !latch.consume() {
        // Looked once, and sleeps until it is woken, whatever the latch says by then.
        let looks = std::cell::Cell::new(0);
        me.halt(&|| looks.replace(looks.get() + 1) >= 2);
    }
    sender.join().unwrap();
    assert!(latch.totals().balanced());
}

/// A vector raised while another is accepted is delivered.
fn raise_and_accept(accept_last: bool) {
    let pending = Arc::new(PendingVectors::default());
    pending.raise(0xf0, 1);
    let raiser = {
        let pending = pending.clone();
        thread::spawn(move || pending.raise(0xf0, 2))
    };
    // The owner gives the vector to KVM, and delivers it after that.
    assert_eq!(pending.highest(), Some(0xf0));
    if accept_last {
        // It is taken off the bitmap after its delivery: what was raised meanwhile goes with it.
        raiser.join().unwrap();
        pending.accepted(0xf0);
        assert!(pending.highest().is_some(), "a vector is lost");
        return;
    }
    pending.accepted(0xf0);
    let fresh = raiser.join().unwrap();
    // Raised before the acceptance: served by that delivery. Raised after it: waits for the next.
    assert_eq!(pending.highest().is_some(), fresh, "a vector is lost");
}

#[test]
fn the_product_holds() {
    holds("kick against entry", || kick_and_enter(true));
    holds("waiting for a run to end", wait_until_left);
    holds("kick against halt", || kick_and_halt(true));
    holds("vector against acceptance", || raise_and_accept(false));
}

const MUTANTS: [Mutant; 6] = [
    ("a kick without fences", true, "nobody signalled", || kick_and_enter(true)),
    ("an entry that does not look", false, "nobody signalled", || kick_and_enter(false)),
    ("a wait for the end of a run without fences", true, "called outside", wait_until_left),
    ("a halt without fences", true, "deadlock", || kick_and_halt(true)),
    ("a halt that does not look at its latch", false, "deadlock", || kick_and_halt(false)),
    ("a vector accepted after its delivery", false, "a vector is lost", || raise_and_accept(true)),
];

#[test]
fn every_mutant_is_caught() {
    all_caught("model::one_mutant", &MUTANTS);
}

#[test]
#[ignore = "fails on purpose: run by every_mutant_is_caught"]
fn one_mutant() {
    run_mutant(&MUTANTS);
}
