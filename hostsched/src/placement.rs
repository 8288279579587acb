//! Where a task runs next: on wake-up and at fork.
use crate::entity::Slot;
use crate::rq::{Rq, RunQueues};
use crate::sched::Sched;
use crate::topology::{CpuId, CpuSet};
use crate::trace::Trace;
use crate::wake::{Placed, Waker};

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Chooses the CPU of a waking task.
    pub(crate) fn select_task_rq_wake(&mut self, task: &Placed, waker: Waker) -> CpuId {
        debug_assert!(self.cx.host.online().contains(waker.cpu) && !task.queue.is_nil() || task.weight != 0);
        self.allowed_or_fallback(task.prev, task)
    }

    /// Chooses the CPU of a new task.
    pub(crate) fn select_task_rq_fork(&mut self, task: &Placed, parent: CpuId, balanced: bool) -> CpuId {
        debug_assert!(balanced || task.prev == parent);
        self.allowed_or_fallback(parent, task)
    }

    fn allowed_or_fallback(&self, cpu: CpuId, task: &Placed) -> CpuId {
        if task.affinity.contains(cpu) && self.cx.host.online().contains(cpu) {
            cpu
        } else {
            self.select_fallback_rq(task.prev, &task.affinity)
        }
    }

    /// A CPU for a task that may not run where it should: one of its node, else any that it may use, else any
    /// (`select_fallback_rq`, 3.4).
    pub(crate) fn select_fallback_rq(&self, cpu: CpuId, affinity: &CpuSet) -> CpuId {
        let (machine, online) = (self.cx.host.machine(), self.cx.host.online());
        let node = |c: CpuId| machine.cpu(c).map(|c| c.node);
        let home = node(cpu);
        let near = online.iter_and(affinity).find(|c| node(*c) == home);
        near.or_else(|| affinity.first_and(online)).or_else(|| online.first()).unwrap_or(cpu)
    }
}

impl Rq {
    /// What placement needs to know of a task here.
    pub(crate) fn placed(&self, slot: Slot) -> Placed {
        let e = &self.ents[slot.i()];
        Placed { prev: self.cpu, queue: e.queue, weight: e.load.weight, affinity: self.task(slot).affinity.clone() }
    }
}
