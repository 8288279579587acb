//! Giving the CPU away: `sched_yield`, `yield_to`, and what a spin hint leads to.
//!
//! A yield marks the yielder `skip` on its own queue; `yield_to` also marks the other `next` on its queue. Both are hints
//! that the next picks may refuse ([`crate::buddies`]). Property: a yield changes only the yielder's queue and the target's.
use crate::entity::{SchedPolicy, Slot, TaskState};
use crate::ids::TaskId;
use crate::policy::{Hooks, SpinWalk, YieldTo};
use crate::rq::{Rq, RunQueues};
use crate::sched::{Cx, Sched};
use crate::topology::CpuId;
use crate::trace::Trace;

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// The running task yields (`sys_sched_yield`, `yield_task_fair`, 3.4). Call `schedule` next.
    pub fn yield_current(&mut self, cpu: CpuId) {
        let cx = &mut self.cx;
        self.rqs.with(cpu, |rq| {
            if rq.current().is_some() {
                rq.stats.yld_count += 1;
                rq.yield_task(cx);
            }
        });
    }

    /// The running task of `cpu` yields in favour of `target`, wherever that is queued (`yield_to`, 3.4, as KVM calls it,
    /// with `preempt`). True if the request was taken: then call `schedule` next. It is refused if the target runs,
    /// blocks or is gone.
    pub fn yield_to(&mut self, cpu: CpuId, target: TaskId) -> bool {
        self.yield_boosting(cpu, YieldTo::fair(target))
    }

    /// [`Self::yield_to`], strict or not.
    fn yield_boosting(&mut self, cpu: CpuId, request: YieldTo) -> bool {
        let target = request.to;
        loop {
            let host = self.cx.host;
            let Some((there, _)) = host.tasks.get(target.index()).and_then(|t| t.place()) else { return false };
            let cx = &mut self.cx;
            let outcome = if there == cpu {
                self.rqs.with(cpu, |rq| {
                    let slot = rq.slot_of(host, target)?;
                    let taken = rq.accepts_yield(slot) && rq.current().is_some();
                    if taken {
                        rq.boost(slot, request.strict);
                        rq.stats.yld_count += 1;
                        rq.yield_task(cx);
                    }
                    Some(taken)
                })
            } else {
                self.rqs.with_two(cpu, there, |rq, other| {
                    let slot = other.slot_of(host, target)?;
                    let taken = other.accepts_yield(slot) && rq.current().is_some();
                    if taken {
                        other.boost(slot, request.strict);
                        rq.stats.yld_count += 1;
                        rq.yield_task(cx);
                        other.resched_curr_cx(cx);
                    }
                    Some(taken)
                })
            };
            // The target moved before its queue was in hand: look again.
            if let Some(taken) = outcome {
                return taken;
            }
        }
    }

    /// The running task of `cpu` spins (a PLE exit): lets the policies name candidates and yields to the first that
    /// accepts (`kvm_vcpu_on_spin`, 3.2). True if one did: then call `schedule` next.
    pub fn spin_detected(&mut self, cpu: CpuId) -> bool {
        if !self.cx.host.hooked(Hooks::SPIN_DETECTED) {
            return false;
        }
        let Some(spinner) = self.current(cpu) else { return false };
        let host = self.cx.host;
        for policy in host.policies().iter().filter(|p| p.hooks().intersects(Hooks::SPIN_DETECTED)) {
            let (mut boosted, mut walk) = (None, SpinWalk::default());
            for _ in 0..2 * (host.tasks.len() + 1) {
                let cx = &mut self.cx;
                let candidate = self.rqs.with(cpu, |rq| policy.spin_detected(&mut cx.hook(rq), spinner, &mut walk));
                let Some(candidate) = candidate else { break };
                if self.yield_boosting(cpu, candidate) {
                    boosted = Some(candidate.to);
                    break;
                }
            }
            let cx = &mut self.cx;
            self.rqs.with(cpu, |rq| policy.spin_done(&mut cx.hook(rq), spinner, boosted));
            if boosted.is_some() {
                return true;
            }
        }
        false
    }
}

impl Rq {
    /// Asks the next pick of this queue to take that task: if it is not too unfair, or in any case.
    fn boost(&mut self, slot: Slot, strict: bool) {
        if strict { self.set_gang_buddy(slot) } else { self.set_next_buddy(slot) }
    }

    /// True if a `yield_to` in the task's favour makes sense: it is queued and does not run.
    fn accepts_yield(&self, slot: Slot) -> bool {
        self.curr != slot && self.task(slot).state == TaskState::Running && self.ents[slot.i()].on_rq
    }

    /// `yield_task_fair` (3.4).
    fn yield_task<T: Trace>(&mut self, cx: &mut Cx<'_, T>) {
        if self.nr_running == 1 {
            return;
        }
        let curr = self.curr;
        let queue = self.ents[curr.i()].queue;
        self.clear_buddies(queue, curr);
        if self.task(curr).policy != SchedPolicy::Batch {
            self.update_rq_clock(cx.now);
            self.update_curr(cx, queue);
        }
        self.set_skip_buddy(curr);
    }
}
