//! Waking: from "the task should run" to "it is queued on a CPU" (`try_to_wake_up`, 3.4).
//!
//! Algorithm: claim the task where it last ran (state *waking*, vruntime made relative); choose a CPU, looking only at
//! published summaries and at one queue at a time; move the task there; queue it at once if that CPU shares a cache with
//! the waker's, else leave it on the target's wake list and send an IPI, whose receiver queues it.
//!
//! Property: a wake-up of a blocked task takes effect exactly once, whoever else wakes it meanwhile.
use std::sync::atomic::Ordering::Relaxed;

use crate::effects::Ipi;
use crate::entity::{Slot, TaskState};
use crate::fair::Enqueue;
use crate::host::Host;
use crate::ids::{Nanos, TaskId};
use crate::policy::Hooks;
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::{CpuId, CpuSet};
use crate::trace::Trace;

/// Who wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waker {
    /// The CPU on which the waker (a task, or an interrupt) runs.
    pub cpu: CpuId,
    /// The waker is about to block (`WF_SYNC`), so its own load is not counted against the target.
    pub sync: bool,
}

impl Waker {
    /// An ordinary wake-up from that CPU.
    #[must_use]
    pub fn on(cpu: CpuId) -> Self {
        Self { cpu, sync: false }
    }
}

/// What placement needs to know of a task.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) prev: CpuId,
    pub(crate) queue: Slot,
    pub(crate) weight: u64,
    pub(crate) affinity: CpuSet,
}

enum Claim {
    Nothing,
    /// It had not left the queue yet.
    StillQueued(CpuId),
    Taken(Placed),
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Wakes a task that blocks and returns the CPU it will run on; `None` if it is not blocked (`try_to_wake_up`, 3.4).
    pub fn wake(&mut self, task: TaskId, waker: Waker) -> Option<CpuId> {
        let (_, claim) = self.with_task(task, |rq, slot, cx| rq.claim(cx, slot))?;
        let placed = match claim {
            Claim::Nothing => return None,
            Claim::StillQueued(cpu) => return Some(cpu),
            Claim::Taken(placed) => placed,
        };
        let target = self.select_task_rq_wake(&placed, waker);
        self.ttwu_queue(task, &placed, target, waker);
        Some(target)
    }

    /// Moves a claimed task to the target and queues it (`set_task_cpu`, `ttwu_queue`, 3.4).
    fn ttwu_queue(&mut self, task: TaskId, placed: &Placed, target: CpuId, waker: Waker) {
        let (host, prev) = (self.cx.host, placed.prev);
        let allowed = placed.affinity.contains(target);
        let remote = host.config().features.ttwu_queue && !host.domains().cpus_share_cache(waker.cpu, target);
        let local = waker.cpu == target;
        let cx = &mut self.cx;
        let finish = |rq: &mut Rq, slot: Slot, cx: &mut Cx<'_, T>| {
            rq.stats.ttwu_count += 1;
            rq.stats.ttwu_local += u64::from(local);
            rq.task_mut(slot).stats.nr_wakeups += 1;
            if !allowed {
                rq.widen_affinity(host, slot);
            }
            if remote {
                rq.ttwu_queue_remote(cx, slot);
            } else {
                rq.ttwu_do_activate(cx, slot);
            }
        };
        let slot_on = |rq: &Rq| rq.slot_of(host, task);
        if prev == target {
            self.rqs.with(prev, |rq| {
                if let Some(slot) = slot_on(rq) {
                    finish(rq, slot, cx);
                }
            });
        } else {
            self.rqs.with_two(prev, target, |from, to| {
                if let Some(slot) = slot_on(from) {
                    let slot = from.hand_over(cx, slot, to);
                    finish(to, slot, cx);
                }
            });
        }
    }

    /// An IPI has arrived at the CPU: does what it asks for (`scheduler_ipi`, 3.4; policies for the rest).
    pub fn ipi_received(&mut self, cpu: CpuId, ipi: Ipi) {
        let cx = &mut self.cx;
        self.rqs.with(cpu, |rq| match ipi {
            Ipi::Wakeup => rq.sched_ttwu_pending(cx),
            Ipi::Gang { .. } => {
                if cx.host.hooked(Hooks::IPI_RECEIVED) {
                    cx.hooks(rq, |p, h| p.ipi_received(h, ipi));
                }
            }
        });
    }
}

impl Rq {
    /// The slot of a task, if it is in this queue.
    pub(crate) fn slot_of(&self, host: &Host, task: TaskId) -> Option<Slot> {
        host.tasks[task.index()].place().filter(|(cpu, _)| *cpu == self.cpu).map(|(_, slot)| slot)
    }

    /// Makes a blocked task *waking*, so that nobody else wakes it, and its vruntime relative (`task_waking_fair`, 3.4).
    fn claim<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) -> Claim {
        if self.task(slot).state != TaskState::Blocked {
            return Claim::Nothing;
        }
        if self.ents[slot.i()].on_rq {
            // ttwu_remote: it has said that it will block, but schedule has not taken it off.
            self.ttwu_do_wakeup(cx, slot);
            return Claim::StillQueued(self.cpu);
        }
        let still_here = self.curr == slot;
        let queue = self.ents[slot.i()].queue;
        let base = self.cfs[queue.i()].min_vruntime;
        let e = &mut self.ents[slot.i()];
        e.vruntime = e.vruntime.relative(base);
        self.task_mut(slot).state = TaskState::Waking;
        if still_here {
            // ttwu_activate_remote: its CPU is in the middle of schedule, looking for work; it may go on there.
            self.task_mut(slot).stats.nr_wakeups += 1;
            self.restart_clocks(cx.now, slot);
            self.ttwu_do_activate(cx, slot);
            return Claim::StillQueued(self.cpu);
        }
        Claim::Taken(self.placed(slot))
    }

    /// Charges the task, and the groups that left the queue with it, from now on: until now nobody ran.
    fn restart_clocks(&mut self, now: Nanos, task: Slot) {
        self.update_rq_clock(now);
        let mut se = task;
        while !se.is_nil() && !self.ents[se.i()].on_rq {
            let e = &mut self.ents[se.i()];
            e.exec_start = self.clock_task;
            se = e.queue;
        }
    }

    /// Gives a task that is on no timeline to another CPU's queue and returns its slot there (`set_task_cpu`).
    pub(crate) fn hand_over<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot, to: &mut Rq) -> Slot {
        if self.tracks_entities() {
            self.migrate_load_avg(slot);
        }
        let (mut task, entity) = self.remove_task(slot);
        task.stats.nr_migrations += 1;
        cx.trace.sched_migrate_task(cx.now, task.id, self.cpu, to.cpu);
        to.insert_task(cx.host, task, entity)
    }

    /// Lets a task run anywhere if none of its CPUs is on line any more (`select_fallback_rq`, `do_set_cpus_allowed`).
    pub(crate) fn widen_affinity(&mut self, host: &Host, slot: Slot) {
        let task = self.task_mut(slot);
        if !task.affinity.intersects(host.online()) {
            task.affinity = host.all_cpus();
        }
    }

    /// Leaves a waking task for the IPI (`ttwu_queue_remote`).
    fn ttwu_queue_remote<T>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        self.wake_list.push(slot);
        self.publish_wake_list(cx.host);
        if self.wake_list.len() == 1 {
            cx.fx.ipis.push((self.cpu, Ipi::Wakeup));
        }
    }

    pub(crate) fn publish_wake_list(&self, host: &Host) {
        host.cpu(self.cpu).wake_pending.store(u32::try_from(self.wake_list.len()).unwrap_or(u32::MAX), Relaxed);
    }

    /// Queues the tasks of the wake list, the last comer first, as the kernel's lock-less list gives them
    /// (`sched_ttwu_pending`).
    pub(crate) fn sched_ttwu_pending<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        let mut list = std::mem::take(&mut self.wake_list);
        self.publish_wake_list(cx.host);
        for &slot in list.iter().rev() {
            if slot == Slot::STOPPER {
                self.stopper_activate(cx);
            } else {
                self.ttwu_do_activate(cx, slot);
                self.leave_if_not_allowed(cx, slot);
            }
        }
        list.clear();
        self.wake_list = list;
    }

    /// Wakes the stopper from a CPU (`wake_up_process(stopper)`), which goes the way of every wake-up.
    pub(crate) fn wake_stopper<T: Trace>(&mut self, cx: &mut Cx<'_, T>, from: CpuId) {
        if !self.stopper_claim() {
            return;
        }
        let host = cx.host;
        if host.config().features.ttwu_queue && !host.domains().cpus_share_cache(from, self.cpu) {
            self.ttwu_queue_remote(cx, Slot::STOPPER);
        } else {
            self.stopper_activate(cx);
        }
    }

    /// Queues a waking task (`ttwu_do_activate`).
    fn ttwu_do_activate<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        self.enqueue_task(cx, slot, Enqueue::Waking);
        self.ttwu_do_wakeup(cx, slot);
    }

    /// Lets it preempt, and learns how long this CPU was idle (`ttwu_do_wakeup`).
    fn ttwu_do_wakeup<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        let id = self.task(slot).id;
        cx.trace.sched_wakeup(cx.now, id, self.cpu);
        self.check_preempt_curr(cx, slot, false);
        self.task_mut(slot).state = TaskState::Running;
        self.idle_ended(cx.host);
        if cx.host.hooked(Hooks::WOKEN) {
            cx.hooks(self, |p, h| p.woken(h, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::BuildOptions;
    use crate::trace::Running;
    use crate::{Birth, Config, Effects, Limits, TaskSpec};

    #[test]
    fn a_wake_up_in_the_middle_of_schedule_finds_the_task_where_it_is() {
        let start = Nanos(1_000_000_000);
        let config = Config::for_cpus(2);
        let machine = "1s:2c".parse().expect("machine");
        let host = Host::new(config, machine, BuildOptions::default(), Limits { tasks: 1, groups: 1 }).expect("host");
        let (mut rqs, mut fx, cpu) = (host.run_queues(), Effects::default(), CpuId(0));
        let spec = TaskSpec { cpu, birth: Birth::Boot, ..TaskSpec::default() };
        let task = host.at(start, &mut rqs, &mut fx).task_add(&spec).expect("room");
        host.at(start, &mut rqs, &mut fx).schedule(cpu);

        // It runs for 1 ms and blocks; while its CPU looks for work elsewhere, 30 us pass and CPU 1 wakes it.
        let mut at = host.at(start + Nanos(1_000_000), &mut rqs, &mut fx);
        at.block_current(cpu);
        assert!(at.rqs[0].schedule_out(&mut at.cx), "nothing is left to run");
        let mut at = host.at(start + Nanos(1_030_000), &mut rqs, &mut fx);
        assert_eq!(at.wake(task, Waker::on(CpuId(1))), Some(cpu));
        assert_eq!(at.rqs[0].schedule_in(&mut at.cx), Running::Task(task));

        host.at(start + Nanos(2_000_000), &mut rqs, &mut fx).sync(cpu);
        host.check(&rqs).expect("the books are in order");
        let info = rqs[0].task_info(&host, task).expect("it is here");
        assert_eq!((info.sum_exec_runtime.0, rqs[0].stats().idle.0), (1_970_000, 30_000));
    }
}
