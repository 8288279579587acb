//! The tasks that a run queue owns: where they lie, and the list of those that are runnable.
//!
//! Problem: entities refer to each other by index, tasks come, go and move between CPUs, and nothing may allocate. Approach:
//! task slots follow the group slots in the table of entities; a freed slot is used again; the *runnable list*
//! (`rq->cfs_tasks`, newest first) is linked through the tasks themselves.
use crate::entity::{Entity, SchedPolicy, Slot, Task, TaskState, TaskStats};
use crate::host::Host;
use crate::ids::{Nanos, TaskId};
use crate::load_avg::SchedAvg;
use crate::rq::Rq;
use crate::topology::CpuSet;
use crate::weight::Nice;

/// Marks a slot without a task.
const VACANT: TaskId = TaskId(u32::MAX);

/// Ends of a doubly linked list of slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    pub(crate) head: Slot,
    pub(crate) tail: Slot,
}

impl Rq {
    #[inline]
    pub(crate) fn task_base(&self) -> usize {
        self.cfs.len()
    }

    #[inline]
    pub(crate) fn is_task(&self, slot: Slot) -> bool {
        slot.i() >= self.task_base()
    }

    #[inline]
    pub(crate) fn task(&self, slot: Slot) -> &Task {
        &self.tasks[slot.i() - self.cfs.len()]
    }

    #[inline]
    pub(crate) fn task_mut(&mut self, slot: Slot) -> &mut Task {
        let base = self.cfs.len();
        &mut self.tasks[slot.i() - base]
    }

    /// All slots that hold a task.
    pub(crate) fn task_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let base = self.task_base();
        let slot = move |i: usize| Slot(u32::try_from(base + i).unwrap_or(u32::MAX));
        self.tasks.iter().enumerate().filter(|(_, t)| t.id != VACANT).map(move |(i, _)| slot(i))
    }

    /// Takes a task in; its entity's `queue` is already set.
    pub(crate) fn insert_task(&mut self, host: &Host, task: Task, entity: Entity) -> Slot {
        let id = task.id;
        let slot = if let Some(slot) = self.free.pop() {
            *self.task_mut(slot) = task;
            self.ents[slot.i()] = entity;
            slot
        } else {
            self.tasks.push(task);
            self.ents.push(entity);
            Slot(u32::try_from(self.ents.len() - 1).unwrap_or(u32::MAX))
        };
        host.tasks[id.index()].set_place(self.cpu, slot);
        slot
    }

    /// Lets a task go that is neither queued nor running.
    pub(crate) fn remove_task(&mut self, slot: Slot) -> (Task, Entity) {
        debug_assert!(!self.ents[slot.i()].on_rq && self.curr != slot, "a task leaves only when it is off the queue");
        let gone = Task {
            id: VACANT,
            state: TaskState::Dead,
            policy: SchedPolicy::Normal,
            nice: Nice::default(),
            affinity: CpuSet::new(),
            wait_start: Nanos(0),
            stats: TaskStats::default(),
            avg: SchedAvg::default(),
            prev: Slot::NIL,
            next: Slot::NIL,
        };
        let task = std::mem::replace(self.task_mut(slot), gone);
        self.free.push(slot);
        (task, self.ents[slot.i()].clone())
    }

    /// Puts a task at the head of the runnable list.
    #[inline]
    pub(crate) fn runnable_push_front(&mut self, slot: Slot) {
        let head = self.runnable.head;
        let task = self.task_mut(slot);
        (task.prev, task.next) = (Slot::NIL, head);
        if head.is_nil() {
            self.runnable.tail = slot;
        } else {
            self.task_mut(head).prev = slot;
        }
        self.runnable.head = slot;
    }

    /// Takes a task out of the runnable list.
    #[inline]
    pub(crate) fn runnable_remove(&mut self, slot: Slot) {
        let Task { prev, next, .. } = *self.task(slot);
        if prev.is_nil() {
            self.runnable.head = next;
        } else {
            self.task_mut(prev).next = next;
        }
        if next.is_nil() {
            self.runnable.tail = prev;
        } else {
            self.task_mut(next).prev = prev;
        }
    }
}
