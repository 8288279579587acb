//! Task groups: the cpu cgroups of the host.
//!
//! A group has a queue and an entity on *every* CPU ([`crate::entity`]); its shares are split among them by load
//! ([`crate::shares`]). Groups nest. A group may be removed at any moment: its tasks move to its parent. Numbers are
//! reused; a [generation](Host::group_generation) tells the new group from the old, for requests that are still in flight.
use std::sync::atomic::Ordering::Relaxed;

use crate::cfs_rq::CfsRq;
use crate::entity::{Entity, Slot, TaskState};
use crate::fair::{Dequeue, Enqueue};
use crate::host::Host;
use crate::ids::{GroupId, TaskId};
use crate::load_avg::QueueAvg;
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::CpuId;
use crate::trace::Trace;
use crate::weight::{MAX_SHARES, MIN_SHARES, NICE_0_LOAD};

/// Why a group cannot be made or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GroupError {
    /// The table is full.
    #[error("all {0} groups of the host are in use: make the host with room for more")]
    Full(u32),
    /// No such group.
    #[error("there is no group {0}")]
    NoGroup(GroupId),
    /// The root group cannot be changed.
    #[error("the root group has no shares, no gang and no end")]
    Root,
    /// It has child groups.
    #[error("group {0} still has {1} child groups: remove these first")]
    HasChildren(GroupId, u32),
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Makes a group in `parent` (`sched_create_group`, then `sched_group_set_shares`, 3.4). Shares are clamped to
    /// 2 .. 2^18; 1024 is one nice-0 task.
    ///
    /// # Errors
    /// No room; no such parent.
    pub fn group_create(&mut self, parent: GroupId, shares: u64, gang: bool) -> Result<GroupId, GroupError> {
        let host = self.cx.host;
        host.live_group(parent)?;
        let free = host.groups.iter().position(|g| !g.live.load(Relaxed));
        let group = free.map(GroupId::from_index).ok_or(GroupError::Full(host.limits().groups))?;
        let shared = &host.groups[group.index()];
        shared.parent.store(parent.0, Relaxed);
        shared.shares.store(NICE_0_LOAD, Relaxed);
        shared.gang.store(gang, Relaxed);
        shared.load_weight.store(0, Relaxed);
        shared.runnable_avg.store(0, Relaxed);
        shared.children.store(0, Relaxed);
        host.groups[parent.index()].children.fetch_add(1, Relaxed);
        for cpu in host.cpu_numbers() {
            self.rqs.with(cpu, |rq| {
                rq.cfs[group.index()] = CfsRq::new();
                rq.ents[group.index()] = Entity::group(Slot(parent.0));
                if let Some(avg) = rq.queue_avgs.get_mut(group.index()) {
                    *avg = QueueAvg::new();
                }
            });
        }
        shared.live.store(true, Relaxed);
        self.group_set_shares(group, shares)?;
        Ok(group)
    }

    /// Changes a group's weight against its siblings (`sched_group_set_shares`, 3.4).
    ///
    /// # Errors
    /// No such group, or the root group.
    pub fn group_set_shares(&mut self, group: GroupId, shares: u64) -> Result<(), GroupError> {
        let host = self.cx.host;
        let shared = host.changeable_group(group)?;
        let shares = shares.clamp(MIN_SHARES, MAX_SHARES);
        if shared.shares.swap(shares, Relaxed) == shares {
            return Ok(());
        }
        for cpu in host.cpu_numbers() {
            let cx = &mut self.cx;
            self.rqs.with(cpu, |rq| {
                let mut queue = Slot(group.0);
                while !queue.is_nil() {
                    rq.update_cfs_shares(cx, queue);
                    queue = rq.ents[queue.i()].queue;
                }
            });
        }
        Ok(())
    }

    /// Says whether the group's tasks are to run together.
    ///
    /// # Errors
    /// No such group, or the root group.
    pub fn group_set_gang(&mut self, group: GroupId, gang: bool) -> Result<(), GroupError> {
        self.cx.host.changeable_group(group)?.gang.store(gang, Relaxed);
        Ok(())
    }

    /// Moves a task to another group (`sched_move_task`, 3.4).
    ///
    /// # Errors
    /// No such group. A task that is gone is no error.
    pub fn task_set_group(&mut self, task: TaskId, group: GroupId) -> Result<(), GroupError> {
        self.cx.host.live_group(group)?;
        self.with_task(task, |rq, slot, cx| rq.move_group(cx, slot, group));
        Ok(())
    }

    /// Removes a group; its tasks move to its parent first (`sched_destroy_group`, 3.4).
    ///
    /// # Errors
    /// No such group, the root group, or a group with child groups.
    pub fn group_remove(&mut self, group: GroupId) -> Result<(), GroupError> {
        let host = self.cx.host;
        let shared = host.changeable_group(group)?;
        let children = shared.children.load(Relaxed);
        if children != 0 {
            return Err(GroupError::HasChildren(group, children));
        }
        for policy in host.policies() {
            policy.group_removed(host, group, self.cx.now);
        }
        let parent = GroupId(shared.parent.load(Relaxed));
        shared.live.store(false, Relaxed);
        shared.generation.fetch_add(1, Relaxed);
        for task in (0..host.limits().tasks).map(TaskId) {
            if host.task_cpu(task).is_some() && host.task_group(task) == group {
                self.with_task(task, |rq, slot, cx| rq.move_group(cx, slot, parent));
            }
        }
        for cpu in host.cpu_numbers() {
            self.rqs.with(cpu, |rq| rq.leaf_remove(Slot(group.0)));
        }
        host.groups[parent.index()].children.fetch_sub(1, Relaxed);
        Ok(())
    }
}

impl Rq {
    /// `sched_move_task` and `task_move_group_fair` (3.4).
    fn move_group<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot, group: GroupId) {
        self.update_rq_clock(cx.now);
        let (running, on_rq) = (self.curr == slot, self.ents[slot.i()].on_rq);
        if on_rq {
            self.dequeue_task(cx, slot, Dequeue::Move);
        }
        if running {
            self.put_prev_task(cx, slot);
        }
        // A task that was queued or is being woken has a relative vruntime already.
        let relative = on_rq || self.task(slot).state == TaskState::Waking;
        let (old, new) = (self.ents[slot.i()].queue, Slot(group.0));
        if !relative {
            let (from, to) = (self.cfs[old.i()].min_vruntime, self.cfs[new.i()].min_vruntime);
            let e = &mut self.ents[slot.i()];
            e.vruntime = e.vruntime.relative(from).absolute(to);
        }
        self.ents[slot.i()].queue = new;
        if !relative && self.tracks_entities() {
            self.move_group_load_avg(slot);
        }
        let id = self.task(slot).id;
        cx.host.tasks[id.index()].group.store(group.0, Relaxed);
        if running {
            self.set_curr_task(cx, slot);
        }
        if on_rq {
            self.enqueue_task(cx, slot, Enqueue::Move);
        }
    }
}

impl Host {
    /// The CPU numbers of the machine, on line or not.
    pub(crate) fn cpu_numbers(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.machine().cpu_slots()).map(|c| CpuId(u32::try_from(c).unwrap_or(u32::MAX)))
    }

    fn live_group(&self, group: GroupId) -> Result<&crate::host::GroupShared, GroupError> {
        self.groups.get(group.index()).filter(|g| g.live.load(Relaxed)).ok_or(GroupError::NoGroup(group))
    }

    fn changeable_group(&self, group: GroupId) -> Result<&crate::host::GroupShared, GroupError> {
        if group == GroupId::ROOT { Err(GroupError::Root) } else { self.live_group(group) }
    }

    /// True if the group exists and its tasks are to run together.
    #[must_use]
    pub fn is_gang(&self, group: GroupId) -> bool {
        self.live_group(group).is_ok_and(|g| g.gang.load(Relaxed))
    }

    /// The group's parent; `None` for the root group and for a group that does not exist.
    #[must_use]
    pub fn group_parent(&self, group: GroupId) -> Option<GroupId> {
        self.changeable_group(group).ok().map(|g| GroupId(g.parent.load(Relaxed)))
    }

    /// How often the number of this group has been freed: differs between a group and a later one of the same number.
    #[must_use]
    pub fn group_generation(&self, group: GroupId) -> u32 {
        self.groups[group.index()].generation.load(Relaxed)
    }
}
