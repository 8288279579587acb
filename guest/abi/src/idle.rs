//! How a vCPU that has no thread to run halts, and how it is told of one: no wake-up is lost between the two.
//!
//! ```text
//!   idle vCPU                                who queues a thread for it
//!   prepare: idle <- 1  (exchange)           push it
//!   look at the queue once more              claim: idle <- 0  (exchange); it was 1: kick
//!   empty: halt; the latch keeps a kick      (it was 0: the vCPU is awake and looks, or has been kicked already)
//!   resume: idle <- 0
//! ```
//! Both exchanges are of one word, so one comes first. If it is `claim`, `prepare` reads from it, and the look that follows
//! sees the thread. If it is `prepare`, `claim` finds 1 and kicks. The kick is latched by the host
//! ([`Call::SendResched`](crate::call::Call::SendResched)): it ends the halt also if it comes before it. A vector would not:
//! interrupts are on, so it could be handled between the look and the halt, and be gone.

use crate::sync::{AtomicU32, Ordering};

/// One vCPU's word. All zero: awake.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct IdleFlag(AtomicU32);

impl IdleFlag {
    /// Awake.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The vCPU itself, before its last look at its queue.
    pub fn prepare(&self) {
        self.0.swap(1, Ordering::AcqRel);
    }

    /// The vCPU itself, after the halt or instead of it.
    pub fn resume(&self) {
        self.0.swap(0, Ordering::AcqRel);
    }

    /// Another vCPU, after it has queued a thread, or because it has threads to give away. True if it must kick.
    #[must_use = "the vCPU halts, and nobody else kicks it"]
    pub fn claim(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) != 0
    }

    /// True if the vCPU halts or is about to. A look, to choose by.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::model::{Mutant, all_caught, check, run_mutant};

    /// The steps that a mutant may get wrong.
    #[derive(Clone, Copy)]
    struct Steps {
        prepare: fn(&IdleFlag),
        /// Looks only before it says that it is idle.
        looks_early: bool,
        /// Queues the thread only after the claim.
        queues_late: bool,
        /// Announced by a vector, which the vCPU handles as soon as it comes.
        by_vector: bool,
    }

    const PRODUCT: Steps =
        Steps { prepare: IdleFlag::prepare, looks_early: false, queues_late: false, by_vector: false };

    #[derive(Default)]
    struct Vm {
        idle: IdleFlag,
        queued: AtomicU32,
        latch: AtomicU32,
    }

    /// A vCPU runs out of threads while others queue some for it.
    fn running_dry(steps: Steps, wakers: usize) {
        let vm = Arc::new(Vm::default());
        let wakers = (0..wakers).map(|_| {
            let vm = vm.clone();
            thread::spawn(move || {
                let push = || _ = vm.queued.fetch_add(1, Ordering::Relaxed);
                if !steps.queues_late {
                    push();
                }
                if vm.idle.claim() {
                    vm.latch.swap(1, Ordering::AcqRel);
                }
                if steps.queues_late {
                    push();
                }
            })
        });
        let wakers: std::vec::Vec<_> = wakers.collect();
        let mut empty = vm.queued.load(Ordering::Relaxed) == 0;
        (steps.prepare)(&vm.idle);
        if !steps.looks_early {
            empty = vm.queued.load(Ordering::Relaxed) == 0;
        }
        if steps.by_vector {
            vm.latch.swap(0, Ordering::AcqRel);
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        let kicked = vm.latch.swap(0, Ordering::AcqRel) != 0;
        assert!(!empty || kicked, "halts for ever with a thread in its queue");
    }

    #[test]
    fn no_wake_up_is_lost() {
        check("one waker", || running_dry(PRODUCT, 1));
        check("two wakers", || running_dry(PRODUCT, 2));
    }

    const LOST: &str = "halts for ever";

    const MUTANTS: [Mutant; 4] = [
        ("it looks only before it says that it is idle", LOST, || {
            loom::model(|| running_dry(Steps { looks_early: true, ..PRODUCT }, 1));
        }),
        ("it says so with a store", LOST, || {
            let prepare = |flag: &IdleFlag| flag.0.store(1, Ordering::SeqCst);
            loom::model(move || running_dry(Steps { prepare, ..PRODUCT }, 1));
        }),
        ("the waker looks before it queues", LOST, || {
            loom::model(|| running_dry(Steps { queues_late: true, ..PRODUCT }, 1));
        }),
        ("a vector takes the place of the latch", LOST, || {
            loom::model(|| running_dry(Steps { by_vector: true, ..PRODUCT }, 1));
        }),
    ];

    #[test]
    fn every_mutant_of_idling_is_caught() {
        all_caught("idle::model::one_mutant", &MUTANTS);
    }

    #[test]
    #[ignore = "fails on purpose: run by every_mutant_of_idling_is_caught"]
    fn one_mutant() {
        run_mutant(&MUTANTS);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn one_claim_of_a_halt_kicks() {
        let flag = IdleFlag::new();
        assert!(!flag.claim(), "it is awake");
        flag.prepare();
        assert!(flag.is_set() && flag.claim() && !flag.claim());
        flag.prepare();
        flag.resume();
        assert!(!flag.claim());
    }
}
