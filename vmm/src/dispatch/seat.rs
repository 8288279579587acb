//! Where the thread of one vCPU waits for a CPU, and where it halts.
//!
//! # Picture
//! ```text
//!   outgoing thread (or waker)                 incoming thread
//!   affinity of its kernel thread = cpu        park
//!   token of cpu = incoming                      │
//!   grant = cpu; unpark  ───────────────────►  grant ? -> takes it, goes on as that CPU
//! ```
//!
//! # Halting without losing a wake
//! ```text
//!   halt (the vCPU)                      wake (anyone)
//!   lock gate                            (set what woken() reads, by a read-modify-write)
//!   halting = true; fence                fence; halting ? no -> done
//!   woken() ? -> halting = false, out    lock gate
//!   dequeue, pick the next task          asleep ? -> asleep = halting = false, enqueue
//!   asleep = true; unlock gate           unlock gate
//! ```
//! The fences exclude that the waker sees no halt while the vCPU sees no wake. The gate (the kernel's `pi_lock`) makes
//! dequeue-and-pick one step for wakers, so that a task is never woken while it is still its CPU's current one, and
//! lets one of several wakers enqueue it.

use crate::sched::VcpuIndex;
use crate::sync::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, Thread, current, fence, lock,
};

/// Index of a pCPU of the run: the position in the plan's list, and `hostsched`'s CPU number.
pub(super) type Slot = u32;

const NONE: u32 = u32::MAX;

/// One vCPU's thread, as the dispatcher sees it.
#[derive(Debug)]
pub(super) struct Seat {
    /// Kernel thread id; 0 before `sit`.
    tid: AtomicI32,
    thread: OnceLock<Thread>,
    /// The CPU that was given to it and not yet taken; `NONE` for none.
    grant: AtomicU32,
    /// When it was given, CLOCK_MONOTONIC ns.
    granted_at_ns: AtomicU64,
    /// Since when it is runnable and waits for a CPU, CLOCK_MONOTONIC ns.
    runnable_since_ns: AtomicU64,
    /// The one CPU that the kernel lets the thread run on; `NONE` before the first grant.
    affinity: AtomicU32,
    /// True from just before the last look at `woken()` until the wake.
    halting: AtomicBool,
    /// True while it is dequeued and waits for a wake.
    gate: Mutex<bool>,
}

impl Seat {
    pub(super) fn new() -> Self {
        Self {
            tid: AtomicI32::new(0),
            thread: OnceLock::new(),
            grant: AtomicU32::new(NONE),
            granted_at_ns: AtomicU64::new(0),
            runnable_since_ns: AtomicU64::new(0),
            affinity: AtomicU32::new(NONE),
            halting: AtomicBool::new(false),
            gate: Mutex::new(false),
        }
    }

    /// The calling thread is this vCPU's. False if another one already was.
    #[must_use]
    pub(super) fn sit(&self) -> bool {
        self.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        self.thread.set(current()).is_ok()
    }

    /// Kernel thread id of the thread, 0 if there is none yet.
    pub(super) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Acquire)
    }

    /// Notes the CPU that the kernel's affinity of the thread is now; true if that is a change.
    pub(super) fn moves_to(&self, slot: Slot) -> bool {
        self.affinity.swap(slot, Ordering::Relaxed) != slot
    }

    /// Gives the CPU to the thread and wakes it up. Called once per pick, by who holds the CPU's token.
    pub(super) fn grant(&self, slot: Slot, now_ns: u64) {
        self.granted_at_ns.store(now_ns, Ordering::Relaxed);
        self.grant.store(slot, Ordering::Release);
        self.wake_thread();
    }

    /// Makes the thread look again whether it has been granted a CPU or has to stop.
    pub(super) fn wake_thread(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The thread takes its grant: CPU and the time of the pick.
    pub(super) fn take_grant(&self) -> Option<(Slot, u64)> {
        let slot = self.grant.load(Ordering::Acquire);
        if slot == NONE {
            return None;
        }
        self.grant.store(NONE, Ordering::Relaxed);
        Some((slot, self.granted_at_ns.load(Ordering::Relaxed)))
    }

    /// It became runnable, or lost its CPU.
    pub(super) fn waits_since(&self, now_ns: u64) {
        self.runnable_since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Since when it has been runnable.
    pub(super) fn runnable_since_ns(&self) -> u64 {
        self.runnable_since_ns.load(Ordering::Relaxed)
    }

    /// First half of a halt: the gate, held, or `None` if `woken()` is already true.
    pub(super) fn begin_halt(&self, woken: &dyn Fn() -> bool) -> Option<Gate<'_>> {
        let asleep = lock(&self.gate);
        self.halting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if woken() {
            self.halting.store(false, Ordering::Relaxed);
            return None;
        }
        Some(Gate { seat: self, asleep })
    }

    /// What it may halt for has come: the gate of a sleeper, which the caller must enqueue before it lets go of it.
    pub(super) fn begin_wake(&self) -> Option<Gate<'_>> {
        fence(Ordering::SeqCst);
        if !self.halting.load(Ordering::Relaxed) {
            return None;
        }
        let asleep = lock(&self.gate);
        asleep.then_some(Gate { seat: self, asleep })
    }
}

/// A seat's gate, held: its vCPU neither halts nor wakes meanwhile.
#[derive(Debug)]
pub(super) struct Gate<'a> {
    seat: &'a Seat,
    asleep: MutexGuard<'a, bool>,
}

impl Gate<'_> {
    /// The vCPU is off the run queue: whoever wakes it next has to put it back.
    pub(super) fn fall_asleep(mut self) {
        *self.asleep = true;
    }

    /// The vCPU is back on a run queue.
    pub(super) fn awake(mut self) {
        *self.asleep = false;
        self.seat.halting.store(false, Ordering::Relaxed);
    }
}

/// Sets the affinity of a thread to one CPU, by the kernel's own numbers.
pub(super) fn bind(tid: i32, cpu: u32) -> rustix::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    rustix::thread::sched_setaffinity(rustix::thread::Pid::from_raw(tid), &set)
}

/// The id by which the array of seats is indexed.
pub(super) fn seat_of(task: hostsched::TaskId) -> VcpuIndex {
    VcpuIndex(task.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One vCPU halts for a counter, others raise it and wake: every rise must end a halt, none may be waited for in
    /// vain, and a sleeper is enqueued by exactly one waker.
    #[test]
    fn a_wake_just_before_the_halt_is_not_lost() {
        const WAKERS: u64 = 3;
        const RISES: u64 = 20_000;
        let seat = Seat::new();
        let (raised, queued, ended) = (AtomicU64::new(0), AtomicU64::new(1), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < WAKERS * RISES {
                    if let Some(gate) = seat.begin_halt(&|| raised.load(Ordering::Acquire) > seen) {
                        assert_eq!(queued.fetch_sub(1, Ordering::AcqRel), 1);
                        gate.fall_asleep();
                        while queued.load(Ordering::Acquire) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    seen = raised.load(Ordering::Acquire).max(seen);
                }
                ended.store(1, Ordering::Release);
            });
            for _ in 0..WAKERS {
                scope.spawn(|| {
                    for _ in 0..RISES {
                        raised.fetch_add(1, Ordering::AcqRel);
                        if let Some(gate) = seat.begin_wake() {
                            assert_eq!(queued.fetch_add(1, Ordering::AcqRel), 0, "enqueued twice");
                            gate.awake();
                        }
                    }
                });
            }
        });
        assert_eq!((ended.into_inner(), queued.into_inner()), (1, 1));
    }

    #[test]
    fn a_grant_is_taken_once() {
        let seat = Seat::new();
        assert!(seat.sit() && !seat.sit());
        assert_eq!(seat.take_grant(), None);
        seat.grant(1, 42);
        assert_eq!(seat.take_grant(), Some((1, 42)));
        assert_eq!(seat.take_grant(), None);
        assert!(seat.moves_to(1) && !seat.moves_to(1));
    }
}
