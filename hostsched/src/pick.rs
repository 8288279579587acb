//! Choosing who runs: from the root queue down to a task, and back.
//!
//! Units: virtual nanoseconds; nanoseconds for waits. Algorithm: [`Rq::pick_next_entity`] takes the leftmost of a queue
//! unless a buddy may go first; [`Rq::set_next_entity`] takes it out of the timeline and makes it current; if it is a
//! group, the same again in the group's queue. `put_prev_task` undoes this bottom-up.
//!
//! Property: the current entity of a queue is never in its timeline.
use crate::cfs_rq::Buddies;
use crate::entity::Slot;
use crate::rq::Rq;
use crate::sched::Cx;
use crate::trace::Trace;

impl Rq {
    /// Chooses the next entity of a queue (`pick_next_entity`, 3.4, and the gang buddy above all).
    #[inline]
    fn pick_next_entity<T>(&mut self, cx: &Cx<'_, T>, queue: Slot) -> Slot {
        let q = &self.cfs[queue.i()];
        let left = q.timeline.leftmost().map_or(Slot::NIL, |(_, s)| s);
        let b = q.buddies;
        let mut se = left;
        if b != Buddies::default() {
            let second = q.timeline.second();
            let granularity = cx.host.config().sysctls.wakeup_granularity.0;
            if b.skip == left
                && let Some(second) = second
                && self.wakeup_preempt_entity(granularity, second, left) < 1
            {
                se = second;
            }
            if !b.last.is_nil() && self.wakeup_preempt_entity(granularity, b.last, left) < 1 {
                se = b.last;
            }
            if !b.next.is_nil() && self.wakeup_preempt_entity(granularity, b.next, left) < 1 {
                se = b.next;
            }
            if !b.gang.is_nil() {
                se = b.gang;
            }
            self.clear_buddies(queue, se);
        }
        se
    }

    /// Makes an entity current on its queue (`set_next_entity`, 3.4).
    #[inline]
    fn set_next_entity<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, se: Slot) {
        if self.ents[se.i()].on_rq {
            self.wait_end(cx, se);
            let key = self.ents[se.i()].vruntime;
            self.cfs[queue.i()].timeline.remove(key, se);
        }
        let e = &mut self.ents[se.i()];
        e.exec_start = self.clock_task;
        e.prev_sum_exec_runtime = e.sum_exec_runtime;
        self.cfs[queue.i()].curr = se;
    }

    /// Chooses the next task from the root down (`pick_next_task_fair`, 3.4); nil if none is runnable.
    #[inline]
    pub(crate) fn pick_next_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>) -> Slot {
        if self.cfs[0].nr_running == 0 {
            return Slot::NIL;
        }
        let mut queue = Slot::NIL;
        loop {
            let se = self.pick_next_entity(cx, queue);
            self.set_next_entity(cx, queue, se);
            if self.is_task(se) {
                return se;
            }
            queue = se;
        }
    }

    /// Puts the current task back, with its groups, bottom-up (`put_prev_task_fair`, `put_prev_entity`, 3.4).
    #[inline]
    pub(crate) fn put_prev_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>, task: Slot) {
        let mut se = task;
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            if self.ents[se.i()].on_rq {
                self.update_curr(cx, queue);
                self.wait_start(se);
                let key = self.ents[se.i()].vruntime;
                self.cfs[queue.i()].timeline.insert(key, se);
                if self.tracks_entities() {
                    self.update_entity_load_avg(cx, se, true);
                }
            }
            self.cfs[queue.i()].curr = Slot::NIL;
            se = queue;
        }
    }

    /// Makes a task current that was put back only to change it (`set_curr_task_fair`, 3.4).
    pub(crate) fn set_curr_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>, task: Slot) {
        let mut se = task;
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            self.set_next_entity(cx, queue, se);
            se = queue;
        }
    }

    /// Starts a wait (`update_stats_wait_start`).
    #[inline]
    pub(crate) fn wait_start(&mut self, se: Slot) {
        if self.is_task(se) {
            let clock = self.clock;
            self.task_mut(se).wait_start = clock;
        }
    }

    /// Ends a wait (`update_stats_wait_end`).
    #[inline]
    pub(crate) fn wait_end<T: Trace>(&mut self, cx: &mut Cx<'_, T>, se: Slot) {
        if self.is_task(se) {
            let clock = self.clock;
            let task = self.task_mut(se);
            let wait = clock - task.wait_start;
            task.stats.wait_sum += wait;
            task.stats.wait_max = task.stats.wait_max.max(wait);
            let id = task.id;
            cx.trace.sched_stat_wait(cx.now, id, wait);
        }
    }
}
