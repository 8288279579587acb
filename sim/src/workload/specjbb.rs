//! specjbb: warehouses of a Java server, each a thread that computes and allocates; when the heap is full the world stops,
//! and one collector a vCPU empties it.
//!
//! ```text
//!   warehouse   work: transaction   record   heap full: park at the safepoint; the last one starts the collectors
//!   collector   work: a task of the shared pool ... none left: barrier (spin 1.5 ms, then sleep); the last one restarts
//!               the world
//! ```
//! It measures barriers: one vCPU without a CPU keeps all others of its VM idle, at the safepoint and at the end of each
//! collection. Not modelled: page faults (the heap is touched before the run), flushes, biased locks, a warm-up, the
//! ramp of warehouses; 8 and 16 warehouses were published as one figure, we take 16.
use plan::WorkloadParams;

use super::{Env, Op, SPREAD_PERCENT};
use crate::world::WaitId;

const SAFEPOINT: WaitId = WaitId(0);
const COLLECTORS: WaitId = WaitId(1);
const BARRIER: WaitId = WaitId(2);
pub(super) const WAITS: usize = 3;

/// Tasks of a collection a collector: small, so that the last one to end does not end late by itself.
const TASKS: u32 = 16;
/// Spinning at the barrier, in user mode and without PAUSE: 30 looks of 50 us (HotSpot: 5,000 yields before it sleeps).
const LOOK_NS: u64 = 50_000;
const LOOKS: u32 = 30;

/// The heap of a VM, and who is at work on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heap {
    warehouses: u32,
    collectors: u32,
    /// Transactions since it was empty.
    used: u32,
    /// Warehouses that are to stop, or have.
    stopping: bool,
    parked: u32,
    /// Collections begun and over.
    begun: u64,
    pub(crate) over: u64,
    tasks_left: u32,
    tasks_done: u32,
    /// Collectors at the barrier.
    arrived: u32,
}

impl Heap {
    pub(super) fn new(params: &WorkloadParams, vcpus: u32) -> Self {
        Self { warehouses: params.warehouses, collectors: vcpus, ..Self::default() }
    }

    fn collecting(&self) -> bool {
        self.begun != self.over
    }

    /// A collection that runs beside the world, or a task that is lost, as a sentence.
    pub(super) fn broken(&self) -> Option<String> {
        if self.parked > self.warehouses || self.arrived > self.collectors || self.begun > self.over + 1 {
            return Some(format!("the heap counts more than there is: {self:?}"));
        }
        if self.collecting() && self.parked != self.warehouses {
            return Some(format!("a collection runs with {} of {} warehouses stopped", self.parked, self.warehouses));
        }
        let tasks = TASKS * self.collectors;
        let done = self.arrived == self.collectors && self.collecting();
        (done && self.tasks_done != tasks).then(|| format!("{} of {tasks} tasks are done", self.tasks_done))
    }
}

/// A thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Specjbb {
    Warehouse(WarehouseStep),
    /// A collector, with the last collection that it took part in.
    Collector(CollectorStep, u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WarehouseStep {
    Begin,
    Done,
    Parked,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CollectorStep {
    Wait,
    Take,
    TaskDone,
    Look(u32),
    Restarted,
}

impl Specjbb {
    /// The thread of that number; collectors come after the warehouses.
    pub(super) const fn new(role: u32, params: &WorkloadParams) -> Self {
        if role < params.warehouses {
            Self::Warehouse(WarehouseStep::Begin)
        } else {
            Self::Collector(CollectorStep::Wait, 0)
        }
    }

    pub(super) fn next(&mut self, env: &mut Env<'_>, heap: &mut Heap) -> Op {
        let op;
        (op, *self) = match *self {
            Self::Warehouse(step) => {
                let (op, step) = warehouse(step, env, heap);
                (op, Self::Warehouse(step))
            }
            Self::Collector(step, last) => collector(step, last, env, heap),
        };
        op
    }
}

fn warehouse(step: WarehouseStep, env: &mut Env<'_>, heap: &mut Heap) -> (Op, WarehouseStep) {
    use WarehouseStep as S;
    match step {
        S::Begin if heap.stopping => {
            heap.parked += 1;
            if heap.parked < heap.warehouses {
                return (Op::Sleep(SAFEPOINT), S::Parked);
            }
            heap.begun += 1;
            (heap.tasks_left, heap.tasks_done, heap.arrived) = (TASKS * heap.collectors, 0, 0);
            (Op::Wake(COLLECTORS, u32::MAX), S::Parked)
        }
        S::Parked if heap.stopping => (Op::Sleep(SAFEPOINT), S::Parked),
        S::Begin | S::Parked => {
            heap.parked -= u32::from(matches!(step, S::Parked));
            (Op::Work(env.rng.around(u64::from(env.params.transaction_us) * 1000, SPREAD_PERCENT)), S::Done)
        }
        S::Done => {
            heap.used += 1;
            heap.stopping |= heap.used >= env.params.heap_transactions;
            (Op::Record, S::Begin)
        }
    }
}

fn collector(step: CollectorStep, last: u64, env: &mut Env<'_>, heap: &mut Heap) -> (Op, Specjbb) {
    use CollectorStep as S;
    let mut last = last;
    let (op, step) = match step {
        S::Wait if heap.begun == last => (Op::Sleep(COLLECTORS), S::Wait),
        S::Wait | S::Take if heap.tasks_left > 0 => {
            last = heap.begun;
            heap.tasks_left -= 1;
            let task = u64::from(env.params.collection_us) * 1000 / u64::from(TASKS * heap.collectors);
            (Op::Work(env.rng.around(task, SPREAD_PERCENT)), S::TaskDone)
        }
        S::Wait | S::Take => {
            last = heap.begun;
            heap.arrived += 1;
            if heap.arrived < heap.collectors {
                (Op::Work(LOOK_NS), S::Look(1))
            } else {
                heap.over = heap.begun;
                (heap.used, heap.stopping) = (0, false);
                (Op::Wake(SAFEPOINT, u32::MAX), S::Restarted)
            }
        }
        S::TaskDone => {
            heap.tasks_done += 1;
            return collector(S::Take, last, env, heap);
        }
        S::Look(_) if heap.over >= last => return collector(S::Wait, last, env, heap),
        S::Look(looks) if looks < LOOKS => (Op::Work(LOOK_NS), S::Look(looks + 1)),
        S::Look(looks) => (Op::Sleep(BARRIER), S::Look(looks)),
        S::Restarted => (Op::Wake(BARRIER, u32::MAX), S::Wait),
    };
    (op, Specjbb::Collector(step, last))
}
