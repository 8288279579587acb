//! The stopper thread of a CPU (`migration/N`, `stop_machine.c`, 3.4): it preempts everything, does its work in 0 ns and
//! sleeps. It is how a task that *runs* is moved: by the time the stopper runs, that task is merely queued.
//!
//! While it is awake it counts in `nr_running`, which active balancing relies on.
use crate::entity::Slot;
use crate::fair::{Dequeue, Enqueue};
use crate::host::Host;
use crate::ids::TaskId;
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::CpuId;
use crate::trace::Trace;

/// What the stopper is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopWork {
    /// Move this task to that CPU, if it may still not stay (`migration_cpu_stop`).
    Migrate { task: TaskId, to: CpuId },
    /// Push one task to `push_cpu` (`active_load_balance_cpu_stop`).
    ActiveBalance { push_cpu: CpuId },
}

/// State of the stopper thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stopper {
    #[default]
    Sleeping,
    /// On the wake list.
    Waking,
    Queued,
}

impl Rq {
    /// Takes the right to wake the stopper; false if somebody has.
    pub(crate) fn stopper_claim(&mut self) -> bool {
        let sleeping = self.stopper == Stopper::Sleeping;
        if sleeping {
            self.stopper = Stopper::Waking;
        }
        sleeping
    }

    #[inline]
    pub(crate) fn stopper_queued(&self) -> bool {
        self.stopper == Stopper::Queued
    }

    pub(crate) fn stopper_activate<T>(&mut self, cx: &mut Cx<'_, T>) {
        self.update_rq_clock(cx.now);
        self.stopper = Stopper::Queued;
        self.add_nr_running(cx.host, true);
        if self.curr != Slot::STOPPER {
            self.resched_curr(cx.fx);
        }
        self.idle_ended(cx.host);
    }

    pub(crate) fn stopper_sleeps(&mut self, host: &Host) {
        self.stopper = Stopper::Sleeping;
        self.add_nr_running(host, false);
    }
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// The stopper has the CPU: does all its work.
    pub(crate) fn run_stopper(&mut self, cpu: CpuId) {
        while let Some(work) = self.rqs.with(cpu, |rq| rq.stop_work.pop_front()) {
            match work {
                StopWork::Migrate { task, to } => self.migrate_task(cpu, task, to),
                StopWork::ActiveBalance { push_cpu } => self.active_load_balance(cpu, push_cpu),
            }
        }
    }

    /// Moves a queued task to another CPU if it is still where it was and not allowed there (`__migrate_task`, 3.4).
    pub(crate) fn migrate_task(&mut self, from: CpuId, task: TaskId, to: CpuId) {
        let cx = &mut self.cx;
        if from == to {
            return;
        }
        self.rqs.with_two(from, to, |src, dst| {
            let Some(slot) = src.slot_of(cx.host, task) else { return };
            let affinity = &src.task(slot).affinity;
            if src.ents[slot.i()].on_rq && affinity.contains(to) && !affinity.contains(from) {
                src.move_queued(cx, slot, dst);
            }
        });
    }
}

impl Rq {
    /// Moves a queued task that does not run to another CPU's queue (`move_task`, `__migrate_task`).
    pub(crate) fn move_queued<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot, to: &mut Rq) {
        self.dequeue_task(cx, slot, Dequeue::Move);
        let slot = self.hand_over(cx, slot, to);
        to.enqueue_task(cx, slot, Enqueue::Move);
        to.check_preempt_curr(cx, slot, false);
    }
}
