//! One CPU's run queue as a value (`struct rq`).
//!
//! Units: nanoseconds, weights, jiffies where named. Glossary: the *runnable list* holds the CPU's runnable tasks of all
//! groups, newest first (`rq->cfs_tasks`); balancing walks it. The *leaf list* holds its group queues that have load,
//! children before parents; `update_shares` walks it.
//!
//! An `Rq` owns the tasks of its CPU: running, queued, and blocked ones that ran here last. Tasks move between queues by
//! value. Nothing in here is shared: the live engine puts each `Rq` behind a lock, the simulator holds them in a `Vec`.
//! Both give them out through [`RunQueues`].
//!
//! Property: runtime of the tasks + idle time + stolen time = elapsed time, to the nanosecond.
use crate::balance::{DomainStats, SdState};
use crate::cfs_rq::CfsRq;
use crate::config::LoadTracking;
use crate::entity::{Entity, Slot, Task, TaskState, TaskStats};
use crate::host::Host;
use crate::ids::{GroupId, Nanos, TaskId, Vruntime};
use crate::load_avg::QueueAvg;
use crate::sched::Cx;
use crate::slab::List;
use crate::stopper::{StopWork, Stopper};
use crate::topology::{CpuId, CpuSet};
use crate::trace::{Running, Trace};
use crate::weight::Nice;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// Gives out run queues. No operation asks for a queue while it holds one, except by `with_two`.
pub trait RunQueues {
    /// Runs `f` with the queue of `cpu`.
    fn with<R>(&mut self, cpu: CpuId, f: impl FnOnce(&mut Rq) -> R) -> R;

    /// Runs `f` with two different queues (`double_rq_lock`). Locks are taken in the order of the CPUs.
    fn with_two<R>(&mut self, a: CpuId, b: CpuId, f: impl FnOnce(&mut Rq, &mut Rq) -> R) -> R;
}

impl RunQueues for Vec<Rq> {
    #[inline]
    fn with<R>(&mut self, cpu: CpuId, f: impl FnOnce(&mut Rq) -> R) -> R {
        f(&mut self[cpu.index()])
    }

    /// # Panics
    /// If the two are the same.
    #[inline]
    fn with_two<R>(&mut self, a: CpuId, b: CpuId, f: impl FnOnce(&mut Rq, &mut Rq) -> R) -> R {
        let [x, y] = self.get_disjoint_mut([a.index(), b.index()]).expect("two different CPUs of this host");
        f(x, y)
    }
}

/// Counters of a CPU, as in `/proc/schedstat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RqStats {
    /// Context switches, those to idle and to the stopper included.
    pub nr_switches: u64,
    /// `schedule` left the CPU idle.
    pub sched_goidle: u64,
    /// `sched_yield` and successful `yield_to`.
    pub yld_count: u64,
    /// Wake-ups onto this CPU.
    pub ttwu_count: u64,
    /// Those from the same CPU.
    pub ttwu_local: u64,
    /// Time with the idle thread.
    pub idle: Nanos,
    /// Time charged to tasks.
    pub exec: Nanos,
    /// Time that the host took away (`account_steal`).
    pub steal: Nanos,
}

/// A run queue.
#[derive(Clone, Debug)]
pub struct Rq {
    pub(crate) cpu: CpuId,
    pub(crate) boot: Nanos,
    pub(crate) clock: Nanos,
    /// `clock` without stolen time.
    pub(crate) clock_task: Nanos,
    pub(crate) steal_pending: u64,
    pub(crate) curr: Slot,
    pub(crate) need_resched: bool,
    pub(crate) nr_running: u32,
    /// One queue per group, by group number.
    pub(crate) cfs: Vec<CfsRq>,
    /// The same queues' averages, if entities are tracked one by one; else empty.
    pub(crate) queue_avgs: Vec<QueueAvg>,
    /// Entities: one per group, then the tasks.
    pub(crate) ents: Vec<Entity>,
    /// The tasks, by slot - number of groups.
    pub(crate) tasks: Vec<Task>,
    /// Slots without a task.
    pub(crate) free: Vec<Slot>,
    pub(crate) runnable: List,
    pub(crate) leaves: List,
    /// Woken tasks that wait for the IPI, oldest first.
    pub(crate) wake_list: Vec<Slot>,
    pub(crate) stats: RqStats,
    pub(crate) stopper: Stopper,
    pub(crate) stop_work: VecDeque<StopWork>,
    /// Jiffy of the last update of the load history.
    pub(crate) last_load_update_tick: u64,
    /// The load to which all of the history has converged; `u64::MAX` while it has not.
    pub(crate) settled_load: u64,
    /// Since when the CPU has nothing to run; 0 if it has.
    pub(crate) idle_stamp: Nanos,
    /// How long it usually is idle (`avg_idle`).
    pub(crate) avg_idle: u64,
    /// The CPU was idle at its last tick (`idle_balance`).
    pub(crate) idle_at_tick: bool,
    /// A task is about to be pushed away (`active_balance`).
    pub(crate) active_balance: bool,
    /// Jiffy at which some domain is due (`next_balance`).
    pub(crate) next_balance: u64,
    /// This CPU's state of each of its domains.
    pub(crate) sd: Vec<SdState>,
    /// Number of the last pass that computed `h_load`.
    pub(crate) h_load_pass: u64,
}

impl Rq {
    /// The idle queue of a CPU.
    #[must_use]
    pub fn new(host: &Host, cpu: CpuId) -> Self {
        let groups = host.limits().groups as usize;
        let epoch = host.config().epoch;
        let tracked = if host.config().switches.load_tracking == LoadTracking::PerEntity { groups } else { 0 };
        host.cpu(cpu).curr_idle.store(true, Relaxed);
        Self {
            cpu,
            boot: epoch,
            clock: epoch,
            clock_task: epoch,
            steal_pending: 0,
            curr: Slot::NIL,
            need_resched: false,
            nr_running: 0,
            cfs: (0..groups).map(|_| CfsRq::new()).collect(),
            queue_avgs: vec![QueueAvg::new(); tracked],
            ents: (0..groups).map(|_| Entity::group(Slot::NIL)).collect(),
            tasks: Vec::new(),
            free: Vec::new(),
            runnable: List::default(),
            leaves: List::default(),
            wake_list: Vec::new(),
            stats: RqStats::default(),
            stopper: Stopper::Sleeping,
            stop_work: VecDeque::new(),
            last_load_update_tick: host.jiffies(),
            settled_load: 0,
            idle_stamp: Nanos(0),
            avg_idle: INITIAL_AVG_IDLE,
            idle_at_tick: false,
            active_balance: false,
            next_balance: host.jiffies(),
            sd: SdState::for_cpu(host, cpu),
            h_load_pass: 0,
        }
    }

    /// The CPU.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// True if `schedule` must be called.
    #[must_use]
    pub fn need_resched(&self) -> bool {
        self.need_resched
    }

    /// Who has the CPU.
    #[must_use]
    pub fn running(&self) -> Running {
        match self.curr {
            Slot::NIL => Running::Idle,
            Slot::STOPPER => Running::Stopper,
            slot => Running::Task(self.task(slot).id),
        }
    }

    /// The task that runs.
    #[must_use]
    pub fn current(&self) -> Option<TaskId> {
        self.running().task()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &RqStats {
        &self.stats
    }

    /// Balancing counters of this CPU's domains, the lowest first.
    pub fn domain_stats(&self) -> impl Iterator<Item = &DomainStats> {
        self.sd.iter().map(|sd| &sd.stats)
    }

    /// Tasks of the group, or of groups below it, that run or wait here.
    #[must_use]
    pub fn nr_running_in(&self, group: GroupId) -> u32 {
        self.cfs[group.index()].h_nr_running
    }

    /// The virtual clock of a group's queue (`cfs_rq->min_vruntime`).
    #[must_use]
    pub fn min_vruntime(&self, group: GroupId) -> Vruntime {
        self.cfs[group.index()].min_vruntime
    }

    /// What is known of the task in this queue; `None` if it is elsewhere.
    #[must_use]
    pub fn task_info(&self, host: &Host, task: TaskId) -> Option<TaskInfo> {
        let (_, slot) = host.tasks.get(task.index())?.place().filter(|(cpu, _)| *cpu == self.cpu)?;
        let (t, e) = (self.task(slot), &self.ents[slot.i()]);
        let mut stats = t.stats;
        if e.on_rq && self.curr != slot {
            stats.wait_sum += self.clock - t.wait_start;
        }
        Some(TaskInfo {
            state: t.state,
            running: self.curr == slot,
            on_rq: e.on_rq,
            vruntime: e.vruntime,
            sum_exec_runtime: e.sum_exec_runtime,
            weight: e.load.weight,
            nice: t.nice,
            affinity: t.affinity.clone(),
            stats,
        })
    }

    /// Brings the clocks to `now` (`update_rq_clock`, `update_rq_clock_task`).
    #[inline]
    pub(crate) fn update_rq_clock(&mut self, now: Nanos) {
        let delta = now.0.saturating_sub(self.clock.0);
        if delta == 0 {
            return;
        }
        self.clock.0 += delta;
        let mut steal = 0;
        if self.steal_pending != 0 {
            steal = self.steal_pending.min(delta);
            self.steal_pending -= steal;
            self.stats.steal.0 += steal;
        }
        self.clock_task.0 += delta - steal;
        if self.nobody_runs() {
            self.stats.idle.0 += delta - steal;
        }
    }

    /// True while time is charged to nobody: idle has the CPU, or `schedule` has taken its task off the queue and looks
    /// for work on other CPUs with the queue out of hand, or the stopper, which needs no time, is on its way.
    #[inline]
    fn nobody_runs(&self) -> bool {
        self.curr.is_nil() || self.curr == Slot::STOPPER || !self.ents[self.curr.i()].on_rq
    }

    /// Sets `need_resched` (`resched_task(rq->curr)`).
    #[inline]
    pub(crate) fn resched_curr_cx<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        self.resched_curr(cx.fx);
    }

    /// Sets `need_resched` and tells the engine, unless it is set already (`resched_task(rq->curr)`).
    #[inline]
    pub fn resched_curr(&mut self, fx: &mut crate::Effects) {
        if !self.need_resched {
            self.need_resched = true;
            fx.resched.push(self.cpu);
        }
    }

    /// Something was woken onto this CPU: averages how long it had been idle (`ttwu_do_wakeup`, 3.4).
    #[inline]
    pub(crate) fn idle_ended(&mut self, host: &Host) {
        if self.idle_stamp.0 == 0 {
            return;
        }
        let idle = self.clock.0 - self.idle_stamp.0;
        let max = host.config().sysctls.migration_cost.0.saturating_mul(2);
        self.avg_idle = if idle > max {
            max
        } else {
            let diff = idle.wrapping_sub(self.avg_idle).cast_signed();
            self.avg_idle.wrapping_add((diff >> 3).cast_unsigned())
        };
        self.idle_stamp = Nanos(0);
    }

    /// Changes `nr_running` and publishes it.
    #[inline]
    pub(crate) fn add_nr_running(&mut self, host: &Host, up: bool) {
        self.nr_running = if up { self.nr_running + 1 } else { self.nr_running - 1 };
        host.cpu(self.cpu).nr_running.store(self.nr_running, Relaxed);
    }

    /// Makes `slot` the current entity of the CPU and publishes it.
    #[inline]
    pub(crate) fn set_curr(&mut self, host: &Host, slot: Slot) -> Running {
        self.curr = slot;
        let running = self.running();
        let public = host.cpu(self.cpu);
        public.curr_idle.store(slot.is_nil(), Relaxed);
        public.curr_task.store(running.task().map_or(0, |t| t.0 + 1), Relaxed);
        running
    }

    /// Publishes the load of the root queue.
    #[inline]
    pub(crate) fn publish_load(&self, host: &Host) {
        host.cpu(self.cpu).load.store(self.runnable_load(Slot::NIL), Relaxed);
    }
}

/// `avg_idle` at boot: twice the migration cost that the kernel boots with (`sched_init`, 3.4).
const INITIAL_AVG_IDLE: u64 = 1_000_000;

/// A task as its queue sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// State.
    pub state: TaskState,
    /// It has the CPU.
    pub running: bool,
    /// It runs or waits to run.
    pub on_rq: bool,
    /// Virtual runtime; relative to no queue while it is being woken.
    pub vruntime: Vruntime,
    /// Time that it was charged (`se.sum_exec_runtime`), as of the last update of its queue's clock.
    pub sum_exec_runtime: Nanos,
    /// Load weight.
    pub weight: u64,
    /// Nice level.
    pub nice: Nice,
    /// CPUs that it may use.
    pub affinity: CpuSet,
    /// Counters.
    pub stats: TaskStats,
}
