//! The protocols of the vCPU threads, model-checked: every interleaving, and every reordering that the memory model
//! allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p vmm --test model` (and a target directory of its own).
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use vmm::kick::{Bound, KickCell, Posted, Reason, install_handler};
use vmm::latch::KickLatch;
use vmm::sched::{HostSched, PreemptNotifier, SchedOut, VcpuIndex, VcpuSched};
use vmm::vectors::PendingVectors;

/// A cell bound to the calling thread. The byte outlives it, and no vCPU runs.
fn bound(cell: &KickCell) -> Bound<'_> {
    let byte = Box::leak(Box::new(0));
    // SAFETY: the byte is leaked, so it outlives every binding; there is no kvm_run page that KVM would read.
    unsafe { Bound::new(cell, byte) }
}

#[test]
fn a_kick_is_seen_before_the_entry_or_signals_into_it() {
    install_handler().unwrap();
    loom::model(|| {
        let cell = Arc::new(KickCell::new());
        let sender = {
            let cell = cell.clone();
            thread::spawn(move || cell.post(Reason::Interrupt))
        };
        let bound = bound(&cell);
        // The owner enters if nothing is waiting, and stays until the sender is through.
        let in_run = bound.enter();
        let posted = sender.join().unwrap();
        if in_run.is_some() {
            assert_eq!(posted, Posted::Signalled, "in KVM_RUN with a reason that nobody signalled");
        }
        drop(in_run);
        assert!(cell.take().contains(Reason::Interrupt));
        let totals = cell.totals();
        assert_eq!(totals.sent, totals.consumed + totals.coalesced);
    });
}

#[test]
fn a_waiter_knows_when_the_target_has_left_its_run() {
    install_handler().unwrap();
    loom::model(|| {
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
    });
}

#[derive(Debug)]
struct Silent;

impl PreemptNotifier for Silent {
    fn sched_out(&self, _vcpu: VcpuIndex, _why: SchedOut) {}
    fn sched_in(&self, _vcpu: VcpuIndex) {}
}

#[test]
fn a_kick_just_before_the_halt_is_not_lost() {
    // A lost wake-up is a deadlock, which loom reports.
    loom::model(|| {
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
        while !latch.consume() {
            me.halt(&|| latch.is_set());
        }
        sender.join().unwrap();
        assert!(latch.totals().balanced());
    });
}

#[test]
fn a_vector_raised_while_another_is_accepted_is_delivered() {
    loom::model(|| {
        let pending = Arc::new(PendingVectors::default());
        pending.raise(0xf0, 1);
        let raiser = {
            let pending = pending.clone();
            thread::spawn(move || pending.raise(0xf0, 2))
        };
        // The owner gives the vector to KVM, and delivers it after that.
        let first = pending.highest();
        assert_eq!(first, Some(0xf0));
        pending.accepted(0xf0);
        let fresh = raiser.join().unwrap();
        // Raised before the acceptance: served by that delivery. Raised after it: waits for the next.
        assert_eq!(pending.highest().is_some(), fresh);
    });
}
