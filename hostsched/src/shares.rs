//! A group's part of each CPU: its shares, split by where its load has been lately.
//!
//! Units: weights; nanoseconds. Problem: a group has *one* weight (shares) for the whole host, but entities on many CPUs.
//! Approach: each CPU's entity gets `shares x load here / load everywhere`. "Everywhere" is a lagging sum
//! (`tg->load_weight`): every queue averages its load over a window and adds the change to the sum only now and then, so
//! that queues need not be locked together.
//!
//! Worked example: shares 1024, one task on each of 8 CPUs: loads 1024 each, sum 8192: each entity weighs 128. Before
//! the first window has passed the sum is still 0 and each entity weighs 1024 x 1024 / 1024 = 1024.
//!
//! Property: an entity's weight lies between `MIN_SHARES` and the group's shares.
use std::sync::atomic::Ordering::Relaxed;

use crate::entity::Slot;
use crate::host::{GroupShared, Host};
use crate::rq::Rq;
use crate::sched::Cx;
use crate::slab::List;
use crate::trace::Trace;
use crate::weight::{LoadWeight, MIN_SHARES};

impl Rq {
    /// Brings a group queue's load average up to date (`update_cfs_load`, 3.4). `global` adds any change to the group's
    /// sum, else only one above an eighth. Where entities are tracked one by one, [`crate::load_avg`] does this, at its own
    /// times.
    #[inline]
    pub(crate) fn update_cfs_load(&mut self, host: &Host, queue: Slot, global: bool) {
        if queue.is_nil() {
            return;
        }
        let period = host.config().sysctls.shares_window.0;
        let now = self.clock_task.0;
        let q = &mut self.cfs[queue.i()];
        let load = q.load.weight;
        let s = &mut q.shares;
        let mut delta = now - s.load_stamp;
        if s.load_stamp > s.load_last && now - s.load_last > 4 * period {
            s.load_period = 0;
            s.load_avg = 0;
            delta = period - 1;
        }
        s.load_stamp = now;
        s.load_unacc_exec_time = 0;
        s.load_period += delta;
        if load != 0 {
            s.load_last = now;
            s.load_avg += delta * load;
        }
        if global || s.load_period > period || s.load_period == 0 {
            let average = s.load_avg / (s.load_period + 1);
            let change = average.cast_signed() - s.load_contribution.cast_signed();
            if global || change.unsigned_abs() > s.load_contribution / 8 {
                host.groups[queue.i()].load_weight.fetch_add(change, Relaxed);
                s.load_contribution = average;
            }
        }
        while s.load_period > period {
            s.load_period /= 2;
            s.load_avg /= 2;
        }
        if q.curr.is_nil() && q.nr_running == 0 && q.shares.load_avg == 0 {
            self.leaf_remove(queue);
        }
    }

    /// Load of the group everywhere, with this CPU's as it is now (`calc_tg_weight`, 3.4).
    #[inline]
    pub(crate) fn calc_tg_weight(&self, group: &GroupShared, queue: Slot) -> i64 {
        let q = &self.cfs[queue.i()];
        group.load_weight.load(Relaxed) - q.shares.load_contribution.cast_signed() + q.load.weight.cast_signed()
    }

    /// Weight of the group's entity here (`calc_cfs_shares`, 3.4).
    #[inline]
    fn calc_cfs_shares(&self, group: &GroupShared, queue: Slot) -> u64 {
        let all = self.calc_tg_weight(group, queue);
        let total = group.shares.load(Relaxed);
        let mut shares = total.wrapping_mul(self.cfs[queue.i()].load.weight).cast_signed();
        if all != 0 {
            shares /= all;
        }
        shares.max(MIN_SHARES.cast_signed()).cast_unsigned().min(total)
    }

    /// Gives the group's entity its share of now (`update_cfs_shares`, `reweight_entity`, 3.4).
    #[inline]
    pub(crate) fn update_cfs_shares<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot) {
        if queue.is_nil() {
            return;
        }
        let shares = self.calc_cfs_shares(&cx.host.groups[queue.i()], queue);
        self.reweight_entity(cx, queue, shares);
    }

    #[inline]
    fn reweight_entity<T: Trace>(&mut self, cx: &mut Cx<'_, T>, se: Slot, weight: u64) {
        let e = &self.ents[se.i()];
        let (queue, on_rq, same) = (e.queue, e.on_rq, e.load.weight == weight);
        if on_rq && self.cfs[queue.i()].curr == se {
            self.update_curr(cx, queue);
        }
        if same {
            return;
        }
        if on_rq {
            let old = self.ents[se.i()].load.weight;
            self.cfs[queue.i()].load.sub(old);
            self.cfs[queue.i()].load.add(weight);
            if queue.is_nil() {
                self.publish_load(cx.host);
            }
        }
        self.ents[se.i()].load = LoadWeight::new(weight);
    }

    /// Keeps the share of a group alive whose task runs on and on (`update_entity_shares_tick`, 3.4): called when it has
    /// run for a window without an update. The root queue has no share.
    pub(crate) fn update_entity_shares<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot) {
        self.cfs[queue.i()].shares.load_unacc_exec_time = 0;
        self.update_cfs_load(cx.host, queue, false);
        self.update_cfs_shares(cx, queue);
    }

    /// Folds every group's load into its sum and updates its share (`update_shares`, 3.4; `update_blocked_averages`, 3.8).
    pub(crate) fn update_shares<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        let mut queue = self.leaves.head;
        while !queue.is_nil() {
            // Only this queue may leave the list meanwhile.
            let next = self.cfs[queue.i()].shares.next;
            self.update_rq_clock(cx.now);
            if self.tracks_entities() {
                self.update_blocked_average(cx, queue);
            } else {
                self.update_cfs_load(cx.host, queue, true);
                self.update_cfs_shares(cx, queue);
            }
            queue = next;
        }
        if self.tracks_entities() {
            self.update_rq_clock(cx.now);
            self.update_blocked_average(cx, Slot::NIL);
        }
    }

    /// Puts a group queue on the leaf list, before its parent if that is there (`list_add_leaf_cfs_rq`).
    #[inline]
    pub(crate) fn leaf_add(&mut self, host: &Host, queue: Slot) {
        if self.cfs[queue.i()].shares.on_list {
            return;
        }
        self.cfs[queue.i()].shares.on_list = true;
        if queue.is_nil() {
            // The root queue has no share to update: only its being there matters, for the places of its children.
            return;
        }
        let parent = host.groups[queue.i()].parent.load(Relaxed) as usize;
        let List { head, tail } = self.leaves;
        if self.cfs[parent].shares.on_list {
            let s = &mut self.cfs[queue.i()].shares;
            (s.prev, s.next) = (Slot::NIL, head);
            self.leaves.head = queue;
            if head.is_nil() {
                self.leaves.tail = queue;
            } else {
                self.cfs[head.i()].shares.prev = queue;
            }
        } else {
            let s = &mut self.cfs[queue.i()].shares;
            (s.prev, s.next) = (tail, Slot::NIL);
            self.leaves.tail = queue;
            if tail.is_nil() {
                self.leaves.head = queue;
            } else {
                self.cfs[tail.i()].shares.next = queue;
            }
        }
    }

    /// Takes a group queue off the leaf list (`list_del_leaf_cfs_rq`).
    #[inline]
    pub(crate) fn leaf_remove(&mut self, queue: Slot) {
        let s = &mut self.cfs[queue.i()].shares;
        if !s.on_list {
            return;
        }
        s.on_list = false;
        let (prev, next) = (s.prev, s.next);
        if prev.is_nil() {
            self.leaves.head = next;
        } else {
            self.cfs[prev.i()].shares.next = next;
        }
        if next.is_nil() {
            self.leaves.tail = prev;
        } else {
            self.cfs[next.i()].shares.prev = prev;
        }
    }
}
