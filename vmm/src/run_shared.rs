//! What the threads of one run share, and how the run is stopped.

use crate::disk::Disk;
use crate::guests::Guests;
use crate::sched::VcpuIndex;
use crate::scheduler::Scheduler;
use crate::stats::PhaseCell;
use crate::sync::{Arc, AtomicBool, AtomicU32, Condvar, Mutex, Ordering, lock};
use crate::tap::Room;

/// Opened once, when every thread is ready.
#[derive(Debug, Default)]
pub struct Gate {
    open: Mutex<bool>,
    change: Condvar,
}

impl Gate {
    /// Lets everyone through, now and later.
    pub fn open(&self) {
        *lock(&self.open) = true;
        self.change.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let mut open = lock(&self.open);
        while !*open {
            open = self.change.wait(open).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// For tests: what goes wrong in a vCPU thread, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultHook {
    /// The vCPU.
    pub vcpu: VcpuIndex,
    /// It happens when the vCPU has left the guest so often.
    pub after_exits: u64,
    /// What happens.
    pub fault: Fault,
}

/// What can go wrong in a vCPU thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It panics.
    Panic,
    /// It ends, as if it had been asked to.
    ReturnEarly,
    /// The guest's kernel vanishes from its memory, so that KVM_RUN fails.
    LoseImage,
}

/// What all vCPU threads of a run share.
#[derive(Debug)]
pub struct RunShared {
    /// The VMs.
    pub guests: Arc<Guests>,
    /// Who lets vCPUs run.
    pub sched: Scheduler,
    /// The disk of the host.
    pub disk: Disk,
    /// Whether to record.
    pub phase: Arc<PhaseCell>,
    /// How much each thread traces, if it does.
    pub trace: Option<Room>,
    /// Nobody enters before it opens.
    pub gate: Gate,
    /// vCPUs that have not come online.
    pub offline: AtomicU32,
    /// Set before the scheduler is stopped: ends waits that the scheduler does not know of.
    pub stopping: AtomicBool,
    /// Where the scheduler does not tick: how often to sample the profile, in ns.
    pub sample_period_ns: Option<u64>,
    /// For tests.
    pub fault_hook: Option<FaultHook>,
}

impl RunShared {
    /// Makes every thread leave.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.sched.vcpu_sched().stop();
        self.gate.open();
    }
}
