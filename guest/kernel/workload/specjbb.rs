//! `specjbb`: warehouses of a Java server, each a thread that computes and allocates; when the heap is full the world
//! stops, and one collector a vCPU empties it.
//!
//! ```text
//!   warehouse   work: transaction   allocate   record   heap full: park at the safepoint; the last one starts the collectors
//!   collector   work: a task of the shared pool ... none left: barrier (spin 1.5 ms, then sleep); the last one restarts
//!               the world
//! ```
//! One record is one transaction. The same program as `sim/src/workload/specjbb.rs`, with the same constants; it measures
//! barriers: one vCPU without a CPU keeps all others of its VM idle, at the safepoint and at the end of each collection. Not
//! here: page faults (frames of the heap are touched once), flushes, biased locks, a warm-up, the ramp of warehouses. The state
//! of the world has a spinlock, taken a few dozen times a collection, never in a transaction.
//!
//! # Check
//! An object is a random word of the heap. Collectors add up and clear what they find; the warehouses have added up what they
//! allocated. Numbers and sums must be equal after each collection, each task done once, and again when the record limit
//! ends the run.

use abi::layout::PAGE_SIZE;
use abi::params::{FAULT_LOST_WORK, FAULT_PERIOD, Params};
use abi::sync::Ordering::{Acquire, Relaxed, Release};
use abi::sync::{AtomicU32, AtomicU64};

use crate::cpu::{params, rdtsc};
use crate::lock::{Guard, SpinLock};
use crate::thread::{Chain, WaitQueue, record, stopping, work_error};
use crate::work::{compute, compute_around};
use crate::workload::Random;

/// Tasks of a collection a collector: small, so that the last one to end does not end late by itself.
const TASKS: u32 = 16;
/// Spinning at the barrier: 30 looks of 50 us (HotSpot: 5,000 yields before it sleeps).
const LOOK_NS: u64 = 50_000;
const LOOKS: u32 = 30;

/// The heap's state. What is not said to be shared is guarded by the lock.
struct Heap {
    lock: SpinLock,
    /// Shared: objects since it was empty.
    used: AtomicU32,
    /// Shared: not 0 when warehouses are to stop.
    stopping: AtomicU32,
    /// Warehouses that have left because the run ends.
    gone: AtomicU32,
    parked: AtomicU32,
    /// Collections begun, and (shared) over.
    begun: AtomicU32,
    over: AtomicU32,
    tasks_left: AtomicU32,
    tasks_done: AtomicU32,
    /// Collectors at the barrier.
    arrived: AtomicU32,
    /// What parked warehouses say that they have allocated since it was empty, and what collectors have found.
    allocated: Tally,
    found: Tally,
    safepoint: WaitQueue,
    collectors: WaitQueue,
    barrier: WaitQueue,
}

static HEAP: Heap = Heap {
    lock: SpinLock::new(),
    used: AtomicU32::new(0),
    stopping: AtomicU32::new(0),
    gone: AtomicU32::new(0),
    parked: AtomicU32::new(0),
    begun: AtomicU32::new(0),
    over: AtomicU32::new(0),
    tasks_left: AtomicU32::new(0),
    tasks_done: AtomicU32::new(0),
    arrived: AtomicU32::new(0),
    allocated: Tally::new(),
    found: Tally::new(),
    safepoint: WaitQueue::new(),
    collectors: WaitQueue::new(),
    barrier: WaitQueue::new(),
};

/// Number and sum of objects.
struct Tally {
    objects: AtomicU64,
    sum: AtomicU64,
}

impl Tally {
    const fn new() -> Self {
        Self { objects: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    fn add(&self, (objects, sum): (u64, u64)) {
        self.objects.store(self.objects.load(Relaxed) + objects, Relaxed);
        self.sum.store(self.sum.load(Relaxed).wrapping_add(sum), Relaxed);
    }

    fn take(&self) -> (u64, u64) {
        (self.objects.swap(0, Relaxed), self.sum.swap(0, Relaxed))
    }
}

/// The constants.
struct Shape {
    warehouses: u32,
    transaction_ns: u64,
    heap_transactions: u32,
    collection_ns: u64,
}

impl Shape {
    fn of(params: &Params) -> Self {
        let [warehouses, transaction_us, heap_transactions, collection_us, ..] = params.args;
        let ns = |us: u32| u64::from(us) * 1000;
        Self { warehouses, transaction_ns: ns(transaction_us), heap_transactions, collection_ns: ns(collection_us) }
    }
}

/// Objects that the heap must hold: each warehouse may complete the transaction in which the heap became full.
const fn objects_max(shape: &Shape) -> u64 {
    shape.heap_transactions as u64 + shape.warehouses as u64
}

/// True if the host has made room for what the parameters ask for.
pub(super) fn fits(params: &Params) -> bool {
    let shape = Shape::of(params);
    let words = u64::from(params.heap_pages) * PAGE_SIZE / 8;
    shape.warehouses > 0 && shape.warehouses + params.vcpus == params.kthreads && objects_max(&shape) <= words
}

/// An object's word.
fn object(number: u64) -> &'static AtomicU64 {
    let heap = params().geometry().map_or(0, |geometry| geometry.heap());
    assert!(heap != 0 && number < u64::from(params().heap_pages) * PAGE_SIZE / 8);
    // SAFETY: inside the heap, which is identity-mapped and holds nothing but these words, for ever.
    unsafe { &*((heap + number * 8) as *const AtomicU64) }
}

/// The thread of that number; collectors come after the warehouses.
pub(super) fn thread(number: u32) {
    let shape = Shape::of(params());
    let random = Random(params().seed ^ (u64::from(number) << 32));
    if number < shape.warehouses { warehouse(&shape, random) } else { collector(&shape, random) }
}

fn warehouse(shape: &Shape, mut random: Random) {
    let mut own = (0, 0);
    let mut since = rdtsc();
    while !stopping() {
        if HEAP.stopping.load(Acquire) != 0 {
            park(shape, core::mem::take(&mut own));
            since = rdtsc();
            continue;
        }
        compute_around(&mut random, shape.transaction_ns);
        let value = random.next() | 1;
        own = (own.0 + 1, own.1.wrapping_add(value));
        allocate(shape, value, own.0);
        since = record(since);
    }
    leave(shape, own);
}

fn allocate(shape: &Shape, value: u64, number: u64) {
    let at = HEAP.used.fetch_add(1, Relaxed);
    if params().faults & FAULT_LOST_WORK == 0 || !number.is_multiple_of(FAULT_PERIOD) {
        object(at.into()).store(value, Relaxed);
    }
    if at + 1 >= shape.heap_transactions {
        HEAP.stopping.store(1, Release);
    }
}

/// Stops until the heap is empty again; the last one to stop starts the collectors.
fn park(shape: &Shape, own: (u64, u64)) {
    let guard = HEAP.lock.lock();
    HEAP.allocated.add(own);
    if HEAP.stopping.load(Relaxed) == 0 {
        return;
    }
    HEAP.parked.store(HEAP.parked.load(Relaxed) + 1, Relaxed);
    begin_if_stopped(shape, guard).wake();
    let mut guard = HEAP.lock.lock();
    while HEAP.stopping.load(Relaxed) != 0 {
        HEAP.safepoint.sleep(guard);
        guard = HEAP.lock.lock();
    }
    HEAP.parked.store(HEAP.parked.load(Relaxed) - 1, Relaxed);
}

/// Begins a collection if the world has stopped: the collectors to wake.
fn begin_if_stopped(shape: &Shape, guard: Guard<'_>) -> Chain {
    let running = shape.warehouses - HEAP.gone.load(Relaxed) - HEAP.parked.load(Relaxed);
    let begins = running == 0 && HEAP.stopping.load(Relaxed) != 0 && HEAP.parked.load(Relaxed) > 0;
    if begins {
        HEAP.begun.store(HEAP.begun.load(Relaxed) + 1, Relaxed);
        HEAP.tasks_left.store(TASKS * params().vcpus, Relaxed);
        HEAP.tasks_done.store(0, Relaxed);
        HEAP.arrived.store(0, Relaxed);
    }
    let chain = HEAP.collectors.take(if begins { u32::MAX } else { 0 });
    drop(guard);
    chain
}

/// The run ends. The last warehouse looks through the heap itself, and lets the collectors go.
fn leave(shape: &Shape, own: (u64, u64)) {
    let guard = HEAP.lock.lock();
    HEAP.allocated.add(own);
    HEAP.gone.store(HEAP.gone.load(Relaxed) + 1, Relaxed);
    if HEAP.gone.load(Relaxed) < shape.warehouses {
        begin_if_stopped(shape, guard).wake();
        return;
    }
    if sweep(0, objects_max(shape)) != HEAP.allocated.take() {
        work_error();
    }
    let chain = HEAP.collectors.take(u32::MAX);
    drop(guard);
    chain.wake();
}

fn collector(shape: &Shape, mut random: Random) {
    let tasks = u64::from(TASKS * params().vcpus);
    let mut last = 0;
    let mut guard = HEAP.lock.lock();
    loop {
        while HEAP.begun.load(Relaxed) == last {
            if HEAP.gone.load(Relaxed) == shape.warehouses {
                return;
            }
            HEAP.collectors.sleep(guard);
            guard = HEAP.lock.lock();
        }
        last = HEAP.begun.load(Relaxed);
        while HEAP.tasks_left.load(Relaxed) > 0 {
            let task = u64::from(HEAP.tasks_left.load(Relaxed)) - 1;
            HEAP.tasks_left.store(HEAP.tasks_left.load(Relaxed) - 1, Relaxed);
            drop(guard);
            compute_around(&mut random, shape.collection_ns / tasks);
            let share = objects_max(shape).div_ceil(tasks);
            let found = sweep(task * share, ((task + 1) * share).min(objects_max(shape)));
            guard = HEAP.lock.lock();
            HEAP.found.add(found);
            HEAP.tasks_done.store(HEAP.tasks_done.load(Relaxed) + 1, Relaxed);
        }
        HEAP.arrived.store(HEAP.arrived.load(Relaxed) + 1, Relaxed);
        if HEAP.arrived.load(Relaxed) < params().vcpus {
            drop(guard);
            barrier(last);
        } else {
            restart(u32::try_from(tasks).unwrap_or(0), guard);
        }
        guard = HEAP.lock.lock();
    }
}

/// Waits until collection `last` is over.
fn barrier(last: u32) {
    for _ in 0..LOOKS {
        if HEAP.over.load(Relaxed) >= last {
            return;
        }
        compute(LOOK_NS);
    }
    let mut guard = HEAP.lock.lock();
    while HEAP.over.load(Relaxed) < last {
        HEAP.barrier.sleep(guard);
        guard = HEAP.lock.lock();
    }
}

/// The collection is over: checks it, and lets everybody go on.
fn restart(tasks: u32, guard: Guard<'_>) {
    if HEAP.tasks_done.load(Relaxed) != tasks || HEAP.found.take() != HEAP.allocated.take() {
        work_error();
    }
    HEAP.used.store(0, Relaxed);
    HEAP.over.store(HEAP.begun.load(Relaxed), Relaxed);
    HEAP.stopping.store(0, Release);
    let (world, collectors) = (HEAP.safepoint.take(u32::MAX), HEAP.barrier.take(u32::MAX));
    drop(guard);
    world.wake();
    collectors.wake();
}

/// Adds up and clears the objects from `from` to `to`.
fn sweep(from: u64, to: u64) -> (u64, u64) {
    (from..to).fold((0, 0), |(objects, sum), number| {
        let value = object(number).swap(0, Relaxed);
        (objects + u64::from(value != 0), sum.wrapping_add(value))
    })
}
