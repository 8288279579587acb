//! What the scheduler tells an observer: the kernel's trace events, by their kernel names.
//!
//! Every method has an empty body, so an observer implements what it wants and the rest costs nothing: [`NoTrace`] is
//! compiled away. Times are instants of the common clock.
use crate::ids::{Nanos, TaskId, Vruntime};
use crate::topology::CpuId;

/// Who has a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Running {
    /// The idle thread.
    #[default]
    Idle,
    /// The stopper thread (`migration/N`): runs for 0 ns, to move a task that is running.
    Stopper,
    /// A task.
    Task(TaskId),
}

impl Running {
    /// The task, if it is one.
    #[must_use]
    pub fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(t) => Some(t),
            Self::Idle | Self::Stopper => None,
        }
    }
}

/// A sink for scheduling events (`include/trace/events/sched.h`, kernel 3.4).
#[allow(unused_variables, reason = "the default bodies ignore their arguments")]
pub trait Trace {
    /// False if every method does nothing: then the scheduler does not even prepare their arguments.
    const ENABLED: bool = true;

    /// `sched_switch`: `cpu` went from `prev` to `next`, whose vruntime is given if it is a task.
    #[inline]
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, prev: Running, next: Running, next_vruntime: Vruntime) {}
    /// `sched_wakeup`: a blocked task was queued on `target`.
    #[inline]
    fn sched_wakeup(&mut self, now: Nanos, task: TaskId, target: CpuId) {}
    /// `sched_wakeup_new`: a new task was queued on `target`.
    #[inline]
    fn sched_wakeup_new(&mut self, now: Nanos, task: TaskId, target: CpuId) {}
    /// `sched_migrate_task`: a task moved, by balance or by wake-up.
    #[inline]
    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {}
    /// `sched_stat_runtime`: a task was charged `runtime`.
    #[inline]
    fn sched_stat_runtime(&mut self, now: Nanos, task: TaskId, runtime: Nanos, vruntime: Vruntime) {}
    /// `sched_stat_wait`: a task waited so long to run.
    #[inline]
    fn sched_stat_wait(&mut self, now: Nanos, task: TaskId, wait: Nanos) {}
    /// `sched_process_exit`: a task is gone.
    #[inline]
    fn sched_process_exit(&mut self, now: Nanos, task: TaskId) {}
}

/// Discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    const ENABLED: bool = false;
}

impl<T: Trace> Trace for &mut T {
    const ENABLED: bool = T::ENABLED;

    #[inline]
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, prev: Running, next: Running, next_vruntime: Vruntime) {
        (**self).sched_switch(now, cpu, prev, next, next_vruntime);
    }
    #[inline]
    fn sched_wakeup(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        (**self).sched_wakeup(now, task, target);
    }
    #[inline]
    fn sched_wakeup_new(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        (**self).sched_wakeup_new(now, task, target);
    }
    #[inline]
    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {
        (**self).sched_migrate_task(now, task, from, to);
    }
    #[inline]
    fn sched_stat_runtime(&mut self, now: Nanos, task: TaskId, runtime: Nanos, vruntime: Vruntime) {
        (**self).sched_stat_runtime(now, task, runtime, vruntime);
    }
    #[inline]
    fn sched_stat_wait(&mut self, now: Nanos, task: TaskId, wait: Nanos) {
        (**self).sched_stat_wait(now, task, wait);
    }
    #[inline]
    fn sched_process_exit(&mut self, now: Nanos, task: TaskId) {
        (**self).sched_process_exit(now, task);
    }
}
