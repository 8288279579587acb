//! The shootdown protocol, model-checked with loom: how and what for stands in the crate's `model.rs`. The product's own
//! [`StateWord`], [`Round`] and [`KickLine`](crate::vcpu::KickLine) run here.
//!
//! ```text
//!   thread 0, initiator (guest)            thread 1, target (guest, handler, and the host thread that runs it)
//!   clear the entry                        use the cached entry
//!   begin, mark_stopped, IPI               stop, (stop again,) enter ─► flush if told to ─► use
//!   look, mark_stopped, arm_halt ...       take the IPI: flush handler ─► use
//! ```
//! A model fails if the target *uses* a translation after the flush that removed it has completed, if a waiter halts and
//! nobody kicks it, or if a flush is never complete although its target did all that it will do.

use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use crate::lines::{Lines, acknowledge};
use crate::model::{Mutant, all_caught, check, run_mutant};
use crate::shootdown::{Round, Shootdown, Vcpus, bits};
use crate::state::{FLUSH, HALTED, PREEMPTED, StateWord, Stop};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// One address space of `N` vCPUs with one page in it.
struct Vm {
    space: Shootdown,
    vcpus: Vec<Lines>,
    mapped: AtomicBool,
    completed: AtomicBool,
}

/// The steps that a mutant may get wrong.
#[derive(Clone, Copy)]
struct Steps {
    /// The host has stopped the vCPU.
    stop: fn(&StateWord, Stop),
    /// The host is about to run it; true: flush first.
    enter: fn(&StateWord) -> bool,
    /// The initiator marks who does not run.
    mark: fn(&mut Round, &Vm) -> u64,
    /// It does so again while it waits.
    rescan: bool,
    /// It looks again after a halt.
    recheck: bool,
    /// What a stop in the middle of an instruction is reported as.
    mid_instruction: Stop,
    /// The handler publishes its acknowledgement before it takes the waiters.
    publish_first: bool,
    /// The waiter prepares its halt.
    arm_halt: fn(&mut Round, &Vm) -> bool,
    /// A vCPU comes online before it uses the address space.
    online_first: bool,
}

const PRODUCT: Steps = Steps {
    stop: |word, why| _ = word.stop(why),
    enter: |word| word.enter().flush,
    mark: |round, vm| round.mark_stopped(&vm.vcpus),
    rescan: true,
    recheck: true,
    mid_instruction: Stop::MidInstruction,
    publish_first: true,
    arm_halt: |round, vm| round.arm_halt(&vm.vcpus).1,
    online_first: true,
};

impl Vm {
    fn new(vcpus: usize) -> Arc<Self> {
        let vcpus = (0..vcpus).map(|_| Lines::default()).collect();
        let (mapped, completed) = (AtomicBool::new(true), AtomicBool::new(false));
        Arc::new(Self { space: Shootdown::default(), vcpus, mapped, completed })
    }

    fn walk(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// The guest of a target uses what its TLB holds.
    fn use_translation(&self, cached: bool) {
        let completed = self.completed.load(Ordering::Acquire);
        assert!(!(completed && cached), "stale translation: used after its flush had completed");
    }

    /// The flush handler of `vcpu`, if its interrupt is pending; true if it ran.
    fn take_irq(&self, steps: Steps, vcpu: u32, cached: &mut bool) -> bool {
        if !self.vcpus[vcpu as usize].irq.swap(false, Ordering::AcqRel) {
            return false;
        }
        let generation = self.space.generation.load(Ordering::Acquire);
        *cached = self.walk();
        acknowledge(&self.vcpus, vcpu, generation, steps.publish_first);
        true
    }

    fn send_irqs(&self, targets: u64) {
        for target in bits(targets) {
            self.vcpus[target as usize].irq.swap(true, Ordering::AcqRel);
        }
    }

    /// The initiator gives its address space's page away.
    fn clear_and_begin(&self) -> Round {
        self.mapped.store(false, Ordering::Relaxed);
        self.space.begin(0)
    }

    fn complete(&self) {
        self.completed.store(true, Ordering::Release);
    }
}

fn online(vm: &Vm) {
    (0..vm.vcpus.len()).for_each(|vcpu| vm.space.come_online(u32::try_from(vcpu).unwrap()));
}

/// The target loses its CPU (twice, as a vCPU that is woken and parked again before it ran), gets it back, and runs on.
/// `last`: what it ends in.
fn preempted_target(steps: Steps, ends_stopped: bool) {
    let vm = Vm::new(2);
    online(&vm);
    let initiator = {
        let vm = vm.clone();
        thread::spawn(move || {
            let mut round = vm.clear_and_begin();
            (steps.mark)(&mut round, &vm);
            vm.send_irqs(round.missing());
            for _ in 0..2 {
                if round.missing() == 0 {
                    vm.complete();
                    return round;
                }
                round.look(&vm.vcpus);
                if steps.rescan {
                    (steps.mark)(&mut round, &vm);
                }
            }
            round
        })
    };
    let word = &vm.vcpus[1].state;
    let mut cached = vm.walk();
    vm.use_translation(cached);
    (steps.stop)(word, Stop::Preempted);
    (steps.stop)(word, Stop::Preempted);
    if (steps.enter)(word) {
        cached = vm.walk();
    }
    vm.use_translation(cached);
    vm.take_irq(steps, 1, &mut cached);
    vm.use_translation(cached);
    if ends_stopped {
        (steps.stop)(word, Stop::Preempted);
    }
    let mut round = initiator.join().unwrap();
    if !ends_stopped {
        vm.take_irq(steps, 1, &mut cached);
    }
    // The target does no more: the initiator's next turn must end the flush.
    round.look(&vm.vcpus);
    if steps.rescan {
        (steps.mark)(&mut round, &vm);
    }
    assert_eq!(round.missing(), 0, "the flush never completes");
    if (steps.enter)(word) {
        cached = vm.walk();
    }
    assert!(!cached, "stale translation: left by a complete flush");
}

/// The target stops in the middle of an instruction that goes on after the next entry, before any flush of that entry.
fn mid_instruction(steps: Steps) {
    let vm = Vm::new(2);
    online(&vm);
    let initiator = {
        let vm = vm.clone();
        thread::spawn(move || {
            let mut round = vm.clear_and_begin();
            (steps.mark)(&mut round, &vm);
            if round.missing() == 0 {
                vm.complete();
            }
            vm.send_irqs(round.missing());
        })
    };
    let mut cached = vm.walk();
    (steps.stop)(&vm.vcpus[1].state, steps.mid_instruction);
    // The rest of the instruction.
    vm.use_translation(cached);
    if (steps.enter)(&vm.vcpus[1].state) {
        cached = vm.walk();
    }
    vm.take_irq(steps, 1, &mut cached);
    initiator.join().unwrap();
}

/// Two targets acknowledge while the initiator halts. `latched`: a kick of an earlier halt is still set.
fn halting_initiator(steps: Steps, latched: bool) {
    let vm = Vm::new(3);
    online(&vm);
    let mut round = vm.clear_and_begin();
    vm.send_irqs(round.missing());
    vm.vcpus[0].latch.store(latched, Ordering::SeqCst);
    let targets = [1, 2].map(|vcpu| {
        let vm = vm.clone();
        thread::spawn(move || {
            let mut cached = true;
            vm.take_irq(steps, vcpu, &mut cached);
            vm.use_translation(cached);
        })
    });
    let halts = round.missing() != 0 && (steps.arm_halt)(&mut round, &vm);
    // A halt ends at once if the latch is set; the product then looks again.
    let woken_early = halts && vm.vcpus[0].latch.swap(false, Ordering::SeqCst);
    if woken_early && !steps.recheck {
        let done = |target: usize| vm.vcpus[target].flush.flushed_gen.load(Ordering::SeqCst) != 0;
        assert!(done(1) && done(2), "went on with flushes outstanding");
    }
    for target in targets {
        target.join().unwrap();
    }
    round.look(&vm.vcpus);
    assert_eq!(round.missing(), 0, "the flush never completes");
    if halts && !woken_early {
        assert!(vm.vcpus[0].latch.swap(false, Ordering::SeqCst), "halted, and nobody kicks");
    }
}

/// A vCPU comes online while another one flushes: the mask changes while it is read, and may be empty.
fn newcomer(steps: Steps) {
    let vm = Vm::new(2);
    vm.space.come_online(0);
    let newcomer = {
        let vm = vm.clone();
        thread::spawn(move || {
            let mut cached = false;
            if steps.online_first {
                vm.space.come_online(1);
                cached = vm.walk();
            } else {
                cached |= vm.walk();
                vm.space.come_online(1);
            }
            vm.use_translation(cached);
            vm.take_irq(steps, 1, &mut cached);
            vm.use_translation(cached);
        })
    };
    let mut round = vm.clear_and_begin();
    (steps.mark)(&mut round, &vm);
    vm.send_irqs(round.missing());
    round.look(&vm.vcpus);
    if round.missing() == 0 {
        vm.complete();
    }
    newcomer.join().unwrap();
}

const STALE: &str = "stale translation";
const NEVER: &str = "the flush never completes";
const UNKICKED: &str = "halted, and nobody kicks";

/// The argument of a call may change while the host works on it: it is to be read once.
fn changing_argument(reads: usize) {
    let arg0 = Arc::new(AtomicU64::new(0b110));
    let guest = {
        let arg0 = arg0.clone();
        thread::spawn(move || arg0.store(0b010, Ordering::Relaxed))
    };
    let masks: Vec<u64> = (0..reads).map(|_| arg0.load(Ordering::Relaxed)).collect();
    guest.join().unwrap();
    assert_eq!(masks[0].count_ones(), masks[reads - 1].count_ones(), "sent another number than was counted");
}

#[test]
fn the_product_holds() {
    check("target preempted, runs on", || preempted_target(PRODUCT, false));
    check("target preempted for good", || preempted_target(PRODUCT, true));
    check("target in mid-instruction", || mid_instruction(PRODUCT));
    check("target comes online", || newcomer(PRODUCT));
    check("initiator halts", || halting_initiator(PRODUCT, false));
    check("initiator halts, latch set", || halting_initiator(PRODUCT, true));
    check("argument read once", || changing_argument(1));
}

const MUTANTS: [Mutant; 11] = [
    ("a second stop wipes the pending flush", STALE, || {
        let stop = |word: &StateWord, why| {
            let bit = if why == Stop::Halted { HALTED } else { PREEMPTED };
            word.0.store(bit, Ordering::SeqCst);
        };
        loom::model(move || preempted_target(Steps { stop, ..PRODUCT }, false));
    }),
    ("an entry reads, then clears", STALE, || {
        let enter = |word: &StateWord| {
            let flush = word.0.load(Ordering::SeqCst) & FLUSH != 0;
            word.0.store(0, Ordering::SeqCst);
            flush
        };
        loom::model(move || preempted_target(Steps { enter, ..PRODUCT }, false));
    }),
    ("a mark looks, then sets", STALE, || {
        let mark = |round: &mut Round, vm: &Vm| {
            if vm.vcpus[1].state.0.load(Ordering::SeqCst) & (PREEMPTED | HALTED) == 0 {
                return 0;
            }
            vm.vcpus[1].state.0.fetch_or(FLUSH, Ordering::SeqCst);
            round.forget(1);
            0b10
        };
        loom::model(move || preempted_target(Steps { mark, ..PRODUCT }, false));
    }),
    ("a refused mark is taken for a mark", STALE, || {
        let mark = |round: &mut Round, vm: &Vm| {
            _ = vm.vcpus[1].state.mark_flush();
            round.forget(1);
            0b10
        };
        loom::model(move || preempted_target(Steps { mark, ..PRODUCT }, false));
    }),
    ("nobody looks again for a target that stops after its IPI", NEVER, || {
        loom::model(|| preempted_target(Steps { rescan: false, ..PRODUCT }, true));
    }),
    ("preempted is claimed in mid-instruction", STALE, || {
        loom::model(|| mid_instruction(Steps { mid_instruction: Stop::Preempted, ..PRODUCT }));
    }),
    ("a vCPU comes online after its first use", STALE, || {
        loom::model(|| newcomer(Steps { online_first: false, ..PRODUCT }));
    }),
    ("the handler takes its waiters before it acknowledges", UNKICKED, || {
        loom::model(|| halting_initiator(Steps { publish_first: false, ..PRODUCT }, false));
    }),
    ("a halt begins without a last look", UNKICKED, || {
        let arm_halt = |round: &mut Round, vm: &Vm| {
            let armed = round.missing();
            vm.vcpus.kick(0).arm(armed);
            bits(armed).for_each(|target| vm.vcpus.kick(target).register(0));
            vm.vcpus.kick(0).disarm(0)
        };
        loom::model(move || halting_initiator(Steps { arm_halt, ..PRODUCT }, false));
    }),
    ("a latched kick ends the wait", "went on with flushes outstanding", || {
        loom::model(|| halting_initiator(Steps { recheck: false, ..PRODUCT }, true));
    }),
    ("an argument is read twice", "sent another number than was counted", || {
        loom::model(|| changing_argument(2));
    }),
];

#[test]
fn every_mutant_of_the_model_is_caught() {
    all_caught("shootdown::model::one_mutant", &MUTANTS);
}

#[test]
#[ignore = "fails on purpose: run by every_mutant_of_the_model_is_caught"]
fn one_mutant() {
    run_mutant(&MUTANTS);
}
