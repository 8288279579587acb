//! Run queues: which thread runs on which vCPU.
//!
//! ```text
//!   wake      to the run queue of the vCPU that it had last; an idle one is kicked           (try_to_wake_up)
//!   fork      to the vCPU with the fewest runnable threads, from the own one on              (find_idlest_group)
//!   new idle  a vCPU that runs out of threads takes one from the longest queue               (idle_balance)
//!   tick      the end of a slice; a halted sibling is kicked if threads are in line here     (the idle load balancer)
//! ```
//! As `sim/src/world/sched_guest.rs`, whose constants these are: one flat domain, no look for an idle sibling at wake-up, a
//! woken thread does not wait longer than to the next tick. Slices are whole ticks, at least one.
//!
//! # Why no wake-up is lost
//! A vCPU that is about to halt sets `idle`, then looks at its queue once more; who queues a thread there takes `idle` after
//! it: `abi::idle`, which is model-checked.
//!
//! # Who may touch a thread
//! The running thread itself; of a queued one, who holds the queue's lock. A thread that goes to sleep is still `on_cpu` until
//! its registers are on its stack: who wakes it waits for that (`p->on_cpu` in the kernel).

use abi::VCPUS_MAX;
use abi::call::Call;
use abi::idle::IdleFlag;
use abi::sync::AtomicU32;
use abi::sync::AtomicU64;
use abi::sync::Ordering::{Acquire, Relaxed, Release};
use abi::vcpu::Phase;

use crate::cpu::{Cpu, params};
use crate::disk;
use crate::flush::SpinHint;
use crate::preempt::{self, current};
use crate::stubs::switch_stack;
use crate::thread::{Thread, check_stack, live, thread};

/// `sched_latency` and `sched_min_granularity` at 8 vCPUs.
const LATENCY_MS: u32 = 24;
const MIN_GRANULARITY_MS: u32 = 3;

/// Threads in a row, by number plus 1, linked through `Thread::next`. Its owner's lock guards it.
pub(crate) struct List {
    head: AtomicU32,
    tail: AtomicU32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { head: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    pub(crate) fn push(&self, id: u32) {
        thread(id).next.store(0, Relaxed);
        match self.tail.load(Relaxed) {
            0 => self.head.store(id, Relaxed),
            last => thread(last).next.store(id, Relaxed),
        }
        self.tail.store(id, Relaxed);
    }

    /// The first, 0 if there is none.
    pub(crate) fn pop(&self) -> u32 {
        let first = self.head.load(Relaxed);
        if first != 0 {
            let next = thread(first).next.load(Relaxed);
            self.head.store(next, Relaxed);
            if next == 0 {
                self.tail.store(0, Relaxed);
            }
        }
        first
    }
}

/// The run queue of a vCPU.
#[repr(C, align(64))]
struct RunQueue {
    /// 1 while held. Unfair on purpose: a waiter without a CPU holds up nobody. Held for less than 0.1 us at a time, by
    /// whoever runs, and by a vCPU that switches until it has.
    lock: AtomicU32,
    len: AtomicU32,
    list: List,
    /// Set: halts, or is about to.
    idle: IdleFlag,
    /// Whom the vCPU has switched away from.
    previous: AtomicU32,
    /// Ticks that are left of the running thread's slice.
    slice: AtomicU32,
    /// Runs a thread, not the idle loop.
    busy: AtomicU32,
    /// The idle loop's stack pointer while a thread runs.
    idle_sp: AtomicU64,
}

static QUEUES: [RunQueue; VCPUS_MAX as usize] = [const {
    RunQueue {
        lock: AtomicU32::new(0),
        len: AtomicU32::new(0),
        list: List::new(),
        idle: IdleFlag::new(),
        previous: AtomicU32::new(0),
        slice: AtomicU32::new(0),
        busy: AtomicU32::new(0),
        idle_sp: AtomicU64::new(0),
    }
}; VCPUS_MAX as usize];

fn queue_of(vcpu: u32) -> &'static RunQueue {
    &QUEUES[vcpu as usize]
}

impl RunQueue {
    /// The caller has preemption off. The host counts it among the locks held: it may take the vCPU's CPU away.
    fn lock(&self, cpu: Cpu) {
        self.spin(cpu);
        let held = &cpu.page.lock.0.held;
        held.store(held.load(Relaxed) + 1, Relaxed);
    }

    fn spin(&self, cpu: Cpu) {
        if self.lock.swap(1, Acquire) == 0 {
            return;
        }
        let mut hint = SpinHint::new(params().ple_window_cycles);
        while self.lock.load(Relaxed) != 0 || self.lock.swap(1, Acquire) != 0 {
            hint.spin(cpu);
        }
    }

    /// On the vCPU that locked it.
    fn unlock(&self, cpu: Cpu) {
        self.lock.store(0, Release);
        let held = &cpu.page.lock.0.held;
        held.store(held.load(Relaxed) - 1, Relaxed);
    }

    fn push(&self, id: u32) {
        self.list.push(id);
        self.len.store(self.len.load(Relaxed) + 1, Relaxed);
    }

    fn pop(&self) -> u32 {
        let id = self.list.pop();
        if id != 0 {
            self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        }
        id
    }

    /// Runnable threads. A look without the lock.
    fn load(&self) -> u32 {
        self.len.load(Relaxed) + self.busy.load(Relaxed)
    }
}

/// Ticks that a thread runs while `waiting` are in line behind it. One that is alone keeps the slice of two.
fn slice_ticks(waiting: u32, hz: u32) -> u32 {
    let runnable = (waiting + 1).max(2);
    let ms = (LATENCY_MS / runnable).max(MIN_GRANULARITY_MS);
    (ms * hz).div_ceil(1000).max(1)
}

/// Gives the vCPU to the next thread in line, or to the idle loop. The caller's thread goes on after that if it is
/// runnable, on this vCPU or another. Preemption is off exactly once.
pub(crate) fn schedule() {
    assert!(preempt::count() == 1, "a thread gives its vCPU up while it holds a spinlock");
    let cpu = Cpu::this();
    let queue = queue_of(cpu.index);
    let me = current();
    queue.lock(cpu);
    if me != 0 && thread(me).is_runnable() {
        queue.push(me);
    }
    let next = queue.pop();
    if next == me {
        queue.unlock(cpu);
        return;
    }
    queue.previous.store(me, Relaxed);
    queue.busy.store(u32::from(next != 0), Relaxed);
    cpu.page.sched.0.current.store(next, Relaxed);
    cpu.counters().thread_switches.add(1);
    let save = if me == 0 { &queue.idle_sp } else { &thread(me).sp };
    let sp = if next == 0 {
        queue.idle_sp.load(Relaxed)
    } else {
        let next = thread(next);
        next.vcpu.store(cpu.index, Relaxed);
        next.on_cpu.store(1, Relaxed);
        queue.slice.store(slice_ticks(queue.len.load(Relaxed), params().guest_hz), Relaxed);
        next.sp.load(Relaxed)
    };
    // SAFETY: the queue's lock is held by this vCPU, so nobody else touches either thread; `sp` was saved by an earlier
    // switch, or written by `Thread::prepare`; the idle loop's was saved when it switched to a thread here. `save` lives
    // in a static. Unsafe because the stack under the caller changes.
    unsafe { switch_stack(save.as_ptr(), sp) };
    switched();
}

/// The first act of whoever was switched to, on the vCPU that it has now.
pub(crate) fn switched() {
    let cpu = Cpu::this();
    let queue = queue_of(cpu.index);
    let previous = queue.previous.load(Relaxed);
    if previous != 0 {
        check_stack(previous);
        // From here on others may wake it, or take it away once the lock is free.
        thread(previous).on_cpu.store(0, Release);
    }
    queue.unlock(cpu);
}

/// A tick has come: the thread that runs may have to give way. Called with preemption off once, from ring 3.
pub(crate) extern "C" fn tick_due() {
    let cpu = Cpu::this();
    cpu.page.sched.0.need_resched.store(0, Relaxed);
    if disk::wake_answered(cpu) {
        // The disk's vector, not a tick. Whom it has woken runs at the next one at the latest.
        return;
    }
    cpu.counters().timer_ticks.add(1);
    if current() == 0 {
        return;
    }
    // Preemptible, so it computes: a record may take seconds. Who waits for a lock is not, who sleeps gets no ticks.
    cpu.counters().progress.add(1);
    let queue = queue_of(cpu.index);
    if queue.len.load(Relaxed) == 0 {
        return;
    }
    kick_idle_sibling(cpu);
    let left = queue.slice.load(Relaxed).saturating_sub(1);
    queue.slice.store(left, Relaxed);
    if left == 0 {
        cpu.counters().thread_preemptions.add(1);
        schedule();
    }
}

/// One that halts while threads are in line here: it wakes and takes one.
fn kick_idle_sibling(cpu: Cpu) {
    if let Some(idle) = siblings(cpu.index).find(|vcpu| queue_of(*vcpu).idle.is_set()) {
        kick(cpu, idle);
    }
}

/// Ends the halt of a vCPU, if it idles.
fn kick(cpu: Cpu, vcpu: u32) {
    if queue_of(vcpu).idle.claim() {
        cpu.counters().resched_ipis.add(1);
        cpu.call(Call::SendResched, vcpu);
    }
}

/// The other vCPUs in ring order.
fn siblings(vcpu: u32) -> impl Iterator<Item = u32> {
    let vcpus = params().vcpus;
    (1..vcpus).map(move |step| (vcpu + step) % vcpus)
}

/// The vCPU with the fewest runnable threads, in ring order from `vcpu` on.
pub(crate) fn idlest(vcpu: u32) -> u32 {
    siblings(vcpu).fold(vcpu, |best, other| if queue_of(other).load() < queue_of(best).load() { other } else { best })
}

/// Makes a sleeping thread runnable on `target`. The caller has preemption off on `cpu`, and is the only one who wakes it.
pub(crate) fn enqueue(cpu: Cpu, id: u32, target: u32) {
    let woken = thread(id);
    let mut hint = SpinHint::new(params().ple_window_cycles);
    while woken.on_cpu.load(Acquire) != 0 {
        hint.spin(cpu);
    }
    woken.set_runnable(target);
    let queue = queue_of(target);
    queue.lock(cpu);
    queue.push(id);
    queue.slice.store(queue.slice.load(Relaxed).min(1), Relaxed);
    queue.unlock(cpu);
    kick(cpu, target);
}

/// Puts a new thread in line, before the vCPU runs any.
pub(crate) fn add_new(cpu: Cpu, id: u32) {
    let queue = queue_of(cpu.index);
    queue.lock(cpu);
    queue.push(id);
    queue.unlock(cpu);
}

/// Takes a thread from the longest queue; the one that has waited longest. False if there is none.
fn pull(cpu: Cpu) -> bool {
    let crowded = siblings(cpu.index).filter(|vcpu| queue_of(*vcpu).load() > 1);
    let Some(busiest) = crowded.max_by_key(|vcpu| queue_of(*vcpu).len.load(Relaxed)) else { return false };
    let queue = queue_of(busiest);
    queue.lock(cpu);
    let id = queue.pop();
    queue.unlock(cpu);
    if id == 0 {
        return false;
    }
    cpu.counters().guest_migrations.add(1);
    thread(id).vcpu.store(cpu.index, Relaxed);
    add_new(cpu, id);
    true
}

/// Runs threads until all have ended. Preemption is off here, and on in the threads.
pub(crate) fn idle_loop(cpu: Cpu) {
    preempt::disable();
    let (queue, sched) = (queue_of(cpu.index), &cpu.page.sched.0);
    sched.tick.store(1, Relaxed);
    while live() {
        disk::wake_answered(cpu);
        schedule();
        if pull(cpu) {
            continue;
        }
        sched.tick.store(0, Relaxed);
        queue.idle.prepare();
        if queue.len.load(Relaxed) == 0 && live() && !disk::is_answered(cpu) {
            cpu.phase(Phase::Idle);
            cpu.counters().idle_halts.add(1);
            cpu.call(Call::Halt, 0);
            cpu.phase(Phase::Work);
        }
        queue.idle.resume();
        sched.tick.store(1, Relaxed);
    }
    sched.tick.store(0, Relaxed);
    preempt::enable();
}

/// The last thread has ended: every idle loop must see it.
pub(crate) fn kick_all(cpu: Cpu) {
    siblings(cpu.index).for_each(|vcpu| kick(cpu, vcpu));
}

/// The state of a thread.
impl Thread {
    fn set_runnable(&self, vcpu: u32) {
        self.vcpu.store(vcpu, Relaxed);
        self.asleep.store(0, Relaxed);
    }

    fn is_runnable(&self) -> bool {
        self.asleep.load(Relaxed) == 0
    }
}
