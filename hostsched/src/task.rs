//! Tasks come, change and go.
//!
//! A new task is placed as by `fork` (its vruntime follows that of whoever runs on the parent's CPU, plus a slice), or as
//! at boot (virtual time 0). Changes of weight take it off its queue and put it back; a change of affinity moves it when
//! it may not stay.
use std::sync::atomic::Ordering::Relaxed;

use crate::entity::{Entity, SchedPolicy, Slot, Task, TaskState, TaskStats};
use crate::fair::{Dequeue, Enqueue};
use crate::host::{Host, TaskShared};
use crate::ids::{GroupId, Nanos, TaskId, VmId, Vruntime};
use crate::load_avg::SchedAvg;
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::stopper::StopWork;
use crate::topology::{CpuId, CpuSet};
use crate::trace::Trace;
use crate::weight::Nice;

/// How a new task starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Birth {
    /// Forked by whatever runs on the CPU (`task_fork_fair`).
    #[default]
    Fork,
    /// As `Fork`, then moved to the idlest CPU (`SD_BALANCE_FORK`).
    ForkBalanced,
    /// Queued at virtual time 0 without debit, as before the host was busy; where load is tracked, it has none yet.
    Boot,
    /// As `Boot`, on the idlest CPU as seen from the given one.
    BootBalanced,
}

/// A task to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskSpec {
    /// The number that it shall have; `None` is the lowest that is free.
    pub id: Option<TaskId>,
    /// Its group.
    pub group: GroupId,
    /// The VM whose vCPU it is.
    pub vm: Option<VmId>,
    /// Nice level.
    pub nice: Nice,
    /// Scheduling policy.
    pub policy: SchedPolicy,
    /// CPUs that it may use; `None` is all.
    pub affinity: Option<CpuSet>,
    /// The CPU on which it starts, or from which a place is sought.
    pub cpu: CpuId,
    /// How it starts.
    pub birth: Birth,
    /// It starts blocked, as a thread that has yet to be let go, and runs when first woken.
    pub blocked: bool,
}

/// Why a task cannot be made or changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TaskError {
    /// The table is full.
    #[error("all {0} tasks of the host are in use: make the host with room for more")]
    Full(u32),
    /// The number asked for is in use, or beyond the table.
    #[error("task number {0} is not free on this host")]
    Taken(TaskId),
    /// No such group.
    #[error("there is no group {0}")]
    NoGroup(GroupId),
    /// No such task.
    #[error("there is no task {0}")]
    NoTask(TaskId),
    /// A VM number beyond the table.
    #[error("VM {0} is out of range: VM numbers are below the number of tasks that the host has room for")]
    NoVm(VmId),
    /// No CPU to run on.
    #[error("none of the CPUs {0} is on line")]
    NoCpu(CpuSet),
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Makes a task and queues it (`sched_fork`, `wake_up_new_task`, 3.4).
    ///
    /// # Errors
    /// No room, no such group or VM, no on-line CPU that it may use.
    pub fn task_add(&mut self, spec: &TaskSpec) -> Result<TaskId, TaskError> {
        let host = self.cx.host;
        let affinity = spec.affinity.clone().unwrap_or_else(|| host.all_cpus());
        if !affinity.intersects(host.online()) {
            return Err(TaskError::NoCpu(affinity));
        }
        if !host.groups.get(spec.group.index()).is_some_and(|g| g.live.load(Relaxed)) {
            return Err(TaskError::NoGroup(spec.group));
        }
        if let Some(vm) = spec.vm.filter(|vm| vm.index() >= host.vm_head.len()) {
            return Err(TaskError::NoVm(vm));
        }
        let id = match spec.id {
            None => host.claim_task().ok_or(TaskError::Full(host.limits().tasks))?,
            Some(id) if host.tasks.get(id.index()).is_some_and(TaskShared::claim) => id,
            Some(id) => return Err(TaskError::Taken(id)),
        };
        host.tasks[id.index()].group.store(spec.group.0, Relaxed);
        if let Some(vm) = spec.vm {
            host.join_vm(id, vm);
        }
        let parent =
            if host.online().contains(spec.cpu) { spec.cpu } else { self.select_fallback_rq(spec.cpu, &affinity) };
        let fork = matches!(spec.birth, Birth::Fork | Birth::ForkBalanced);
        let balanced = matches!(spec.birth, Birth::ForkBalanced | Birth::BootBalanced);
        let task = Task {
            id,
            state: if spec.blocked { TaskState::Blocked } else { TaskState::Running },
            policy: spec.policy,
            nice: spec.nice,
            affinity,
            wait_start: Nanos(0),
            stats: TaskStats::default(),
            avg: SchedAvg::default(),
            prev: Slot::NIL,
            next: Slot::NIL,
        };
        let entity = Entity::new(task.load(), Slot(spec.group.0));
        let cx = &mut self.cx;
        let placed = self.rqs.with(parent, |rq| {
            rq.update_rq_clock(cx.now);
            let slot = rq.insert_task(cx.host, task, entity);
            if fork {
                rq.task_fork(cx, slot);
            } else {
                let base = rq.cfs[spec.group.index()].min_vruntime;
                rq.ents[slot.i()].vruntime = Vruntime(0).relative(base);
            }
            rq.placed(slot)
        });
        let target = self.select_task_rq_fork(&placed, parent, balanced);
        let cx = &mut self.cx;
        if target != parent {
            self.rqs.with_two(parent, target, |from, to| {
                if let Some(slot) = from.slot_of(cx.host, id) {
                    let (task, entity) = from.remove_task(slot);
                    to.insert_task(cx.host, task, entity);
                }
            });
        }
        self.rqs.with(target, |rq| {
            let Some(slot) = rq.slot_of(cx.host, id) else { return };
            if rq.tracks_entities() {
                rq.init_task_load_avg(cx, slot, fork);
            }
            if spec.blocked {
                let base = rq.cfs[spec.group.index()].min_vruntime;
                rq.ents[slot.i()].vruntime = rq.ents[slot.i()].vruntime.absolute(base);
            } else {
                rq.enqueue_task(cx, slot, Enqueue::Move);
                cx.trace.sched_wakeup_new(cx.now, id, target);
                rq.check_preempt_curr(cx, slot, true);
            }
        });
        Ok(id)
    }

    /// Ends a task wherever it is. One that runs leaves at its CPU's next `schedule`.
    ///
    /// # Errors
    /// No such task.
    pub fn task_exit(&mut self, task: TaskId) -> Result<(), TaskError> {
        self.with_task(task, |rq, slot, cx| {
            if rq.curr == slot {
                rq.task_mut(slot).state = TaskState::Dead;
                rq.resched_curr_cx(cx);
                return;
            }
            if rq.ents[slot.i()].on_rq {
                rq.dequeue_task(cx, slot, Dequeue::Sleep);
            }
            rq.wake_list.retain(|s| *s != slot);
            rq.publish_wake_list(cx.host);
            rq.reap(cx, slot);
        })
        .map(|_| ())
        .ok_or(TaskError::NoTask(task))
    }

    /// Changes a task's nice level (`set_user_nice`, 3.4).
    ///
    /// # Errors
    /// No such task.
    pub fn task_set_nice(&mut self, task: TaskId, nice: Nice) -> Result<(), TaskError> {
        self.with_task(task, |rq, slot, cx| {
            let old = rq.task(slot).nice;
            if old == nice {
                return;
            }
            let on_rq = rq.ents[slot.i()].on_rq;
            if on_rq {
                rq.dequeue_task(cx, slot, Dequeue::Move);
            }
            rq.task_mut(slot).nice = nice;
            rq.ents[slot.i()].load = rq.task(slot).load();
            if on_rq {
                rq.enqueue_task(cx, slot, Enqueue::Move);
                if nice < old || (nice > old && rq.curr == slot) {
                    rq.resched_curr_cx(cx);
                }
            }
        })
        .map(|_| ())
        .ok_or(TaskError::NoTask(task))
    }

    /// Changes the CPUs that a task may use (`set_cpus_allowed_ptr`, 3.4). If it may not stay where it is queued or runs,
    /// the stopper of that CPU moves it to the first CPU of the set; a blocked task moves when it is woken.
    ///
    /// # Errors
    /// No such task; no CPU of the set on line.
    pub fn task_set_affinity(&mut self, task: TaskId, affinity: &CpuSet) -> Result<(), TaskError> {
        if !affinity.intersects(self.cx.host.online()) {
            return Err(TaskError::NoCpu(affinity.clone()));
        }
        self.with_task(task, |rq, slot, cx| {
            rq.task_mut(slot).affinity = affinity.clone();
            rq.leave_if_not_allowed(cx, slot);
        })
        .map(|_| ())
        .ok_or(TaskError::NoTask(task))
    }
}

impl Rq {
    /// If the task is runnable here and may not be, lets the stopper move it to the first CPU that it may use.
    pub(crate) fn leave_if_not_allowed<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        let (task, cpu) = (self.task(slot), self.cpu);
        if self.ents[slot.i()].on_rq
            && !task.affinity.contains(cpu)
            && let Some(to) = task.affinity.first_and(cx.host.online())
        {
            let work = StopWork::Migrate { task: task.id, to };
            self.stop_work.push_back(work);
            self.wake_stopper(cx, cpu);
        }
    }

    /// Chooses the first vruntime of a forked task, relative to the queue of whoever runs (`task_fork_fair`, 3.4).
    fn task_fork<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        let queue = if self.current().is_some() { self.ents[self.curr.i()].queue } else { Slot::NIL };
        self.update_curr(cx, queue);
        let curr = self.cfs[queue.i()].curr;
        if !curr.is_nil() {
            self.ents[slot.i()].vruntime = self.ents[curr.i()].vruntime;
        }
        self.place_entity(cx, queue, slot, true);
        if cx.host.config().sysctls.child_runs_first
            && !curr.is_nil()
            && self.ents[curr.i()].vruntime.before(self.ents[slot.i()].vruntime)
        {
            let (parent, child) = (self.ents[curr.i()].vruntime, self.ents[slot.i()].vruntime);
            (self.ents[curr.i()].vruntime, self.ents[slot.i()].vruntime) = (child, parent);
            self.resched_curr_cx(cx);
        }
        let base = self.cfs[queue.i()].min_vruntime;
        let e = &mut self.ents[slot.i()];
        e.vruntime = e.vruntime.relative(base);
    }
}

impl Host {
    /// Every CPU number of the machine (`cpu_possible_mask`).
    pub(crate) fn all_cpus(&self) -> CpuSet {
        self.cpu_numbers().collect()
    }

    /// Takes the lowest free task number.
    fn claim_task(&self) -> Option<TaskId> {
        self.tasks.iter().position(TaskShared::claim).map(TaskId::from_index)
    }

    /// Appends a task to the ring of its VM.
    fn join_vm(&self, task: TaskId, vm: VmId) {
        let shared = &self.tasks[task.index()];
        shared.vm.store(vm.0 + 1, Relaxed);
        let Some(head) = self.vm_head[vm.index()].load(Relaxed).checked_sub(1) else {
            shared.vm_next.store(task.0, Relaxed);
            self.vm_head[vm.index()].store(task.0 + 1, Relaxed);
            return;
        };
        let last = self.before_in_vm(TaskId(head));
        shared.vm_next.store(head, Relaxed);
        self.tasks[last.index()].vm_next.store(task.0, Relaxed);
    }

    /// The task before `task` in its VM's ring.
    fn before_in_vm(&self, task: TaskId) -> TaskId {
        let mut at = task;
        while self.next_of_vm(at) != task {
            at = self.next_of_vm(at);
        }
        at
    }

    /// Gives a dead task's number back and takes it out of its VM.
    pub(crate) fn forget_task(&self, task: TaskId) {
        if let Some(vm) = self.task_vm(task) {
            let (before, next) = (self.before_in_vm(task), self.next_of_vm(task));
            self.tasks[before.index()].vm_next.store(next.0, Relaxed);
            let head = &self.vm_head[vm.index()];
            if head.load(Relaxed) == task.0 + 1 {
                head.store(if next == task { 0 } else { next.0 + 1 }, Relaxed);
            }
            self.tasks[task.index()].vm.store(0, Relaxed);
        }
        self.tasks[task.index()].vacate();
    }
}
