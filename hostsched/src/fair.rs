//! CFS on one run queue: charging, slices, enqueue, dequeue, the tick.
//!
//! Units: nanoseconds, virtual nanoseconds. Problem: give each entity of a queue its weight's part of the CPU, and each
//! group of the hierarchy the same inside its parent. Approach: charge runtime divided by weight, always run the entity
//! charged least, and repeat that choice from the root queue down to a task.
//!
//! Worked example: a queue with weights 1024 and 2048, latency 24 ms. Slices 8 and 16 ms; each costs its owner 8 ms of
//! virtual time, so they alternate, and after 24 ms both stand at the same vruntime.
//!
//! Algorithm: a task that becomes runnable is queued, and its groups as far as they were not; one that stops being so is
//! taken off, and its groups as far as that empties them. An entity that leaves for another queue carries its vruntime
//! *relative* to `min_vruntime`. Choosing is in `pick.rs`, hints in `buddies.rs`, group weights in `shares.rs`.
//!
//! Properties: runtime charged to a queue's current entity equals that charged to the task below; a slice is never
//! above the period; `place_entity` never moves an entity back in virtual time.
use crate::cfs_rq::CfsRq;
use crate::config::Sysctls;
use crate::entity::{Entity, SchedPolicy, Slot};
use crate::ids::Nanos;
use crate::policy::Hooks;
use crate::rq::Rq;
use crate::sched::Cx;
use crate::trace::Trace;
use crate::weight::{LoadWeight, calc_delta_fair, calc_delta_mine};

/// How an entity joins its queue (`ENQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Enqueue {
    /// From another queue or anew: its vruntime is relative (flags 0).
    Move,
    /// Its vruntime is absolute and is placed (`ENQUEUE_WAKEUP`).
    Wakeup,
    /// Its vruntime was made relative by the waker, and is placed (`ENQUEUE_WAKEUP | ENQUEUE_WAKING`).
    Waking,
}

/// How an entity leaves its queue (`DEQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dequeue {
    /// To another queue: its vruntime becomes relative (flags 0).
    Move,
    /// To sleep: its vruntime stays absolute (`DEQUEUE_SLEEP`).
    Sleep,
}

/// Period in which `nr_running` entities run once each (`__sched_period`, 3.4).
#[inline]
#[must_use]
pub fn sched_period(sysctls: &Sysctls, nr_running: u64) -> u64 {
    if nr_running > sysctls.nr_latency { sysctls.min_granularity.0 * nr_running } else { sysctls.latency.0 }
}

/// Charges a running entity up to `now` and moves its queue's virtual clock along (`__update_curr`, 3.4); returns the time.
///
/// One that is off the queue was charged when it left. Time can pass until the next is picked only where `schedule` lets
/// go of the queue to look for work, and is nobody's then (`Rq::nobody_runs`).
#[inline]
fn charge(q: &mut CfsRq, e: &mut Entity, now: Nanos) -> u64 {
    let delta = if e.on_rq { now.0 - e.exec_start.0 } else { 0 };
    if delta != 0 {
        e.sum_exec_runtime.0 += delta;
        e.vruntime = e.vruntime.plus(calc_delta_fair(delta, &mut e.load));
        e.exec_start = now;
        q.update_min_vruntime(Some(e.vruntime));
        q.shares.load_unacc_exec_time += delta;
    }
    delta
}

impl Rq {
    /// Part of the period that the entity may run in one go (`sched_slice`, 3.4). `counted` is the queue whose length
    /// sets the period.
    #[inline]
    pub(crate) fn sched_slice(&mut self, sysctls: &Sysctls, counted: Slot, mut se: Slot) -> u64 {
        let joining = u64::from(!self.ents[se.i()].on_rq);
        let mut slice = sched_period(sysctls, u64::from(self.cfs[counted.i()].nr_running) + joining);
        while !se.is_nil() {
            let e = &self.ents[se.i()];
            let (weight, on_rq, queue) = (e.load.weight, e.on_rq, e.queue);
            let load = &mut self.cfs[queue.i()].load;
            slice = if on_rq {
                calc_delta_mine(slice, weight, load)
            } else {
                calc_delta_mine(slice, weight, &mut LoadWeight::new(load.weight + weight))
            };
            se = queue;
        }
        slice
    }

    /// Charges the queue's current entity for the time since it was charged last (`update_curr`, 3.4).
    #[inline]
    pub(crate) fn update_curr<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot) {
        let q = &mut self.cfs[queue.i()];
        let curr = q.curr;
        if curr.is_nil() {
            return;
        }
        let e = &mut self.ents[curr.i()];
        let delta = charge(q, e, self.clock_task);
        self.charged(cx, curr, delta);
    }

    /// Books what a task was charged.
    #[inline]
    fn charged<T: Trace>(&mut self, cx: &mut Cx<'_, T>, curr: Slot, delta: u64) {
        if delta != 0 && self.is_task(curr) {
            self.stats.exec.0 += delta;
            if T::ENABLED {
                let (id, vruntime) = (self.task(curr).id, self.ents[curr.i()].vruntime);
                cx.trace.sched_stat_runtime(cx.now, id, Nanos(delta), vruntime);
            }
        }
    }

    /// Charges the running task and its groups.
    pub(crate) fn update_curr_all<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        if self.curr.is_nil() || self.curr == Slot::STOPPER {
            return;
        }
        let mut se = self.curr;
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            self.update_curr(cx, queue);
            se = queue;
        }
    }

    /// Adds the entity's weight to its queue (`account_entity_enqueue`).
    #[inline]
    pub(crate) fn account_entity_enqueue(&mut self, queue: Slot, se: Slot) {
        let weight = self.ents[se.i()].load.weight;
        let q = &mut self.cfs[queue.i()];
        q.load.add(weight);
        q.nr_running += 1;
        if self.is_task(se) {
            self.runnable_push_front(se);
        }
    }

    /// Takes the entity's weight from its queue (`account_entity_dequeue`).
    #[inline]
    pub(crate) fn account_entity_dequeue(&mut self, queue: Slot, se: Slot) {
        let weight = self.ents[se.i()].load.weight;
        let q = &mut self.cfs[queue.i()];
        q.load.sub(weight);
        q.nr_running -= 1;
        if self.is_task(se) {
            self.runnable_remove(se);
        }
    }

    /// Chooses the vruntime of an entity that joins (`place_entity`, 3.4): a new one starts a slice late, a sleeper gets
    /// up to half a latency of credit, nobody gains over where it stood.
    pub(crate) fn place_entity<T>(&mut self, cx: &Cx<'_, T>, queue: Slot, se: Slot, initial: bool) {
        let (sysctls, features) = (&cx.host.config().sysctls, cx.host.config().features);
        let mut vruntime = self.cfs[queue.i()].min_vruntime;
        if initial {
            if features.start_debit {
                let slice = self.sched_slice(sysctls, queue, se);
                vruntime = vruntime.plus(calc_delta_fair(slice, &mut self.ents[se.i()].load));
            }
        } else {
            let credit = sysctls.latency.0 >> u32::from(features.gentle_fair_sleepers);
            vruntime = vruntime.minus(credit);
        }
        let e = &mut self.ents[se.i()];
        e.vruntime = e.vruntime.max(vruntime);
    }

    /// Brings a group and its share up to date after a task joined or left below it.
    #[inline]
    fn update_group_load<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, se: Slot) {
        let tracked = self.tracks_entities();
        if !tracked {
            self.update_cfs_load(cx.host, queue, false);
        }
        self.update_cfs_shares(cx, queue);
        if tracked {
            self.update_entity_load_avg(cx, se, true);
        }
    }

    /// Puts one entity on its queue (`enqueue_entity`, 3.4).
    #[inline]
    fn enqueue_entity<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, se: Slot, how: Enqueue) {
        if how != Enqueue::Wakeup {
            let base = self.cfs[queue.i()].min_vruntime;
            let e = &mut self.ents[se.i()];
            e.vruntime = e.vruntime.absolute(base);
        }
        self.update_curr(cx, queue);
        if self.tracks_entities() {
            self.enqueue_load_avg(cx, se, how);
        } else {
            self.update_cfs_load(cx.host, queue, false);
        }
        self.account_entity_enqueue(queue, se);
        self.update_cfs_shares(cx, queue);
        if how != Enqueue::Move {
            self.place_entity(cx, queue, se, false);
        }
        if self.cfs[queue.i()].curr != se {
            self.wait_start(se);
            let key = self.ents[se.i()].vruntime;
            self.cfs[queue.i()].timeline.insert(key, se);
        }
        self.ents[se.i()].on_rq = true;
        if self.cfs[queue.i()].nr_running == 1 {
            self.leaf_add(cx.host, queue);
        }
    }

    /// Takes one entity off its queue (`dequeue_entity`, 3.4).
    #[inline]
    fn dequeue_entity<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, se: Slot, how: Dequeue) {
        self.update_curr(cx, queue);
        let tracked = self.tracks_entities();
        if tracked {
            self.dequeue_load_avg(cx, se, how);
        }
        let is_curr = self.cfs[queue.i()].curr == se;
        if !is_curr {
            self.wait_end(cx, se);
        }
        self.clear_buddies(queue, se);
        if !is_curr {
            let key = self.ents[se.i()].vruntime;
            self.cfs[queue.i()].timeline.remove(key, se);
        }
        self.ents[se.i()].on_rq = false;
        if !tracked {
            self.update_cfs_load(cx.host, queue, false);
        }
        self.account_entity_dequeue(queue, se);
        if how == Dequeue::Move {
            let base = self.cfs[queue.i()].min_vruntime;
            let e = &mut self.ents[se.i()];
            e.vruntime = e.vruntime.relative(base);
        }
        let curr = self.cfs[queue.i()].curr;
        let running = (!curr.is_nil()).then(|| self.ents[curr.i()].vruntime);
        self.cfs[queue.i()].update_min_vruntime(running);
        self.update_cfs_shares(cx, queue);
    }

    /// Queues a task, and its groups as far as they were not queued (`enqueue_task_fair`, 3.4).
    pub(crate) fn enqueue_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>, task: Slot, mut how: Enqueue) {
        self.update_rq_clock(cx.now);
        let mut se = task;
        while !se.is_nil() && !self.ents[se.i()].on_rq {
            let queue = self.ents[se.i()].queue;
            self.enqueue_entity(cx, queue, se, how);
            self.cfs[queue.i()].h_nr_running += 1;
            how = Enqueue::Wakeup;
            se = queue;
        }
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            self.cfs[queue.i()].h_nr_running += 1;
            self.update_group_load(cx, queue, se);
            se = queue;
        }
        self.publish_load(cx.host);
        self.add_nr_running(cx.host, true);
        self.queued_hook(cx, task, true);
    }

    /// Takes a task off the queue, and its groups as far as that empties them (`dequeue_task_fair`, 3.4).
    pub(crate) fn dequeue_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>, task: Slot, how: Dequeue) {
        self.update_rq_clock(cx.now);
        let mut level = how;
        let mut se = task;
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            self.dequeue_entity(cx, queue, se, level);
            self.cfs[queue.i()].h_nr_running -= 1;
            se = queue;
            if self.cfs[queue.i()].load.weight != 0 {
                // The group still has something to run, and had time left: let it go on.
                if how == Dequeue::Sleep && !queue.is_nil() {
                    self.set_next_buddy(queue);
                }
                break;
            }
            level = Dequeue::Sleep;
        }
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            self.cfs[queue.i()].h_nr_running -= 1;
            self.update_group_load(cx, queue, se);
            se = queue;
        }
        self.publish_load(cx.host);
        self.add_nr_running(cx.host, false);
        self.queued_hook(cx, task, false);
    }

    /// Tells the policies that a task joined or left this queue.
    #[inline]
    fn queued_hook<T>(&mut self, cx: &mut Cx<'_, T>, task: Slot, on: bool) {
        if cx.host.hooked(Hooks::QUEUED) {
            let id = self.task(task).id;
            cx.hooks(self, |p, h| p.queued(h, id, on));
        }
    }

    /// The tick of the running task and its groups (`task_tick_fair`, `entity_tick`, 3.4).
    #[inline]
    pub(crate) fn task_tick<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        let window = cx.host.config().sysctls.shares_window.0;
        let mut se = self.curr;
        while !se.is_nil() {
            let e = &mut self.ents[se.i()];
            let queue = e.queue;
            let q = &mut self.cfs[queue.i()];
            let delta = charge(q, e, self.clock_task);
            let (stale, crowded) = (q.shares.load_unacc_exec_time > window, q.nr_running > 1);
            self.charged(cx, se, delta);
            if self.tracks_entities() {
                self.tick_load_avg(cx, queue, se);
            } else if stale {
                self.update_entity_shares(cx, queue);
            }
            if crowded {
                self.check_preempt_tick(cx, queue, se);
            }
            se = queue;
        }
    }

    /// Ends a slice that is used up, or that lets another wait too long (`check_preempt_tick`, 3.4).
    #[inline]
    fn check_preempt_tick<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, curr: Slot) {
        let sysctls = &cx.host.config().sysctls;
        let ideal = self.sched_slice(sysctls, queue, curr);
        let ran = self.ents[curr.i()].slice_used();
        if ran > ideal {
            self.resched_curr_cx(cx);
            self.clear_buddies(queue, curr);
            return;
        }
        if ran < sysctls.min_granularity.0 {
            return;
        }
        let Some((left, _)) = self.cfs[queue.i()].timeline.leftmost() else { return };
        let lead = self.ents[curr.i()].vruntime.since(left);
        if lead >= 0 && lead.unsigned_abs() > ideal {
            self.resched_curr_cx(cx);
        }
    }

    /// True for a task of policy `SCHED_IDLE`.
    #[inline]
    pub(crate) fn is_idle_policy(&self, se: Slot) -> bool {
        self.is_task(se) && self.task(se).policy == SchedPolicy::Idle
    }
}
