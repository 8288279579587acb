//! Three initiators at once, a host that preempts any vCPU at any step, and halts that others end: more than loom can
//! enumerate, so shuttle draws schedules at random, by the product's own types.
//!
//! ```text
//!   vCPU 0, 1, 2   unmaps its page, flushes everybody else, waits (spins, or halts until it is kicked)
//!   vCPU 3         only uses its translations, and is preempted most of the time
//! ```
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p abi --release --lib initiators` and a target directory of its own.
//! shuttle is sequentially consistent: it finds wrong steps, not missing fences. Those are loom's ([`model`](crate) of the
//! same crate, under `--cfg loom`).
use std::boxed::Box;
use std::panic::catch_unwind;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::lines::{Lines, acknowledge};
use crate::shootdown::{Round, Shootdown, Vcpus, bits};
use crate::state::{FLUSH, Marked, PREEMPTED, StateWord, Stop};
use crate::sync::{AtomicBool, Ordering};

const INITIATORS: usize = 3;
const VCPUS: u32 = 4;
/// Schedules that the product must outlive, and each mutant must not.
const SCHEDULES: usize = 20_000;
/// Preemptions at chosen places, for the scheduler that bounds them (PCT).
const DEPTH: usize = 4;

#[derive(Default)]
struct Vm {
    space: Shootdown,
    vcpus: Vec<Lines>,
    unmapped: [AtomicBool; INITIATORS],
    completed: [AtomicBool; INITIATORS],
}

/// The steps that a mutant gets wrong.
#[derive(Clone, Copy)]
struct Steps {
    stop: fn(&StateWord),
    enter: fn(&StateWord) -> bool,
    mark: fn(&mut Round, &Vm),
    publish_first: bool,
    recheck: bool,
    arm: bool,
}

const PRODUCT: Steps = Steps {
    stop: |word| _ = word.stop(Stop::Preempted),
    enter: |word| word.enter().flush,
    mark: |round, vm| _ = round.mark_stopped(&vm.vcpus),
    publish_first: true,
    recheck: true,
    arm: true,
};

/// One vCPU, with what its TLB holds.
struct Vcpu<'a> {
    vm: &'a Vm,
    steps: Steps,
    number: u32,
    cached: [bool; INITIATORS],
}

impl Vcpu<'_> {
    fn lines(&self) -> &Lines {
        &self.vm.vcpus[self.number as usize]
    }

    fn walk(&mut self) {
        self.cached = std::array::from_fn(|page| !self.vm.unmapped[page].load(Ordering::SeqCst));
    }

    fn use_translations(&self) {
        for (page, cached) in self.cached.iter().enumerate() {
            let completed = self.vm.completed[page].load(Ordering::SeqCst);
            assert!(!(completed && *cached), "stale translation");
        }
    }

    /// Loses its CPU, once or twice in a row, and gets it back.
    fn be_preempted(&mut self) {
        for _ in 0..thread_rng().gen_range(1..3) {
            (self.steps.stop)(&self.lines().state);
            thread::yield_now();
        }
        self.enter();
    }

    fn enter(&mut self) {
        if (self.steps.enter)(&self.lines().state) {
            self.walk();
        }
    }

    /// The flush handler, if its interrupt is pending.
    fn take_irq(&mut self) {
        if !self.lines().irq.swap(false, Ordering::SeqCst) {
            return;
        }
        let generation = self.vm.space.generation.load(Ordering::SeqCst);
        self.walk();
        acknowledge(&self.vm.vcpus, self.number, generation, self.steps.publish_first);
    }

    /// What may happen between any two instructions.
    fn live(&mut self) {
        self.use_translations();
        if thread_rng().gen_bool(0.3) {
            self.be_preempted();
        }
        self.take_irq();
        self.use_translations();
        thread::yield_now();
    }

    fn flush(&mut self) {
        let page = self.number as usize;
        self.vm.unmapped[page].store(true, Ordering::SeqCst);
        self.cached[page] = false;
        let mut round = self.vm.space.begin(self.number);
        (self.steps.mark)(&mut round, self.vm);
        for target in bits(round.missing()) {
            self.vm.vcpus[target as usize].irq.store(true, Ordering::SeqCst);
        }
        loop {
            round.look(&self.vm.vcpus);
            (self.steps.mark)(&mut round, self.vm);
            if round.missing() == 0 {
                break;
            }
            if thread_rng().gen_bool(0.5) && self.halt(&mut round) && !self.steps.recheck {
                break;
            }
            self.live();
        }
        self.vm.completed[page].store(true, Ordering::SeqCst);
    }

    /// Halts until the last target that is missing kicks, or an interrupt comes; true if it was kicked.
    fn halt(&mut self, round: &mut Round) -> bool {
        if self.steps.arm {
            if !round.arm_halt(&self.vm.vcpus).1 {
                return false;
            }
        } else {
            let missing = round.missing();
            self.lines().kick.arm(missing);
            bits(missing).for_each(|target| self.vm.vcpus.kick(target).register(self.number));
        }
        let _ = self.lines().state.stop(Stop::Halted);
        let mut kicked = false;
        while !kicked && !self.lines().irq.load(Ordering::SeqCst) {
            thread::yield_now();
            kicked = self.lines().latch.swap(false, Ordering::SeqCst);
        }
        self.enter();
        kicked
    }
}

/// All flush once and go on until everybody has.
fn crowd(steps: Steps) {
    let vcpus = (0..VCPUS).map(|_| Lines::default()).collect();
    let vm = Arc::new(Vm { vcpus, ..Vm::default() });
    (0..VCPUS).for_each(|vcpu| vm.space.come_online(vcpu));
    // The kick of an earlier halt, which an interrupt had ended.
    vm.vcpus[0].latch.store(true, Ordering::SeqCst);
    let threads: Vec<_> = (0..VCPUS)
        .map(|number| {
            let vm = vm.clone();
            thread::spawn(move || {
                let mut vcpu = Vcpu { vm: &vm, steps, number, cached: [true; INITIATORS] };
                vcpu.walk();
                if (number as usize) < INITIATORS {
                    vcpu.flush();
                }
                while !vm.completed.iter().all(|done| done.load(Ordering::SeqCst)) {
                    vcpu.live();
                }
                vcpu.enter();
                vcpu.use_translations();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn three_initiators_and_a_preempting_host_hold() {
    shuttle::check_random(|| crowd(PRODUCT), SCHEDULES);
    shuttle::check_pct(|| crowd(PRODUCT), SCHEDULES, DEPTH);
    std::println!("three initiators: {SCHEDULES} random schedules, {SCHEDULES} of depth {DEPTH}");
}

/// What shuttle says of a flush that nobody ends.
const NEVER: &str = "max_steps";
const STALE: &str = "stale translation";

const MUTANTS: [(&str, &str, Steps); 6] = [
    (
        "a second stop wipes the pending flush",
        STALE,
        Steps { stop: |word| word.0.store(PREEMPTED, Ordering::SeqCst), ..PRODUCT },
    ),
    (
        "an entry reads, then clears",
        STALE,
        Steps {
            enter: |word| {
                let flush = word.0.load(Ordering::SeqCst) & FLUSH != 0;
                word.0.store(0, Ordering::SeqCst);
                flush
            },
            ..PRODUCT
        },
    ),
    (
        "a refused mark is taken for a mark",
        STALE,
        Steps {
            mark: |round, vm| {
                for target in bits(round.missing()) {
                    let _: Marked = vm.vcpus.state(target).mark_flush();
                    round.forget(target);
                }
            },
            ..PRODUCT
        },
    ),
    ("a kick ends the wait", STALE, Steps { recheck: false, ..PRODUCT }),
    ("a halt begins without a last look", NEVER, Steps { arm: false, ..PRODUCT }),
    ("the handler takes its waiters before it acknowledges", NEVER, Steps { publish_first: false, ..PRODUCT }),
];

#[test]
fn every_mutant_among_three_initiators_is_caught() {
    for (name, words, steps) in MUTANTS {
        let died = catch_unwind(move || shuttle::check_random(move || crowd(steps), SCHEDULES));
        let payload: Box<_> = died.err().unwrap_or_else(|| panic!("the mutant lives: {name}"));
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| String::from(*text))).unwrap_or_default();
        assert!(text.contains(words), "{name}: caught for another reason: {text}");
        std::println!("caught: {name}");
    }
}
