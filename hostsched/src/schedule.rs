//! Switching: `schedule`, the tick, blocking.
//!
//! Units: nanoseconds. Algorithm of `schedule` (3.4, `__schedule`): a task that is no longer runnable leaves the queue; a
//! queue that runs empty tries to pull work (`idle_balance`, which holds no queue while it looks); the current task is
//! put back; the stopper, else CFS, else idle is picked.
//!
//! Property: after `schedule`, `need_resched` is clear unless what the stopper moved set it again.
use std::sync::atomic::Ordering::Relaxed;

use crate::entity::{Slot, TaskState};
use crate::fair::Dequeue;
use crate::host::{CPU_LOAD_IDX_MAX, Host};
use crate::ids::{TaskId, Vruntime};
use crate::policy::{HookCx, Hooks, Policy};
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::CpuId;
use crate::trace::{Running, Trace};

/// What `schedule` did: who had the CPU, who has it now. They are the same if it went on with the same task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Before; `None` is idle.
    pub prev: Option<TaskId>,
    /// Now; `None` is idle.
    pub next: Option<TaskId>,
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Picks who runs on the CPU from now on (`__schedule`, 3.4). Call it when `need_resched` is set, and after
    /// `block_current`, `exit_current`, `yield_current` and a successful `yield_to`.
    pub fn schedule(&mut self, cpu: CpuId) -> Switch {
        let prev = self.cx.host.current(cpu);
        loop {
            let cx = &mut self.cx;
            let picked = self.rqs.with(cpu, |rq| if rq.schedule_out(cx) { None } else { Some(rq.schedule_in(cx)) });
            let next = picked.unwrap_or_else(|| {
                self.idle_balance(cpu);
                let cx = &mut self.cx;
                self.rqs.with(cpu, |rq| rq.schedule_in(cx))
            });
            if next == Running::Stopper {
                self.run_stopper(cpu);
            } else {
                return Switch { prev, next: next.task() };
            }
        }
    }

    /// The periodic tick of a CPU (`scheduler_tick`, 3.4), then its load balancing if that is due.
    pub fn tick(&mut self, cpu: CpuId) {
        self.cx.host.advance_jiffies(self.cx.now);
        let cx = &mut self.cx;
        let due = self.rqs.with(cpu, |rq| rq.scheduler_tick(cx));
        if due {
            self.run_rebalance(cpu);
        }
    }

    /// The running task is about to block: `schedule` takes it off the queue, unless a wake-up comes first
    /// (`set_current_state(TASK_INTERRUPTIBLE)`). Does nothing on an idle CPU.
    pub fn block_current(&mut self, cpu: CpuId) {
        let cx = &mut self.cx;
        self.rqs.with(cpu, |rq| {
            if let Some(task) = rq.current() {
                let slot = rq.curr;
                rq.task_mut(slot).state = TaskState::Blocked;
                if cx.host.hooked(Hooks::BLOCKED) {
                    cx.hooks(rq, |p, h| p.blocked(h, task));
                }
            }
        });
    }

    /// The running task is at its end: `schedule` removes it (`do_exit`). Does nothing on an idle CPU.
    pub fn exit_current(&mut self, cpu: CpuId) {
        self.rqs.with(cpu, |rq| {
            if rq.current().is_some() {
                let slot = rq.curr;
                rq.task_mut(slot).state = TaskState::Dead;
            }
        });
    }
}

impl<T> Cx<'_, T> {
    /// Calls a hook of every policy with the queue in hand.
    pub(crate) fn hooks(&mut self, rq: &mut Rq, mut hook: impl FnMut(&dyn Policy, &mut HookCx<'_>)) {
        let host = self.host;
        for policy in host.policies() {
            hook(policy.as_ref(), &mut self.hook(rq));
        }
    }

    /// What a hook on that queue gets.
    pub(crate) fn hook<'a>(&'a mut self, rq: &'a mut Rq) -> HookCx<'a> {
        HookCx { host: self.host, rq, fx: self.fx, now: self.now }
    }
}

impl Rq {
    /// The first half of `__schedule`: takes the running task off the queue if it does not want to run on. True if
    /// nothing is left to run.
    #[inline]
    pub(crate) fn schedule_out<T: Trace>(&mut self, cx: &mut Cx<'_, T>) -> bool {
        self.update_rq_clock(cx.now);
        match self.curr {
            Slot::NIL => {}
            // Another CPU may have given it more to do.
            Slot::STOPPER if !self.stop_work.is_empty() => {}
            Slot::STOPPER => self.stopper_sleeps(cx.host),
            curr => {
                if self.task(curr).state != TaskState::Running {
                    self.dequeue_task(cx, curr, Dequeue::Sleep);
                }
            }
        }
        self.nr_running == 0
    }

    /// The second half: puts the running task back, picks and switches.
    #[inline]
    pub(crate) fn schedule_in<T: Trace>(&mut self, cx: &mut Cx<'_, T>) -> Running {
        let prev = self.curr;
        let mut prev_dead = None;
        if !prev.is_nil() && prev != Slot::STOPPER {
            self.put_prev_task(cx, prev);
            let task = self.task(prev);
            prev_dead = (task.state == TaskState::Dead).then_some(prev);
        }
        let next = if self.stopper_queued() { Slot::STOPPER } else { self.pick_next_task(cx) };
        self.need_resched = false;
        if next != prev {
            let prev_running = if T::ENABLED { self.running() } else { Running::Idle };
            self.stats.nr_switches += 1;
            self.stats.sched_goidle += u64::from(next.is_nil());
            let running = self.set_curr(cx.host, next);
            if let Running::Task(_) = running {
                self.task_mut(next).stats.switches_in += 1;
            }
            if T::ENABLED {
                let vruntime = self.ents.get(next.i()).map_or(Vruntime(0), |e| e.vruntime);
                cx.trace.sched_switch(cx.now, self.cpu, prev_running, running, vruntime);
            }
            if let Some(dead) = prev_dead {
                self.reap(cx, dead);
            }
        }
        let running = self.running();
        if running != Running::Stopper && cx.host.hooked(Hooks::AFTER_PICK) {
            cx.hooks(self, |p, h| p.after_pick(h, running.task()));
        }
        running
    }

    /// Removes a dead task (`finish_task_switch`, `put_task_struct`).
    pub(crate) fn reap<T: Trace>(&mut self, cx: &mut Cx<'_, T>, slot: Slot) {
        let (task, _) = self.remove_task(slot);
        cx.host.forget_task(task.id);
        cx.trace.sched_process_exit(cx.now, task.id);
    }

    /// `scheduler_tick` (3.4). True if load balancing is due.
    #[inline]
    fn scheduler_tick<T: Trace>(&mut self, cx: &mut Cx<'_, T>) -> bool {
        self.update_rq_clock(cx.now);
        let jiffies = cx.host.jiffies();
        self.update_cpu_load(cx.host, jiffies);
        if self.curr != Slot::STOPPER {
            self.task_tick(cx);
        }
        self.trigger_load_balance(jiffies)
    }

    /// Folds the load into its history (`update_cpu_load_active`, `__update_cpu_load`, 3.4): index i forgets with a time
    /// constant of 2^i ticks. Ticks that an idle CPU left out count as ticks without load.
    #[inline]
    fn update_cpu_load(&mut self, host: &Host, jiffies: u64) {
        let missed = (jiffies - self.last_load_update_tick).saturating_sub(1);
        self.last_load_update_tick = jiffies;
        let load = self.runnable_load(Slot::NIL);
        if load == self.settled_load && missed == 0 {
            return;
        }
        let history = &host.cpu(self.cpu).cpu_load;
        history[0].store(load, Relaxed);
        let mut settled = true;
        for (i, slot) in history.iter().enumerate().skip(1) {
            let mut old = slot.load(Relaxed);
            if missed != 0 {
                old = decay_load_missed(old, missed, i);
            }
            let scale = 1_u64 << i;
            let new = if load > old { load + scale - 1 } else { load };
            let value = (old * (scale - 1) + new) >> i;
            settled &= value == load;
            slot.store(value, Relaxed);
        }
        // From here on it only changes with the load.
        self.settled_load = if settled { load } else { u64::MAX };
    }
}

/// Ticks after which a load is forgotten, by index (`degrade_zero_ticks`, 3.4).
const DEGRADE_ZERO_TICKS: [u64; CPU_LOAD_IDX_MAX] = [0, 8, 32, 64, 128];
/// (1 - 2^-i)^(2^j) in 1/128, by index i and bit j (`degrade_factor`, 3.4).
const DEGRADE_FACTOR: [[u64; 8]; CPU_LOAD_IDX_MAX] = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [64, 32, 8, 0, 0, 0, 0, 0],
    [96, 72, 40, 12, 1, 0, 0, 0],
    [112, 98, 75, 43, 15, 1, 0, 0],
    [120, 112, 98, 76, 45, 16, 2, 0],
];

/// What is left of a load after ticks without load (`decay_load_missed`, 3.4).
fn decay_load_missed(load: u64, missed: u64, idx: usize) -> u64 {
    if missed >= DEGRADE_ZERO_TICKS[idx] {
        return 0;
    }
    let bits = DEGRADE_FACTOR[idx].iter().enumerate().filter(|(j, _)| missed >> j & 1 == 1);
    bits.fold(load, |load, (_, factor)| (load * factor) >> 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_without_load_decays_to_nothing() {
        for (idx, ticks) in DEGRADE_ZERO_TICKS.into_iter().enumerate().skip(1) {
            assert_eq!(decay_load_missed(1 << 20, 0, idx), 1 << 20);
            assert_eq!(decay_load_missed(1 << 20, ticks, idx), 0);
            assert!(decay_load_missed(1 << 20, 3, idx) < decay_load_missed(1 << 20, 2, idx));
        }
        // Index 2 after 8 ticks: 12 / 128.
        assert_eq!(decay_load_missed(1024, 8, 2), 96);
    }
}
