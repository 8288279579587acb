//! What one CPU, one task, one group shows to all CPUs, in relaxed atomics.
//!
//! ```text
//!   who                 written by                                    read by
//!   CpuPublic           the queue of that CPU, on every change        balancing, placement, policies: without its lock
//!   TaskShared.place    who holds the queue that the task is on       who looks for the task, and again under that queue
//!   GroupShared         who changes the group; each queue its part    the shares of each queue's entity
//!   SgpState            balancing, at intervals                       balancing
//! ```
//! A reader may see one field old and another one new, as the kernel's balancer may.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::entity::Slot;
use crate::topology::CpuId;

/// Steps of load history (`CPU_LOAD_IDX_MAX`).
pub(crate) const CPU_LOAD_IDX_MAX: usize = 5;

/// The published summary of a CPU's run queue.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CpuPublic {
    /// Tasks queued or running, the stopper included (`rq->nr_running`).
    pub(crate) nr_running: AtomicU32,
    /// Wake-ups queued and not yet done (`rq->wake_list`).
    pub(crate) wake_pending: AtomicU32,
    /// The idle thread has the CPU (`rq->curr == rq->idle`).
    pub(crate) curr_idle: AtomicBool,
    /// Load of the root queue (`weighted_cpuload`): its weight, or what its entities have weighed lately.
    pub(crate) load: AtomicU64,
    /// History of `load` (`rq->cpu_load[]`).
    pub(crate) cpu_load: [AtomicU64; CPU_LOAD_IDX_MAX],
    /// `rq->cpu_power`.
    pub(crate) power: AtomicU64,
    /// The task that runs, +1; 0 for none.
    pub(crate) curr_task: AtomicU32,
    /// Other CPUs that wake-ups from this one have asked whether they are idle.
    pub(crate) idle_asked: AtomicU64,
}

impl CpuPublic {
    /// `idle_cpu` (3.4): idle runs, nothing is queued, nothing is about to be.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.curr_idle.load(Relaxed) && self.nr_running.load(Relaxed) == 0 && self.wake_pending.load(Relaxed) == 0
    }
}

/// The shared side of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskShared {
    /// CPU (high half) and slot (low half); `VACANT` for no task.
    place: AtomicU64,
    /// Its VM, +1; 0 for none.
    pub(crate) vm: AtomicU32,
    /// Next task of the VM, in a ring.
    pub(crate) vm_next: AtomicU32,
    /// Its group.
    pub(crate) group: AtomicU32,
}

const VACANT: u64 = u64::MAX;
const CLAIMED: u64 = u64::MAX - 1;

impl TaskShared {
    /// A place in the table without a task.
    pub(super) fn vacant() -> Self {
        Self { place: VACANT.into(), ..Self::default() }
    }

    /// Takes a vacant place; it is nowhere until `set_place`.
    pub(crate) fn claim(&self) -> bool {
        self.place.compare_exchange(VACANT, CLAIMED, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn set_place(&self, cpu: CpuId, slot: Slot) {
        self.place.store(u64::from(cpu.0) << 32 | u64::from(slot.0), Relaxed);
    }

    /// Gives the place back.
    pub(crate) fn vacate(&self) {
        self.place.store(VACANT, Relaxed);
    }

    /// Where the task is. It may move until the CPU's queue is held: check again there.
    #[inline]
    pub(crate) fn place(&self) -> Option<(CpuId, Slot)> {
        let word = self.place.load(Relaxed);
        let half = |w: u64| u32::try_from(w & 0xffff_ffff).unwrap_or(0);
        (word < CLAIMED).then(|| (CpuId(half(word >> 32)), Slot(half(word))))
    }
}

/// The shared side of a group (`struct task_group`).
#[derive(Debug, Default)]
pub(crate) struct GroupShared {
    pub(crate) parent: AtomicU32,
    pub(crate) shares: AtomicU64,
    pub(crate) gang: AtomicBool,
    pub(crate) live: AtomicBool,
    pub(crate) generation: AtomicU32,
    /// Sum of the contributions of the CPUs (`tg->load_weight`, `tg->load_avg`).
    pub(crate) load_weight: AtomicI64,
    /// Sum of the runnable times of the CPUs, 1024 for all time (`tg->runnable_avg`).
    pub(crate) runnable_avg: AtomicI64,
    /// Child groups.
    pub(crate) children: AtomicU32,
}

/// A group's power as balancing last computed it (`struct sched_group_power`).
#[derive(Debug, Default)]
pub(crate) struct SgpState {
    pub(crate) power: AtomicU64,
    pub(crate) power_orig: AtomicU64,
    pub(crate) next_update: AtomicU64,
}
