//! Buddies and wake-up preemption: who may go before the leftmost, and who may interrupt.
//!
//! Units: virtual nanoseconds. Problem: strict vruntime order ignores caches, producers and consumers, and what a lock
//! holder needs. Approach: four hints per queue ([`Buddies`](crate::cfs_rq::Buddies)), set along the whole path from a
//! task to the root, so that a hint for a task also leads into its groups. Three of them are honoured only while that
//! is not too unfair: [`Rq::wakeup_preempt_entity`] compares vruntimes with a granularity:
//!
//! ```text
//!   vruntime  ──►   s3      |--- g ---|
//!                      s2   |         c        s1
//!   result           1  ·  ·  0  ·  ·  ·  · -1        (c against s)
//! ```
//! Property: without a gang buddy, a pick leads the leftmost by at most one wake-up granularity (in virtual time).
use crate::config::Tunables;
use crate::entity::{SchedPolicy, Slot};
use crate::host::Host;
use crate::ids::{GroupId, TaskId};
use crate::rq::Rq;
use crate::sched::Cx;
use crate::trace::Trace;
use crate::weight::calc_delta_fair;

impl Rq {
    /// -1 if `se` does not stand before `curr`; 1 if it does by more than the granularity; 0 between
    /// (`wakeup_preempt_entity`, 3.4).
    #[inline]
    pub(crate) fn wakeup_preempt_entity(&mut self, granularity: u64, curr: Slot, se: Slot) -> i32 {
        let lead = self.ents[curr.i()].vruntime.since(self.ents[se.i()].vruntime);
        if lead <= 0 {
            return -1;
        }
        let gran = calc_delta_fair(granularity, &mut self.ents[se.i()].load);
        i32::from(lead.unsigned_abs() > gran)
    }

    /// Sets the `last` buddy up to the root (`set_last_buddy`).
    fn set_last_buddy(&mut self, se: Slot) {
        if !self.is_idle_policy(se) {
            self.up(se, |b, se| b.last = se);
        }
    }

    /// Sets the `next` buddy up to the root (`set_next_buddy`).
    pub(crate) fn set_next_buddy(&mut self, se: Slot) {
        if !self.is_idle_policy(se) {
            self.up(se, |b, se| b.next = se);
        }
    }

    /// Sets the `skip` buddy up to the root (`set_skip_buddy`).
    pub(crate) fn set_skip_buddy(&mut self, se: Slot) {
        self.up(se, |b, se| b.skip = se);
    }

    /// Makes a task the `next` buddy of this CPU, and the groups that it is in: the next pick prefers it if that is not too
    /// unfair (`set_next_buddy`). False if it is not queued here.
    pub fn set_next_buddy_task(&mut self, host: &Host, task: TaskId) -> bool {
        let queued = self.slot_of(host, task).filter(|se| self.ents[se.i()].on_rq);
        queued.inspect(|se| self.set_next_buddy(*se)).is_some()
    }

    /// Makes a group the `next` buddy of this CPU, up to the root: the next pick prefers it if that is not too unfair
    /// (`set_next_buddy(tg->se[cpu])`). False if the group has nothing to run here.
    pub fn set_next_buddy_group(&mut self, group: GroupId) -> bool {
        self.runnable_group(group).inspect(|se| self.set_next_buddy(*se)).is_some()
    }

    /// Makes a group the `gang` buddy of this CPU, up to the root: the next pick takes it whatever its vruntime
    /// (`set_gang_buddy`, the gang series of 2011). False if the group has nothing to run here.
    pub fn set_gang_buddy_group(&mut self, group: GroupId) -> bool {
        self.runnable_group(group).inspect(|se| self.set_gang_buddy(*se)).is_some()
    }

    /// Sets the `gang` buddy up to the root (`set_gang_buddy`).
    pub(crate) fn set_gang_buddy(&mut self, se: Slot) {
        if !self.is_idle_policy(se) {
            self.up(se, |b, se| b.gang = se);
        }
    }

    /// The group's entity here, if it is queued or running.
    fn runnable_group(&self, group: GroupId) -> Option<Slot> {
        let se = Slot(group.0);
        (group != GroupId::ROOT && self.ents.get(se.i()).is_some_and(|e| e.on_rq)).then_some(se)
    }

    #[inline]
    fn up(&mut self, mut se: Slot, set: impl Fn(&mut crate::cfs_rq::Buddies, Slot)) {
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            set(&mut self.cfs[queue.i()].buddies, se);
            se = queue;
        }
    }

    /// Clears every hint that names the entity, up to where it stops naming its parent (`clear_buddies`).
    #[inline]
    pub(crate) fn clear_buddies(&mut self, queue: Slot, se: Slot) {
        let b = self.cfs[queue.i()].buddies;
        if b.last == se {
            self.clear_up(se, |b| &mut b.last);
        }
        if b.next == se {
            self.clear_up(se, |b| &mut b.next);
        }
        if b.skip == se {
            self.clear_up(se, |b| &mut b.skip);
        }
        if b.gang == se {
            self.clear_up(se, |b| &mut b.gang);
        }
    }

    fn clear_up(&mut self, mut se: Slot, hint: impl Fn(&mut crate::cfs_rq::Buddies) -> &mut Slot) {
        while !se.is_nil() {
            let queue = self.ents[se.i()].queue;
            let hint = hint(&mut self.cfs[queue.i()].buddies);
            if *hint != se {
                break;
            }
            *hint = Slot::NIL;
            se = queue;
        }
    }

    /// Decides whether the task that just became runnable preempts the running one (`check_preempt_curr`,
    /// `check_preempt_wakeup`, 3.4).
    pub(crate) fn check_preempt_curr<T: Trace>(&mut self, cx: &mut Cx<'_, T>, task: Slot, fork: bool) {
        if self.curr.is_nil() {
            self.resched_curr_cx(cx);
            return;
        }
        if self.curr == Slot::STOPPER || self.curr == task {
            return;
        }
        let (sysctls, features) = (&cx.host.config().sysctls, cx.host.config().features);
        let (mut se, mut pse) = (self.curr, task);
        // 2.6.27 did not ask how many there are.
        let crowded = u64::from(self.cfs[self.ents[se.i()].queue.i()].nr_running) >= sysctls.nr_latency
            || cx.host.config().switches.tunables == Tunables::V2_6_27;
        let nominated = features.next_buddy && crowded && !fork;
        if nominated {
            self.set_next_buddy(pse);
        }
        if self.need_resched {
            return;
        }
        let (curr_policy, policy) = (self.task(se).policy, self.task(pse).policy);
        let preempts = if curr_policy == SchedPolicy::Idle && policy != SchedPolicy::Idle {
            true
        } else if policy == SchedPolicy::Normal {
            self.find_matching(&mut se, &mut pse);
            self.update_curr(cx, self.ents[se.i()].queue);
            let wins = self.wakeup_preempt_entity(sysctls.wakeup_granularity.0, se, pse) == 1;
            if wins && !nominated {
                self.set_next_buddy(pse);
            }
            wins
        } else {
            false
        };
        if !preempts {
            return;
        }
        self.resched_curr_cx(cx);
        if self.ents[se.i()].on_rq && features.last_buddy && crowded && self.is_task(se) {
            self.set_last_buddy(se);
        }
    }

    /// Walks both up to entities of one queue, which can be compared (`find_matching_se`).
    fn find_matching(&self, se: &mut Slot, pse: &mut Slot) {
        let depth = |mut s: Slot| {
            let mut n = 0_u32;
            while !s.is_nil() {
                s = self.ents[s.i()].queue;
                n += 1;
            }
            n
        };
        let parent = |s: &mut Slot| *s = self.ents[s.i()].queue;
        let (a, b) = (depth(*se), depth(*pse));
        (b..a).for_each(|_| parent(se));
        (a..b).for_each(|_| parent(pse));
        while self.ents[se.i()].queue != self.ents[pse.i()].queue {
            parent(se);
            parent(pse);
        }
    }
}
