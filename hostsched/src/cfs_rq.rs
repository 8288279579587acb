//! One group's queue on one CPU (`struct cfs_rq`).
//!
//! Units: virtual nanoseconds for `min_vruntime`, weights for loads. Problem: entities come and go, sleep for seconds and
//! change CPU, and must still be comparable. Approach: every queue has its own virtual clock, `min_vruntime`; whoever
//! joins is placed relative to it, whoever leaves for another queue takes the difference along.
//!
//! Property: `min_vruntime` never falls.
use crate::entity::Slot;
use crate::ids::Vruntime;
use crate::timeline::Timeline;
use crate::weight::LoadWeight;

/// Where the virtual clock of a fresh queue starts: 2^20 ns below zero (`init_cfs_rq`, 3.4).
pub(crate) const INITIAL_MIN_VRUNTIME: Vruntime = Vruntime((1_u64 << 20).wrapping_neg());

/// A queue of entities.
#[derive(Clone, Debug)]
pub(crate) struct CfsRq {
    /// Sum of the weights of the entities that are queued or running.
    pub(crate) load: LoadWeight,
    /// Entities queued or running.
    pub(crate) nr_running: u32,
    /// Tasks queued or running here or below.
    pub(crate) h_nr_running: u32,
    pub(crate) min_vruntime: Vruntime,
    pub(crate) timeline: Timeline,
    /// The entity that runs; it is not in the timeline.
    pub(crate) curr: Slot,
    pub(crate) buddies: Buddies,
    pub(crate) shares: SharesAvg,
    /// `load * fraction of the CPU that reaches this queue`, as of the last balance (`h_load`).
    pub(crate) h_load: u64,
    /// Balance pass in which `h_load` was computed.
    pub(crate) h_load_pass: u64,
}

/// Hints to [`pick_next_entity`](crate::rq::Rq): who should run next in place of the leftmost.
///
/// | buddy | set by | honoured | cleared |
/// |---|---|---|---|
/// | `skip` | `yield` | if the second is not too far ahead | when picked or dequeued |
/// | `last` | wake-up preemption (the preempted) | if not too far ahead | 〃 |
/// | `next` | wake-up preemption, `yield_to`, dequeue of a sibling | if not too far ahead | 〃 |
/// | `gang` | the gang policy, V2; a strict `yield_to` | always | 〃 |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buddies {
    pub(crate) next: Slot,
    pub(crate) last: Slot,
    pub(crate) skip: Slot,
    pub(crate) gang: Slot,
}

/// The lagging average from which a group's share on this CPU is computed (`load_avg` ... of `struct cfs_rq`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharesAvg {
    /// Sum of load x time over the window.
    pub(crate) load_avg: u64,
    /// Time that `load_avg` covers.
    pub(crate) load_period: u64,
    /// Last update.
    pub(crate) load_stamp: u64,
    /// Last update that saw load.
    pub(crate) load_last: u64,
    /// Execution time since the last update.
    pub(crate) load_unacc_exec_time: u64,
    /// What this queue has added to the group's total.
    pub(crate) load_contribution: u64,
    /// In the CPU's list of groups with load.
    pub(crate) on_list: bool,
    /// Neighbours in that list.
    pub(crate) prev: Slot,
    pub(crate) next: Slot,
}

impl CfsRq {
    /// An empty queue (`init_cfs_rq`).
    pub(crate) fn new() -> Self {
        Self {
            load: LoadWeight::default(),
            nr_running: 0,
            h_nr_running: 0,
            min_vruntime: INITIAL_MIN_VRUNTIME,
            timeline: Timeline::default(),
            curr: Slot::NIL,
            buddies: Buddies::default(),
            shares: SharesAvg {
                load_avg: 0,
                load_period: 0,
                // Not 0, so that the first update may truncate (init_tg_cfs_entry).
                load_stamp: 1,
                load_last: 0,
                load_unacc_exec_time: 0,
                load_contribution: 0,
                on_list: false,
                prev: Slot::NIL,
                next: Slot::NIL,
            },
            h_load: 0,
            h_load_pass: 0,
        }
    }

    /// Moves the virtual clock up to the earlier of the running and the leftmost entity, never back
    /// (`update_min_vruntime`). `curr` is the vruntime of the running entity.
    #[inline]
    pub(crate) fn update_min_vruntime(&mut self, curr: Option<Vruntime>) {
        let earliest = match (curr, self.timeline.leftmost()) {
            (Some(c), Some((left, _))) => c.min(left),
            (Some(c), None) => c,
            (None, Some((left, _))) => left,
            (None, None) => return,
        };
        self.min_vruntime = self.min_vruntime.max(earliest);
    }
}
