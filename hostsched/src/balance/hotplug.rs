//! CPUs go off line and come on line (`cpu_down`, `cpu_up`, `migration_call`, 3.4). Nothing else runs meanwhile: hence
//! `&mut Host`.
//!
//! Off line: domains without the CPU are built; what runs or waits there moves, in the order in which it would have run,
//! to the nearest CPU that it may use; blocked tasks stay and move when woken; policies elect their leaders again. The
//! granularities are scaled to the CPUs that are left.
use std::sync::atomic::Ordering::Relaxed;

use super::SdState;
use crate::effects::Effects;
use crate::entity::Slot;
use crate::host::Host;
use crate::ids::Nanos;
use crate::policy::Hooks;
use crate::rq::{Rq, RunQueues};
use crate::stopper::Stopper;
use crate::topology::{BrokenTopology, CpuId, CpuSet};
use crate::trace::{Running, Trace};

/// Why a CPU cannot change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HotplugError {
    /// It is off line, or not of this machine.
    #[error("CPU {0} is not on line")]
    NotOnline(CpuId),
    /// It is on line, or not of this machine.
    #[error("CPU {0} cannot come on line: it must be a CPU of the machine that is off line")]
    NotOffline(CpuId),
    /// The last CPU must stay.
    #[error("CPU {0} is the last one on line and must stay")]
    Last(CpuId),
    /// The domains of the remaining CPUs are refused.
    #[error(transparent)]
    Topology(#[from] BrokenTopology),
}

impl Host {
    /// Takes a CPU off line at the instant `now`. Its current task, if any, is on another CPU's queue afterwards: the
    /// engine must stop it.
    ///
    /// # Errors
    /// A CPU that is not on line, the last CPU, domains that cannot be built.
    pub fn cpu_offline<Q: RunQueues, T: Trace>(
        &mut self,
        cpu: CpuId,
        now: Nanos,
        rqs: &mut Q,
        fx: &mut Effects,
        trace: T,
    ) -> Result<(), HotplugError> {
        let mut online = self.online().clone();
        if !online.remove(cpu) {
            return Err(HotplugError::NotOnline(cpu));
        }
        if online.is_empty() {
            return Err(HotplugError::Last(cpu));
        }
        self.change_online(&online, rqs)?;
        let mut sched = self.traced(now, rqs, fx, trace);
        let cx = &mut sched.cx;
        let mut queued = sched.rqs.with(cpu, |rq| {
            rq.sched_ttwu_pending(cx);
            rq.leave_cpu(cx)
        });
        while let Some(slot) = queued {
            let task = sched.rqs.with(cpu, |rq| rq.task(slot).id);
            let affinity = sched.rqs.with(cpu, |rq| rq.task(slot).affinity.clone());
            let to = sched.select_fallback_rq(cpu, &affinity);
            let cx = &mut sched.cx;
            queued = sched.rqs.with_two(cpu, to, |from, dst| {
                from.widen_affinity(cx.host, slot);
                debug_assert_eq!(from.task(slot).id, task, "nothing else runs meanwhile");
                from.move_queued(cx, slot, dst);
                from.next_to_leave(cx)
            });
        }
        self.tell_policies(cpu, false, now);
        Ok(())
    }

    /// Brings a CPU on line, idle.
    ///
    /// # Errors
    /// A CPU that is on line or not of this machine, domains that cannot be built.
    pub fn cpu_online<Q: RunQueues>(&mut self, cpu: CpuId, now: Nanos, rqs: &mut Q) -> Result<(), HotplugError> {
        let mut online = self.online().clone();
        if self.machine().cpu(cpu).is_none() || !online.insert(cpu) {
            return Err(HotplugError::NotOffline(cpu));
        }
        rqs.with(cpu, |rq| rq.update_rq_clock(now));
        self.change_online(&online, rqs)?;
        self.tell_policies(cpu, true, now);
        Ok(())
    }

    /// New domains, fresh balancing state, granularities for the new number of CPUs.
    fn change_online<Q: RunQueues>(&mut self, online: &CpuSet, rqs: &mut Q) -> Result<(), HotplugError> {
        self.rebuild_domains(online)?;
        self.config_mut().sysctls.rescale(online.weight());
        let host = &*self;
        for cpu in host.cpu_numbers() {
            rqs.with(cpu, |rq| {
                rq.sd = SdState::for_cpu(host, cpu);
                rq.next_balance = host.jiffies();
            });
        }
        Ok(())
    }

    /// Takes the right to balance a serialized domain (`spin_trylock(&balancing)`).
    pub(super) fn try_balancing(&self) -> bool {
        !self.balancing.swap(true, Relaxed)
    }

    /// Gives it back.
    pub(super) fn end_balancing(&self) {
        self.balancing.store(false, Relaxed);
    }
}

impl Rq {
    /// Leaves the CPU idle and returns the first task that must leave.
    fn leave_cpu<T: Trace>(&mut self, cx: &mut crate::sched::Cx<'_, T>) -> Option<Slot> {
        self.update_rq_clock(cx.now);
        let prev = self.running();
        if prev.task().is_some() {
            let slot = self.curr;
            self.put_prev_task(cx, slot);
        }
        if self.stopper == Stopper::Queued {
            self.stopper_sleeps(cx.host);
        }
        self.stopper = Stopper::Sleeping;
        self.stop_work.clear();
        self.active_balance = false;
        self.need_resched = false;
        self.set_curr(cx.host, Slot::NIL);
        if prev != Running::Idle {
            self.stats.nr_switches += 1;
            cx.trace.sched_switch(cx.now, self.cpu, prev, Running::Idle, crate::Vruntime(0));
            if cx.host.hooked(Hooks::AFTER_PICK) {
                cx.hooks(self, |p, h| p.after_pick(h, None));
            }
        }
        self.next_to_leave(cx)
    }

    /// The task that would run next.
    fn next_to_leave<T: Trace>(&mut self, cx: &mut crate::sched::Cx<'_, T>) -> Option<Slot> {
        let next = self.pick_next_task(cx);
        if next.is_nil() {
            return None;
        }
        self.put_prev_task(cx, next);
        Some(next)
    }
}
