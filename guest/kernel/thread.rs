//! Threads of the guest: made once, run on any vCPU, sleep and wake each other.
//!
//! ```text
//!   host: Params::kthreads stacks        each vCPU: run(entry) ── deals its threads, idles between them, ends with the last
//!   thread n: entry(n) ─► ... ─► returns
//!
//!   let queue = WaitQueue::new();                 a list that a lock of yours guards
//!   let guard = lock.lock();                      any guard: dropping it unlocks
//!   while nothing_there { queue.sleep(guard); guard = lock.lock(); }
//!                                                 waker: let chain = queue.take(n);  (lock held)
//!                                                        drop(guard); chain.wake();  or chain.fork(): to the idlest vCPU
//! ```
//! - Threads are numbered from 0; thread n begins on vCPU n % vcpus (dealt like cards, as in the simulator). Their stacks
//!   are 8 KiB each; the lowest word is checked at every switch.
//! - A spinlock turns preemption off while it is held ([`preempt::Off`] in its guard): a thread that sleeps
//!   holds exactly the one lock whose guard it gives to [`WaitQueue::sleep`].
//! - What belongs to a vCPU (counters, calls, its number) is used under [`preempt::Off`]. [`record`] does it for the one
//!   thing that every workload counts.
//! - [`stopping`]: the record limit is reached. A workload then lets its threads return, and wakes those that sleep.

use abi::layout::{Geometry, KTHREAD_STACK_SIZE};
use abi::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use abi::sync::{AtomicU32, AtomicU64};

use crate::cpu::{Cpu, params, rdtsc};
use crate::preempt::{self, Off, current};
use crate::runqueue::{self, List};
use crate::stubs::thread_begin;

/// What a thread runs; its argument is its number.
pub(crate) type Entry = fn(u32);

/// One thread. All words are written by the thread itself, or by who holds the lock of the list that it is on.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Its stack pointer while it does not run.
    pub(crate) sp: AtomicU64,
    /// The next of the list that it is on, by number plus 1.
    pub(crate) next: AtomicU32,
    /// Where it runs, or ran last.
    pub(crate) vcpu: AtomicU32,
    /// Not 0 until its registers are on its stack.
    pub(crate) on_cpu: AtomicU32,
    /// Not 0: sleeps, or is about to.
    pub(crate) asleep: AtomicU32,
    /// Where its stack begins.
    stack: AtomicU64,
}

static THREADS: [Thread; Geometry::KTHREADS_MAX as usize] = [const {
    Thread {
        sp: AtomicU64::new(0),
        next: AtomicU32::new(0),
        vcpu: AtomicU32::new(0),
        on_cpu: AtomicU32::new(0),
        asleep: AtomicU32::new(0),
        stack: AtomicU64::new(0),
    }
}; Geometry::KTHREADS_MAX as usize];

/// What all threads run, as an address.
static ENTRY: AtomicU64 = AtomicU64::new(0);
/// Threads that have ended.
static ENDED: AtomicU32 = AtomicU32::new(0);
/// Not 0: the record limit is reached.
static STOPPING: AtomicU32 = AtomicU32::new(0);

/// The lowest word of each stack.
const CANARY: u64 = 0x7661_6d6d_6c61_6273;

/// A thread by its number plus 1.
pub(crate) fn thread(id: u32) -> &'static Thread {
    &THREADS[(id - 1) as usize]
}

/// True until all threads have ended.
pub(crate) fn live() -> bool {
    ENDED.load(Acquire) < params().kthreads
}

/// Runs the threads of the VM on this vCPU, among the others, until all have ended.
pub(crate) fn run(cpu: Cpu, geometry: Geometry, entry: Entry) {
    ENTRY.store(entry as usize as u64, Release);
    for number in (cpu.index..geometry.kthreads()).step_by(geometry.vcpus() as usize) {
        THREADS[number as usize].prepare(geometry.kthread_stack(number));
        runqueue::add_new(cpu, number + 1);
    }
    runqueue::idle_loop(cpu);
}

impl Thread {
    /// Makes its first frame.
    fn prepare(&self, stack: u64) {
        // Six registers and an address, above which the stack pointer is aligned as the C ABI wants it before a call.
        let frame = stack + KTHREAD_STACK_SIZE - 16 - 7 * 8;
        self.stack.store(stack, Relaxed);
        word(stack).store(CANARY, Relaxed);
        word(frame + 6 * 8).store(thread_begin as *const () as u64, Relaxed);
        self.sp.store(frame, Relaxed);
    }
}

/// A word of a thread's stack.
fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: `address` lies in the stack of a thread that does not run (lowest word: never reached by it), identity-mapped
    // memory that nothing else uses, for ever. Unsafe because the address comes from the memory map.
    unsafe { &*(address as *const AtomicU64) }
}

/// Panics if a thread has used more stack than it has.
pub(crate) fn check_stack(id: u32) {
    let canary = word(thread(id).stack.load(Relaxed)).load(Relaxed);
    assert!(canary == CANARY, "thread {} has overflowed its stack", id - 1);
}

/// From `thread_begin`, on the new thread's stack.
pub(crate) extern "C" fn thread_main() -> ! {
    runqueue::switched();
    preempt::enable();
    let entry = ENTRY.load(Acquire) as *const ();
    // SAFETY: `run` has stored an `Entry` there, before it put any thread in line; function pointers of the kernel's one
    // image are plain addresses. Unsafe because the type is lost in an atomic word.
    let entry: Entry = unsafe { core::mem::transmute(entry) };
    entry(current() - 1);
    preempt::disable();
    thread(current()).asleep.store(1, Relaxed);
    if ENDED.fetch_add(1, AcqRel) + 1 == params().kthreads {
        runqueue::kick_all(Cpu::this());
    }
    runqueue::schedule();
    unreachable!("a thread that has ended is never woken")
}

/// Threads that sleep for one reason. A lock of the owner's guards it; any guard will do that unlocks when it is dropped.
pub(crate) struct WaitQueue(List);

impl WaitQueue {
    pub(crate) const fn new() -> Self {
        Self(List::new())
    }

    /// Sleeps until woken; the lock is free meanwhile, and afterwards.
    pub(crate) fn sleep<G>(&self, guard: G) {
        let me = current();
        thread(me).asleep.store(1, Relaxed);
        self.0.push(me);
        preempt::disable();
        drop(guard);
        runqueue::schedule();
        preempt::enable();
    }

    /// Takes the first `most` sleepers off, to be woken after the lock is free.
    pub(crate) fn take(&self, most: u32) -> Chain {
        let mut chain = Chain { first: 0, last: 0 };
        for _ in 0..most {
            match self.0.pop() {
                0 => break,
                id if chain.first == 0 => (chain.first, chain.last) = (id, id),
                id => {
                    thread(chain.last).next.store(id, Relaxed);
                    chain.last = id;
                }
            }
            thread(chain.last).next.store(0, Relaxed);
        }
        chain
    }
}

/// Sleepers that are to be woken, first come first served.
#[must_use = "who is not woken sleeps for ever"]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    /// Wakes each where it ran last.
    pub(crate) fn wake(self) {
        self.each(|_, id| thread(id).vcpu.load(Relaxed));
    }

    /// True if there is nobody to wake.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == 0
    }

    /// Wakes each where least is to do: new processes.
    pub(crate) fn fork(self) {
        self.each(|cpu, _| runqueue::idlest(cpu.index));
    }

    fn each(self, target: impl Fn(Cpu, u32) -> u32) {
        let mut id = self.first;
        while id != 0 {
            let off = Off::new();
            let next = thread(id).next.load(Relaxed);
            off.cpu().counters().thread_wakes.add(1);
            runqueue::enqueue(off.cpu(), id, target(off.cpu(), id));
            id = next;
        }
    }
}

/// True once the record limit is reached.
pub(crate) fn stopping() -> bool {
    STOPPING.load(Relaxed) != 0
}

/// The calling thread has completed a record that it began at `since` (cycles); returns the time now. True the first time
/// that the record limit is reached.
pub(crate) fn record(since: u64) -> u64 {
    let off = Off::new();
    let cpu = off.cpu();
    let now = rdtsc();
    cpu.results.record_time.record(now.saturating_sub(since));
    cpu.counters().records.add(1);
    cpu.counters().progress.add(1);
    if params().record_limit != 0 && cpu.counters().records.get() >= params().record_limit {
        STOPPING.store(1, Relaxed);
    }
    now
}

/// The workload's own check has failed.
pub(crate) fn work_error() {
    Off::new().cpu().counters().work_errors.add(1);
}
