//! Test support: vCPU threads whose guest is a closure.
//!
//! The loop is the vCPU loop of the contract with everything real (threads, kick cells, signals, timers) except
//! `KVM_RUN`: in its place the closure runs, and a faithful one spins until its work is done or `immediate_exit` is set.

use std::time::{Duration, Instant};

use super::{Permit, PreemptNotifier, SchedOut, VcpuIndex, VcpuSched};
// The byte that is shared with KVM: see `kick`.
use std::sync::atomic::AtomicU8;

use crate::kick::{Bound, KickCell, install_handler};
use crate::sync::{Arc, AtomicBool, Ordering};

/// What the fake guest left `KVM_RUN` for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Was forced out, or had nothing special to say.
    Again,
    /// Halts until its `woken` is true.
    Halt,
    /// Did what the vCPU may halt for, and asks to wake it.
    Wake(VcpuIndex),
    /// Spun for another one.
    Spin,
    /// Is done for good.
    End,
}

/// The fake guest's view of `KVM_RUN`.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    immediate_exit: &'a AtomicU8,
}

impl Run<'_> {
    /// True once `KVM_RUN` would return.
    pub(crate) fn forced_out(&self) -> bool {
        self.immediate_exit.load(Ordering::Relaxed) != 0
    }

    /// Spins for `time` or until forced out.
    pub(crate) fn spin(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.forced_out() && Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// The life of one vCPU thread: `guest` is asked again and again what it does next.
pub(crate) fn vcpu_loop(
    sched: &dyn VcpuSched,
    cells: &[KickCell],
    me: VcpuIndex,
    woken: &dyn Fn() -> bool,
    mut guest: impl FnMut(&Run<'_>) -> Exit,
) {
    install_handler().unwrap();
    let cell = &cells[me.index()];
    let mut byte = 0_u8;
    let byte = &raw mut byte;
    // SAFETY: the byte lives in this frame, longer than `bound`, and is only touched as an atomic.
    let (bound, immediate_exit) = unsafe { (Bound::new(cell, byte), AtomicU8::from_ptr(byte)) };
    let mut thread = sched.attach(me, &bound).unwrap();
    loop {
        cell.take();
        if thread.before_entry() == Permit::Stop {
            return;
        }
        let exit = match bound.enter() {
            Some(_in_run) => guest(&Run { immediate_exit }),
            None => Exit::Again,
        };
        thread.after_exit();
        match exit {
            Exit::Again => {}
            Exit::Halt => thread.halt(woken),
            Exit::Wake(target) => sched.wake(target, Some(me)),
            Exit::Spin => thread.spin(),
            Exit::End => return,
        }
    }
}

/// As many kick cells as vCPUs.
pub(crate) fn cells(vcpus: u32) -> Arc<[KickCell]> {
    (0..vcpus).map(|_| KickCell::new()).collect()
}

/// Runs `test` with a limit of time: when it has passed, the scheduler is stopped, so that a hang becomes a failure.
pub(crate) fn within(limit: Duration, sched: &dyn VcpuSched, test: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(|| {
            let end = Instant::now() + limit;
            while !done.load(Ordering::Acquire) {
                if Instant::now() > end {
                    sched.stop();
                    return false;
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
            true
        });
        test();
        done.store(true, Ordering::Release);
        assert!(watchdog.join().unwrap(), "not done within {limit:?}");
    });
}

/// A notifier that checks its own contract: strictly in turn, out first.
#[derive(Debug)]
pub(crate) struct Turns(Vec<AtomicBool>);

impl Turns {
    pub(crate) fn new(vcpus: u32) -> Arc<Self> {
        Arc::new(Self((0..vcpus).map(|_| AtomicBool::new(false)).collect()))
    }

    /// True while the vCPU is out.
    pub(crate) fn is_out(&self, vcpu: VcpuIndex) -> bool {
        self.0[vcpu.index()].load(Ordering::Acquire)
    }
}

impl PreemptNotifier for Turns {
    fn sched_out(&self, vcpu: VcpuIndex, _why: SchedOut) {
        assert!(!self.0[vcpu.index()].swap(true, Ordering::AcqRel), "{vcpu:?} went out twice");
    }

    fn sched_in(&self, vcpu: VcpuIndex) {
        assert!(self.0[vcpu.index()].swap(false, Ordering::AcqRel), "{vcpu:?} came in twice");
    }
}
