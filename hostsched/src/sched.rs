//! The scheduler at one instant: [`Sched`] bundles what every operation needs, so that the operations read
//! `host.at(now, &mut rqs, &mut fx).wake(task, waker)`.
//!
//! | operation | kernel | file |
//! |---|---|---|
//! | `schedule`, `tick`, `block_current`, `exit_current` | `__schedule`, `scheduler_tick` | `schedule.rs` |
//! | `wake`, `ipi_received` | `try_to_wake_up`, `scheduler_ipi` | `wake.rs` |
//! | `yield_current`, `yield_to`, `spin_detected` | `sched_yield`, `yield_to`, `kvm_vcpu_on_spin` | `yields.rs` |
//! | `task_add`, `task_exit`, `task_set_*` | `sched_fork`, `set_cpus_allowed_ptr`, `set_user_nice` | `task.rs` |
//! | `group_*` | `sched_create_group`, `sched_group_set_shares`, `sched_move_task` | `group.rs` |
use crate::effects::Effects;
use crate::host::Host;
use crate::ids::{Nanos, TaskId};
use crate::policy::Hooks;
use crate::rq::{Rq, RunQueues};
use crate::topology::CpuId;
use crate::trace::{NoTrace, Trace};

/// The scheduler at one instant. Made by [`Host::at`], used for one operation or for several at the same instant.
#[derive(Debug)]
pub struct Sched<'a, Q, T = NoTrace> {
    pub(crate) rqs: &'a mut Q,
    pub(crate) cx: Cx<'a, T>,
}

/// What an operation on one queue needs beside the queue.
#[derive(Debug)]
pub(crate) struct Cx<'a, T> {
    pub(crate) host: &'a Host,
    pub(crate) fx: &'a mut Effects,
    pub(crate) trace: T,
    pub(crate) now: Nanos,
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// True if `schedule` must be called on the CPU (`need_resched`).
    pub fn need_resched(&mut self, cpu: CpuId) -> bool {
        self.rqs.with(cpu, |rq| rq.need_resched())
    }

    /// The task that runs on the CPU.
    pub fn current(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.rqs.with(cpu, |rq| rq.current())
    }

    /// The host ran something else for `ns` on this CPU: that much of the time up to the next clock update is charged
    /// to nobody (steal time; `update_rq_clock_task`).
    pub fn account_steal(&mut self, cpu: CpuId, ns: Nanos) {
        self.rqs.with(cpu, |rq| rq.steal_pending += ns.0);
    }

    /// The task that runs on the CPU has entered or left guest mode. Only gang coverage looks at it, and only if its
    /// settings say that the engine tells ([`GangSettings`](crate::policy::GangSettings)). A task that loses the CPU leaves
    /// by itself.
    pub fn guest_mode(&mut self, cpu: CpuId, in_guest: bool) {
        let cx = &mut self.cx;
        if cx.host.hooked(Hooks::GUEST_MODE) {
            self.rqs.with(cpu, |rq| cx.hooks(rq, |p, h| p.guest_mode(h, in_guest)));
        }
    }

    /// Brings a CPU's clock and the runtime of its current task to now, and changes nothing else (`update_rq_clock`,
    /// `task_sched_runtime`).
    pub fn sync(&mut self, cpu: CpuId) {
        let cx = &mut self.cx;
        self.rqs.with(cpu, |rq| {
            rq.update_rq_clock(cx.now);
            rq.update_curr_all(cx);
        });
    }

    /// Runs `f` with the queue that holds the task, or returns `None` if there is no such task.
    pub(crate) fn with_task<R>(
        &mut self,
        task: TaskId,
        mut f: impl FnMut(&mut Rq, crate::entity::Slot, &mut Cx<'_, T>) -> R,
    ) -> Option<(CpuId, R)> {
        loop {
            let (cpu, _) = self.cx.host.tasks.get(task.index())?.place()?;
            let cx = &mut self.cx;
            // The task may have moved before the queue was in hand: look again there.
            let done = self.rqs.with(cpu, |rq| {
                let (here, slot) = cx.host.tasks[task.index()].place()?;
                (here == cpu).then(|| f(rq, slot, cx))
            });
            if let Some(r) = done {
                return Some((cpu, r));
            }
        }
    }
}
