//! What CFS queues: a task, or a group of tasks on one CPU.
//!
//! Units: nanoseconds; `vruntime` in virtual nanoseconds. Glossary: an *entity* is one node of the hierarchy of one CPU.
//! Its *queue* is the [`CfsRq`](crate::cfs_rq::CfsRq) of the group that it belongs to; a group's entity stands for the
//! group's own queue on that CPU.
//!
//! ```text
//!   cfs[0] (root)  ── ents[0] unused: the root group has no entity
//!     ├─ ents[1] ── cfs[1]   group 1 on this CPU: the same index for the group, its entity and its queue
//!     │    └─ ents[17]       a task of group 1 (task slots follow the group slots)
//!     └─ ents[18]            a task of the root group
//! ```
//! So the parent of an entity is the index of its queue, and 0 is both "root" and "no entity".
use crate::ids::{Nanos, TaskId, Vruntime};
use crate::load_avg::SchedAvg;
use crate::topology::CpuSet;
use crate::weight::{LoadWeight, NICE_0_LOAD, Nice};

/// Index of an entity in the tables of one run queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// No entity. As the current entity of a CPU: idle.
    pub(crate) const NIL: Self = Self(0);
    /// As the current entity of a CPU: the stopper thread, which belongs to a class above CFS.
    pub(crate) const STOPPER: Self = Self(u32::MAX);

    #[inline]
    pub(crate) const fn i(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(crate) const fn is_nil(self) -> bool {
        self.0 == 0
    }
}

/// `struct sched_entity`.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) vruntime: Vruntime,
    pub(crate) exec_start: Nanos,
    pub(crate) sum_exec_runtime: Nanos,
    pub(crate) prev_sum_exec_runtime: Nanos,
    pub(crate) load: LoadWeight,
    /// The queue that it is (to be) on, which is also its parent entity.
    pub(crate) queue: Slot,
    /// Queued or running.
    pub(crate) on_rq: bool,
}

impl Entity {
    /// An entity that never ran.
    pub(crate) fn new(load: LoadWeight, queue: Slot) -> Self {
        Self {
            vruntime: Vruntime(0),
            exec_start: Nanos(0),
            sum_exec_runtime: Nanos(0),
            prev_sum_exec_runtime: Nanos(0),
            load,
            queue,
            on_rq: false,
        }
    }

    /// A group's entity before its first share is computed (`init_tg_cfs_entry`).
    pub(crate) fn group(queue: Slot) -> Self {
        Self::new(LoadWeight::new(NICE_0_LOAD), queue)
    }

    /// Runtime since it was picked.
    #[inline]
    pub(crate) fn slice_used(&self) -> u64 {
        self.sum_exec_runtime.0 - self.prev_sum_exec_runtime.0
    }
}

/// `task->policy`, as far as CFS knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedPolicy {
    /// `SCHED_NORMAL`.
    #[default]
    Normal,
    /// `SCHED_BATCH`: never preempts on wake-up.
    Batch,
    /// `SCHED_IDLE`: weight 3, preempted by every other task that wakes up.
    Idle,
}

/// `task->state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Runnable: running or queued (`TASK_RUNNING`).
    Running,
    /// Waits for a wake-up (`TASK_INTERRUPTIBLE`).
    Blocked,
    /// A waker has it and has not queued it yet (`TASK_WAKING`).
    Waking,
    /// Gone at the next schedule (`TASK_DEAD`).
    Dead,
}

/// Counters of a task, kept where it runs; they move with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskStats {
    /// Moves to another CPU, without fork placement (`se.nr_migrations`).
    pub nr_migrations: u64,
    /// Wake-ups of the blocked task.
    pub nr_wakeups: u64,
    /// Time spent runnable but not running (`statistics.wait_sum`).
    pub wait_sum: Nanos,
    /// The longest such wait.
    pub wait_max: Nanos,
    /// Times it was switched to.
    pub switches_in: u64,
}

/// The part of a task that is not touched on every tick.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) state: TaskState,
    pub(crate) policy: SchedPolicy,
    pub(crate) nice: Nice,
    pub(crate) affinity: CpuSet,
    pub(crate) wait_start: Nanos,
    pub(crate) stats: TaskStats,
    /// What it has loaded its queue with lately, where that is tracked.
    pub(crate) avg: SchedAvg,
    /// Neighbours in the CPU's list of runnable tasks, newest first (`se.group_node`).
    pub(crate) prev: Slot,
    pub(crate) next: Slot,
}

impl Task {
    /// The weight of its policy and nice level (`set_load_weight`).
    pub(crate) fn load(&self) -> LoadWeight {
        if self.policy == SchedPolicy::Idle { LoadWeight::idle_policy() } else { self.nice.load() }
    }
}
