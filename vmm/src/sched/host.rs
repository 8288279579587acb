//! `--sched host`: the kernel schedules the vCPU threads, as it does for any VMM.
//!
//! Threads simply run. A halt is a wait on the vCPU's own condition variable, with the flag `halted` so that a wake of
//! a running vCPU costs one load:
//!
//! ```text
//!   halt                                 wake
//!   lock; halted = true                  (caller set what woken() reads)
//!   fence                                fence
//!   woken() ? -> do not wait             halted ? -> lock, unlock, notify
//!   wait (unlocks)
//! ```
//! The two fences exclude that both sides miss each other; the lock excludes that the notify falls between the test and
//! the wait.

use std::io;

use super::{Permit, PreemptNotifier, SchedOut, VcpuIndex, VcpuSched, VcpuThread};
use crate::kick::{Bound, KickCell, Reason};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, fence, lock};

/// Where one vCPU halts.
#[derive(Debug, Default)]
struct Slot {
    halted: AtomicBool,
    gate: Mutex<()>,
    change: Condvar,
}

/// The kernel's own scheduler.
#[derive(Debug)]
pub struct HostSched {
    slots: Vec<Slot>,
    cells: Arc<[KickCell]>,
    notifier: Arc<dyn PreemptNotifier>,
    stopping: AtomicBool,
}

impl HostSched {
    /// For as many vCPUs as there are kick cells. Only halts are told to `notifier`: the kernel's preemptions are
    /// invisible from here.
    #[must_use]
    pub fn new(cells: Arc<[KickCell]>, notifier: Arc<dyn PreemptNotifier>) -> Self {
        let slots = cells.iter().map(|_| Slot::default()).collect();
        Self { slots, cells, notifier, stopping: AtomicBool::new(false) }
    }
}

impl VcpuSched for HostSched {
    fn attach<'a>(&'a self, me: VcpuIndex, _bound: &'a Bound<'a>) -> io::Result<Box<dyn VcpuThread + 'a>> {
        Ok(Box::new(HostThread { sched: self, me }))
    }

    fn wake(&self, target: VcpuIndex, _from: Option<VcpuIndex>) {
        let slot = &self.slots[target.index()];
        fence(Ordering::SeqCst);
        if slot.halted.load(Ordering::Relaxed) {
            drop(lock(&slot.gate));
            slot.change.notify_all();
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for (slot, cell) in self.slots.iter().zip(self.cells.iter()) {
            cell.post(Reason::Stop);
            drop(lock(&slot.gate));
            slot.change.notify_all();
        }
    }
}

#[derive(Debug)]
struct HostThread<'a> {
    sched: &'a HostSched,
    me: VcpuIndex,
}

impl VcpuThread for HostThread<'_> {
    fn before_entry(&mut self) -> Permit {
        if self.sched.stopping.load(Ordering::Acquire) { Permit::Stop } else { Permit::Enter }
    }

    fn after_exit(&mut self) {}

    fn halt(&mut self, woken: &dyn Fn() -> bool) {
        let slot = &self.sched.slots[self.me.index()];
        let mut gate = lock(&slot.gate);
        slot.halted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let awake = || woken() || self.sched.stopping.load(Ordering::Acquire);
        if !awake() {
            self.sched.notifier.sched_out(self.me, SchedOut::Halted);
            while !awake() {
                gate = slot.change.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            self.sched.notifier.sched_in(self.me);
        }
        slot.halted.store(false, Ordering::Relaxed);
    }

    fn spin(&mut self) {
        // As KVM without a candidate for a directed yield: let another thread have the CPU.
        std::thread::yield_now();
    }
}

impl Drop for HostThread<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.sched.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sched::fake::{Exit, Turns, cells, vcpu_loop, within};
    use crate::sync::AtomicU32;

    #[test]
    fn a_token_goes_round_and_no_wake_is_lost() {
        const VCPUS: u32 = 4;
        const ROUNDS: u32 = 20_000;
        let cells = cells(VCPUS);
        let turns = Turns::new(VCPUS);
        let sched = HostSched::new(cells.clone(), turns.clone());
        let token = AtomicU32::new(0);
        within(Duration::from_secs(60), &sched, || {
            std::thread::scope(|scope| {
                for me in 0..VCPUS {
                    let (sched, cells, token, turns) = (&sched, &cells, &token, &turns);
                    scope.spawn(move || {
                        let mine = || token.load(Ordering::Acquire) % VCPUS == me;
                        vcpu_loop(sched, cells, VcpuIndex(me), &mine, |_| {
                            assert!(!turns.is_out(VcpuIndex(me)));
                            if !mine() {
                                Exit::Halt
                            } else if token.fetch_add(1, Ordering::AcqRel) < ROUNDS {
                                Exit::Wake(VcpuIndex((me + 1) % VCPUS))
                            } else {
                                sched.stop();
                                Exit::Again
                            }
                        });
                    });
                }
            });
        });
        assert!(token.into_inner() > ROUNDS);
    }

    #[test]
    fn a_panicking_thread_ends_the_others() {
        let cells = cells(2);
        let sched = HostSched::new(cells.clone(), Turns::new(2));
        within(Duration::from_secs(60), &sched, || {
            std::thread::scope(|scope| {
                scope.spawn(|| vcpu_loop(&sched, &cells, VcpuIndex(0), &|| false, |_| Exit::Halt));
                let dies = scope.spawn(|| {
                    vcpu_loop(&sched, &cells, VcpuIndex(1), &|| false, |_| {
                        std::panic::resume_unwind(Box::new("on purpose"))
                    });
                });
                assert!(dies.join().is_err());
            });
        });
    }
}
