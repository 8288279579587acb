//! Moving queued tasks from one queue to another (`move_tasks`, `move_one_task`, `can_migrate_task`, `task_hot`, 3.4).
use super::CpuIdle;
use crate::entity::{SchedPolicy, Slot};
use crate::rq::Rq;
use crate::sched::Cx;
use crate::trace::Trace;

/// Tasks examined before the queues are released for a moment (`sched_nr_migrate_break`).
pub(super) const NR_MIGRATE_BREAK: u32 = 32;

/// One attempt to move load (`struct lb_env`).
#[derive(Debug)]
pub(super) struct LbEnv {
    pub(super) idle: CpuIdle,
    /// Load still to move.
    pub(super) load_move: i64,
    /// Tasks examined so far; the limit for a pause; the limit.
    pub(super) examined: u32,
    pub(super) pause_at: u32,
    pub(super) examine_max: u32,
    pub(super) all_pinned: bool,
    pub(super) need_break: bool,
    pub(super) nr_balance_failed: u32,
    pub(super) cache_nice_tries: u32,
    /// The CPU that gives is the one that acts: its stopper pushes. Else the one that takes acts.
    pub(super) pushed: bool,
}

impl Rq {
    /// True if the task's cache is likely still warm here.
    /// `this_running`: the CPU that acts has something to run (`this_rq()->nr_running`).
    fn task_hot<T>(&self, cx: &Cx<'_, T>, task: Slot, this_running: bool) -> bool {
        let config = cx.host.config();
        if self.task(task).policy == SchedPolicy::Idle {
            return false;
        }
        let e = &self.ents[task.i()];
        let b = &self.cfs[e.queue.i()].buddies;
        if config.features.cache_hot_buddy && this_running && (b.next == task || b.last == task) {
            return true;
        }
        match config.sysctls.migration_cost.0 {
            u64::MAX => true,
            cost => self.clock_task.0.saturating_sub(e.exec_start.0) < cost,
        }
    }

    /// True if the task may move to `to`: allowed there, not running, cold or balancing has failed too often.
    fn can_migrate_task<T>(&self, cx: &Cx<'_, T>, task: Slot, to: &Rq, env: &mut LbEnv) -> bool {
        if !self.task(task).affinity.contains(to.cpu) {
            return false;
        }
        env.all_pinned = false;
        let this_running = env.pushed || to.nr_running != 0;
        self.curr != task && (!self.task_hot(cx, task, this_running) || env.nr_balance_failed > env.cache_nice_tries)
    }

    /// Moves the first task that can be moved (`move_one_task`).
    pub(super) fn move_one_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>, to: &mut Rq, env: &mut LbEnv) -> bool {
        let mut task = self.runnable.head;
        while !task.is_nil() {
            if self.can_migrate_task(cx, task, to, env) {
                self.move_queued(cx, task, to);
                return true;
            }
            task = self.task(task).next;
        }
        false
    }

    /// Moves tasks until the load has moved or the limit of examined tasks is reached; returns how many moved
    /// (`move_tasks`).
    pub(super) fn move_tasks<T: Trace>(&mut self, cx: &mut Cx<'_, T>, to: &mut Rq, env: &mut LbEnv) -> u32 {
        let mut pulled = 0;
        if env.load_move <= 0 {
            return 0;
        }
        loop {
            let task = self.runnable.head;
            if task.is_nil() {
                break;
            }
            env.examined += 1;
            if env.examined > env.examine_max {
                break;
            }
            if env.examined > env.pause_at {
                env.pause_at += NR_MIGRATE_BREAK;
                env.need_break = true;
                break;
            }
            let load = self.task_h_load(task);
            let tiny = cx.host.config().features.lb_min && load < 16 && env.nr_balance_failed == 0;
            if tiny || load / 2 > env.load_move.unsigned_abs() || !self.can_migrate_task(cx, task, to, env) {
                self.runnable_rotate();
                continue;
            }
            self.move_queued(cx, task, to);
            pulled += 1;
            env.load_move -= load.cast_signed();
            if env.load_move <= 0 || cx.host.config().preempt && env.idle == CpuIdle::NewlyIdle {
                break;
            }
        }
        pulled
    }

    /// Puts the first of the runnable list last.
    fn runnable_rotate(&mut self) {
        let head = self.runnable.head;
        self.runnable_remove(head);
        let tail = self.runnable.tail;
        let task = self.task_mut(head);
        (task.prev, task.next) = (tail, Slot::NIL);
        if tail.is_nil() {
            self.runnable.head = head;
        } else {
            self.task_mut(tail).next = head;
        }
        self.runnable.tail = head;
    }
}
