//! Who updates the averages when, and what a queue and a group make of them (3.8 to 4.2; read in 3.16 and 3.18).
//!
//! ```text
//!   enqueue   the entity's contribution leaves the blocked load (if it slept here) and joins the runnable load
//!   dequeue   it leaves the runnable load; a sleeper's joins the blocked load
//!   tick, put_prev   the entity's sum is brought up to date; at a period's end its contribution, too
//!   balance   every group queue is brought up to date, children first
//! ```
//! A sleeper is not touched. Its queue counts in `decay_counter` how often it has decayed its blocked load; a sleeper that
//! wakes compares that with the count it fell asleep at, and knows its own decay. One that wakes *elsewhere* takes the
//! difference along, and its contribution goes to `removed_load`, to be taken off when the old queue is next updated.
//!
//! A group's entity weighs in its parent's load what the group's contribution here is of its contributions everywhere,
//! times its shares; less if the whole group was runnable for less than all time.
//!
//! Beside these averages the plain weights stay: slices, shares ([`crate::shares`]) and `effective_load` use them. The
//! kernel's own flaw stays, too: a wake-up within the period of the sleep leaves `decay_count` set.
use std::sync::atomic::Ordering::Relaxed;

use super::{SchedAvg, decay_load};
use crate::entity::Slot;
use crate::fair::{Dequeue, Enqueue};
use crate::rq::Rq;
use crate::sched::Cx;
use crate::trace::Trace;
use crate::weight::NICE_0_LOAD;

/// The averages of one group's queue and of its entity (`struct cfs_rq`, `tg->se[cpu]->avg`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueAvg {
    /// The average of the group's entity here.
    entity: SchedAvg,
    /// Contributions of the queued entities.
    runnable_load_avg: u64,
    /// Contributions of those that sleep, decayed.
    blocked_load_avg: u64,
    /// Contributions of sleepers that were woken elsewhere.
    removed_load: u64,
    /// Times that the blocked load has decayed, +1.
    decay_counter: u64,
    /// Period (2^20 ns) up to which it has.
    last_decay: u64,
    /// What this queue has added to the group's runnable time.
    tg_runnable_contrib: i64,
}

impl QueueAvg {
    /// An empty queue (`init_cfs_rq`).
    pub(crate) fn new() -> Self {
        Self {
            entity: SchedAvg::default(),
            runnable_load_avg: 0,
            blocked_load_avg: 0,
            removed_load: 0,
            decay_counter: 1,
            last_decay: 0,
            tg_runnable_contrib: 0,
        }
    }

    fn subtract_blocked(&mut self, load: u64) {
        self.blocked_load_avg = self.blocked_load_avg.saturating_sub(load);
    }
}

impl Rq {
    /// True if entities are tracked one by one ([`crate::config::LoadTracking`]).
    #[inline]
    pub(crate) fn tracks_entities(&self) -> bool {
        !self.queue_avgs.is_empty()
    }

    /// Load of what is queued there: of the root queue, `weighted_cpuload`.
    #[inline]
    pub(crate) fn runnable_load(&self, queue: Slot) -> u64 {
        self.queue_avgs.get(queue.i()).map_or(self.cfs[queue.i()].load.weight, |q| q.runnable_load_avg)
    }

    /// The entity's part of it.
    #[inline]
    pub(crate) fn entity_load(&self, se: Slot) -> u64 {
        if self.tracks_entities() { self.avg(se).load_avg_contrib } else { self.ents[se.i()].load.weight }
    }

    fn avg(&self, se: Slot) -> &SchedAvg {
        if self.is_task(se) { &self.task(se).avg } else { &self.queue_avgs[se.i()].entity }
    }

    fn avg_mut(&mut self, se: Slot) -> &mut SchedAvg {
        if self.is_task(se) { &mut self.task_mut(se).avg } else { &mut self.queue_avgs[se.i()].entity }
    }

    /// A forked task counts as runnable for its first slice (`init_task_runnable_average`), any other as asleep up to now.
    pub(crate) fn init_task_load_avg<T>(&mut self, cx: &Cx<'_, T>, task: Slot, forked: bool) {
        if !forked {
            self.task_mut(task).avg = SchedAvg::rested();
            return;
        }
        let e = &self.ents[task.i()];
        let (queue, weight) = (e.queue, e.load.weight);
        let slice = self.sched_slice(&cx.host.config().sysctls, queue, task);
        self.task_mut(task).avg = SchedAvg::new_task(slice, weight);
    }

    /// Brings an entity up to date; `count` carries a changed contribution over to its queue (`update_entity_load_avg`).
    pub(crate) fn update_entity_load_avg<T: Trace>(&mut self, cx: &mut Cx<'_, T>, se: Slot, count: bool) {
        let now = self.clock_task.0;
        let e = &self.ents[se.i()];
        let (queue, on_rq, weight) = (e.queue, e.on_rq, e.load.weight);
        if !self.avg_mut(se).update(now, on_rq) {
            return;
        }
        let old = self.avg(se).load_avg_contrib;
        let new = if self.is_task(se) { self.avg(se).of_weight(weight) } else { self.group_contrib(cx, se) };
        self.avg_mut(se).load_avg_contrib = new;
        if !count {
            return;
        }
        let q = &mut self.queue_avgs[queue.i()];
        if on_rq {
            q.runnable_load_avg = (q.runnable_load_avg + new).wrapping_sub(old);
            self.publish_root_load(cx, queue);
        } else {
            q.blocked_load_avg = (q.blocked_load_avg + new).saturating_sub(old);
        }
    }

    /// What a group weighs in its parent's queue here (`__update_tg_runnable_avg`, `__update_group_entity_contrib`).
    fn group_contrib<T>(&mut self, cx: &Cx<'_, T>, group: Slot) -> u64 {
        let tg = &cx.host.groups[group.i()];
        let q = &mut self.queue_avgs[group.i()];
        let runnable = q.entity.of_weight(NICE_0_LOAD).cast_signed();
        let change = runnable - q.tg_runnable_contrib;
        if change.abs() > q.tg_runnable_contrib / 64 {
            tg.runnable_avg.fetch_add(change, Relaxed);
            q.tg_runnable_contrib = runnable;
        }
        let everywhere = tg.load_weight.load(Relaxed).cast_unsigned() + 1;
        let contrib = self.cfs[group.i()].shares.load_contribution * tg.shares.load(Relaxed) / everywhere;
        let lately = tg.runnable_avg.load(Relaxed).cast_unsigned();
        if lately < NICE_0_LOAD { contrib * lately / NICE_0_LOAD } else { contrib }
    }

    /// Lets the blocked load decay, and the group know of what has changed by more than an eighth, or at all if `force`
    /// (`update_cfs_rq_blocked_load`, `__update_cfs_rq_tg_load_contrib`).
    fn update_blocked_load<T>(&mut self, cx: &Cx<'_, T>, queue: Slot, force: bool) {
        let period = self.clock_task.0 >> 20;
        let q = &mut self.queue_avgs[queue.i()];
        let decays = period - q.last_decay;
        if decays == 0 && !force {
            return;
        }
        let removed = std::mem::take(&mut q.removed_load);
        q.subtract_blocked(removed);
        q.blocked_load_avg = decay_load(q.blocked_load_avg, decays);
        q.decay_counter += decays;
        q.last_decay = period;
        let contrib = &mut self.cfs[queue.i()].shares.load_contribution;
        let change = (q.runnable_load_avg + q.blocked_load_avg).cast_signed() - contrib.cast_signed();
        if force || change.unsigned_abs() > *contrib / 8 {
            cx.host.groups[queue.i()].load_weight.fetch_add(change, Relaxed);
            *contrib = contrib.wrapping_add_signed(change);
        }
    }

    /// Decays a sleeper's contribution by what its queue has decayed since; returns how often (`__synchronize_entity_decay`).
    fn synchronize_decay(&mut self, se: Slot) -> u64 {
        let counter = self.queue_avgs[self.ents[se.i()].queue.i()].decay_counter;
        let avg = self.avg_mut(se);
        let decays = counter.wrapping_sub(avg.decay_count.cast_unsigned());
        if decays != 0 {
            avg.load_avg_contrib = decay_load(avg.load_avg_contrib, decays);
            avg.decay_count = 0;
        }
        decays
    }

    /// The entity joins the queue: call it before its weight is added (`enqueue_entity_load_avg`).
    pub(crate) fn enqueue_load_avg<T: Trace>(&mut self, cx: &mut Cx<'_, T>, se: Slot, how: Enqueue) {
        let queue = self.ents[se.i()].queue;
        let now = self.clock_task.0;
        let mut woken = how != Enqueue::Move;
        let avg = self.avg_mut(se);
        if avg.decay_count <= 0 {
            let slept = avg.decay_count.unsigned_abs();
            avg.decay_count = 0;
            avg.last_runnable_update = now.saturating_sub(slept << 20);
            if slept != 0 {
                self.update_entity_load_avg(cx, se, false);
            }
            woken = false;
        } else {
            self.synchronize_decay(se);
        }
        if woken {
            let contrib = self.avg(se).load_avg_contrib;
            self.queue_avgs[queue.i()].subtract_blocked(contrib);
            self.update_entity_load_avg(cx, se, false);
        }
        let contrib = self.avg(se).load_avg_contrib;
        self.queue_avgs[queue.i()].runnable_load_avg += contrib;
        self.publish_root_load(cx, queue);
        self.update_blocked_load(cx, queue, !woken);
    }

    /// The entity leaves the queue: call it while it still counts as queued (`dequeue_entity_load_avg`).
    pub(crate) fn dequeue_load_avg<T: Trace>(&mut self, cx: &mut Cx<'_, T>, se: Slot, how: Dequeue) {
        let queue = self.ents[se.i()].queue;
        let sleeps = how == Dequeue::Sleep;
        self.update_entity_load_avg(cx, se, true);
        self.update_blocked_load(cx, queue, !sleeps);
        let contrib = self.avg(se).load_avg_contrib;
        let q = &mut self.queue_avgs[queue.i()];
        q.runnable_load_avg = q.runnable_load_avg.wrapping_sub(contrib);
        if sleeps {
            q.blocked_load_avg += contrib;
            self.avg_mut(se).decay_count = q.decay_counter.cast_signed();
        }
        self.publish_root_load(cx, queue);
    }

    /// The tick of a running entity (`entity_tick`).
    pub(crate) fn tick_load_avg<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot, se: Slot) {
        self.update_entity_load_avg(cx, se, true);
        self.update_blocked_load(cx, queue, true);
        self.update_cfs_shares(cx, queue);
    }

    /// A task leaves for another CPU: what it has slept through here goes with it (`migrate_task_rq_fair`).
    pub(crate) fn migrate_load_avg(&mut self, task: Slot) {
        if self.avg(task).decay_count == 0 {
            return;
        }
        let decays = self.synchronize_decay(task);
        let avg = self.avg_mut(task);
        avg.decay_count = -decays.cast_signed();
        let contrib = avg.load_avg_contrib;
        self.queue_avgs[self.ents[task.i()].queue.i()].removed_load += contrib;
    }

    /// A sleeping task has changed groups (`task_move_group_fair`).
    pub(crate) fn move_group_load_avg(&mut self, task: Slot) {
        let q = &mut self.queue_avgs[self.ents[task.i()].queue.i()];
        let counter = q.decay_counter.cast_signed();
        let avg = &mut self.tasks[task.i() - self.cfs.len()].avg;
        avg.decay_count = counter;
        q.blocked_load_avg += avg.load_avg_contrib;
    }

    /// Brings a group queue with load up to date, and takes it off the leaf list when nothing is left of it
    /// (`__update_blocked_averages_cpu`).
    pub(crate) fn update_blocked_average<T: Trace>(&mut self, cx: &mut Cx<'_, T>, queue: Slot) {
        self.update_blocked_load(cx, queue, true);
        if queue.is_nil() {
            return;
        }
        self.update_entity_load_avg(cx, queue, true);
        if self.queue_avgs[queue.i()].entity.runnable_avg_sum == 0 && self.cfs[queue.i()].nr_running == 0 {
            self.leaf_remove(queue);
        }
    }

    fn publish_root_load<T>(&self, cx: &Cx<'_, T>, queue: Slot) {
        if queue.is_nil() {
            self.publish_load(cx.host);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::LoadTracking;
    use crate::testing::{Engine, GroupSpec, Scenario, Step, TaskPlan};
    use crate::topology::CpuId;
    use crate::trace::NoTrace;

    const MS: u64 = 1_000_000;

    /// Load of each CPU after 1 s, and sum of each group's contributions.
    fn loads(scenario: &Scenario) -> (Vec<u64>, Vec<i64>) {
        let mut host = scenario.host().expect("host");
        host.config_mut().switches.load_tracking = LoadTracking::PerEntity;
        let mut engine = Engine::new(scenario, host, NoTrace).expect("engine");
        engine.run_until(1000 * MS).expect("run");
        engine.host().check(engine.rqs()).expect("the books are in order");
        let host = engine.host();
        let cpus = host.cpu_numbers().map(|cpu: CpuId| host.load(cpu)).collect();
        (cpus, host.groups.iter().skip(1).map(|g| g.load_weight.load(super::Relaxed)).collect())
    }

    fn on(machine: &str, tasks: Vec<TaskPlan>) -> Scenario {
        let mut s = Scenario::on(machine, 2000 * MS);
        s.groups = vec![GroupSpec { parent: None, shares: 1024 }];
        s.tasks = tasks;
        s
    }

    /// A task that runs for 5 of 10 ms is at 1024 / (1 + y^5) = 540 when it stops running, with y^5 = 0.897, and at the rest,
    /// 484, when it starts again.
    const HALF: std::ops::RangeInclusive<u64> = 484..=540;

    #[test]
    fn a_hog_weighs_its_weight_and_a_task_that_sleeps_half_of_the_time_half() {
        let half = TaskPlan::repeat([Step::Sleep(5 * MS), Step::Run(5 * MS + 1)]);
        let (cpus, _) = loads(&on("2s:1c", vec![TaskPlan::hog().pinned(0), half.pinned(1)]));
        assert_eq!(cpus[0], 1023);
        assert!(HALF.contains(&cpus[1]), "{cpus:?}");
    }

    #[test]
    fn a_sleeper_has_left_its_cpu_and_still_counts_in_its_group() {
        let half = TaskPlan::repeat([Step::Run(5 * MS), Step::Sleep(5 * MS + 1)]);
        let (cpus, groups) = loads(&on("1s:1c", vec![half.in_group(0)]));
        assert_eq!(cpus, [0]);
        assert!(HALF.contains(&groups[0].unsigned_abs()), "{groups:?}");
    }

    #[test]
    fn a_groups_hogs_share_its_weight() {
        let hog = |cpu| TaskPlan::hog().in_group(0).pinned(cpu);
        let (cpus, groups) = loads(&on("4s:1c", (0..4).map(hog).collect()));
        assert!(cpus.iter().all(|load| load.abs_diff(256) <= 1), "{cpus:?}");
        assert_eq!(groups, [4 * 1023]);
    }

    #[test]
    fn one_task_of_a_group_that_sleeps_half_of_the_time_makes_the_group_half() {
        let half = TaskPlan::repeat([Step::Sleep(5 * MS), Step::Run(5 * MS + 1)]).in_group(0);
        let (cpus, _) = loads(&on("1s:1c", vec![half]));
        assert!(HALF.contains(&cpus[0]), "{cpus:?}");
    }
}
