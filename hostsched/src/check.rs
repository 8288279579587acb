//! Invariants, checked from outside the algorithms: call [`Host::check`] between operations, in tests and in the
//! simulator.
//!
//! - Time: runtime + idle time + stolen time of a CPU = what its clock has advanced, to the nanosecond.
//! - Place: every task is in exactly one queue, the one that its shared word names.
//! - Order: a timeline is sorted, holds each waiting entity once and no other, and its keys are the entities' vruntimes.
//! - Sums: a queue's load, `nr_running` and `h_nr_running` are the sums of what is in it; published summaries agree.
//! - Buddies name entities that are queued on that queue.
//! - `min_vruntime` never falls: [`Checker`] remembers it from one check to the next.
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use crate::entity::{Slot, TaskState};
use crate::host::Host;
use crate::ids::Vruntime;
use crate::rq::Rq;
use crate::topology::CpuId;

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("CPU {cpu}: {what}")]
pub struct Violation {
    /// Where.
    pub cpu: CpuId,
    /// What is wrong.
    pub what: String,
}

/// Checks a host again and again.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    /// Last seen `min_vruntime`, by CPU and group.
    min_vruntime: Vec<Vec<(u32, Vruntime)>>,
}

/// Collects what is wrong with a queue.
struct Report<'a> {
    rq: &'a Rq,
}

impl Report<'_> {
    fn require(&self, holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
        if holds { Ok(()) } else { Err(Violation { cpu: self.rq.cpu, what: what() }) }
    }

    fn same<T: PartialEq + fmt::Debug>(&self, what: impl fmt::Display, is: T, should: T) -> Result<(), Violation> {
        self.require(is == should, || format!("{what} is {is:?} and should be {should:?}"))
    }
}

impl Checker {
    /// Checks every queue, and that nothing went backwards since the last call.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&mut self, host: &Host, rqs: &[Rq]) -> Result<(), Violation> {
        host.check(rqs)?;
        self.min_vruntime.resize(rqs.len(), Vec::new());
        for (rq, seen) in rqs.iter().zip(&mut self.min_vruntime) {
            let now: Vec<_> = host
                .groups
                .iter()
                .map(|g| g.generation.load(Relaxed))
                .zip(rq.cfs.iter().map(|q| q.min_vruntime))
                .collect();
            for (group, ((before, old), (after, new))) in seen.iter().zip(&now).enumerate() {
                Report { rq }.require(before != after || !new.before(*old), || {
                    format!("min_vruntime of group {group} fell from {old} to {new}")
                })?;
            }
            *seen = now;
        }
        Ok(())
    }
}

impl Host {
    /// Checks every invariant that can be seen at one instant. The queues must be at rest: between operations.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self, rqs: &[Rq]) -> Result<(), Violation> {
        let mut seen = vec![false; self.tasks.len()];
        for rq in rqs {
            rq.check_time()?;
            rq.check_queues(self)?;
            rq.check_tasks(self, &mut seen)?;
        }
        for (i, seen) in seen.iter().enumerate() {
            if let Some((cpu, _)) = self.tasks[i].place().filter(|_| !seen) {
                return Err(Violation { cpu, what: format!("task {i} should be here and is nowhere") });
            }
        }
        Ok(())
    }
}

impl Rq {
    fn check_time(&self) -> Result<(), Violation> {
        let elapsed = self.clock - self.boot;
        // The running task is charged up to its exec_start.
        let pending = match self.current() {
            Some(_) => self.clock_task.0 - self.ents[self.curr.i()].exec_start.0,
            None => 0,
        };
        let s = &self.stats;
        Report { rq: self }.same("runtime + idle + steal", s.exec.0 + s.idle.0 + s.steal.0 + pending, elapsed.0)
    }

    fn check_queues(&self, host: &Host) -> Result<(), Violation> {
        let report = Report { rq: self };
        let mut loads = vec![(0_u64, 0_u32, 0_u32); self.cfs.len()];
        let mut tracked = vec![0_u64; self.cfs.len()];
        let mut waiting = vec![0_u32; self.cfs.len()];
        let groups = (1..self.cfs.len()).map(|g| Slot(u32::try_from(g).unwrap_or(0)));
        for slot in groups.chain(self.task_slots()) {
            let e = &self.ents[slot.i()];
            if !e.on_rq {
                continue;
            }
            let q = &self.cfs[e.queue.i()];
            let (load, nr, _) = &mut loads[e.queue.i()];
            *load += e.load.weight;
            tracked[e.queue.i()] += self.entity_load(slot);
            *nr += 1;
            waiting[e.queue.i()] += u32::from(q.curr != slot);
            if self.is_task(slot) {
                let mut up = slot;
                while !up.is_nil() {
                    up = self.ents[up.i()].queue;
                    loads[up.i()].2 += 1;
                }
            }
        }
        for (i, q) in self.cfs.iter().enumerate() {
            report.same(format_args!("load of queue {i}"), q.load.weight, loads[i].0)?;
            let slot = Slot(u32::try_from(i).unwrap_or(0));
            report.same(format_args!("runnable load of queue {i}"), self.runnable_load(slot), tracked[i])?;
            report.same(format_args!("nr_running of queue {i}"), q.nr_running, loads[i].1)?;
            report.same(format_args!("h_nr_running of queue {i}"), q.h_nr_running, loads[i].2)?;
            let mut last: Option<Vruntime> = None;
            let mut count = 0;
            for (key, slot) in q.timeline.iter() {
                let e = &self.ents[slot.i()];
                count += 1;
                report.same(format_args!("key of entity {} in queue {i}", slot.0), key, e.vruntime)?;
                report.require(e.on_rq && e.queue.i() == i && q.curr != slot, || {
                    format!("entity {} should not wait in queue {i}", slot.0)
                })?;
                report.require(last.is_none_or(|l| !key.before(l)), || format!("queue {i} is out of order"))?;
                last = Some(key);
            }
            report.same(format_args!("entities that wait in queue {i}"), count, waiting[i])?;
            let b = q.buddies;
            for buddy in [b.next, b.last, b.skip, b.gang].into_iter().filter(|s| !s.is_nil()) {
                let e = &self.ents[buddy.i()];
                report.require(e.on_rq && e.queue.i() == i, || format!("buddy {} is not on queue {i}", buddy.0))?;
            }
        }
        let public = host.cpu(self.cpu);
        report.same("published load", public.load.load(Relaxed), self.runnable_load(Slot::NIL))?;
        report.same("published nr_running", public.nr_running.load(Relaxed), self.nr_running)?;
        let stopper = u32::from(self.stopper_queued());
        report.same("nr_running", self.nr_running, self.cfs[0].h_nr_running + stopper)?;
        report.same("published current task", host.current(self.cpu), self.current())
    }

    fn check_tasks(&self, host: &Host, seen: &mut [bool]) -> Result<(), Violation> {
        let report = Report { rq: self };
        for slot in self.task_slots() {
            let task = self.task(slot);
            let (e, id) = (&self.ents[slot.i()], task.id);
            report.same(format_args!("place of task {id}"), host.tasks[id.index()].place(), Some((self.cpu, slot)))?;
            report
                .require(!std::mem::replace(&mut seen[id.index()], true), || format!("task {id} is in two queues"))?;
            let asleep = matches!(task.state, TaskState::Blocked | TaskState::Waking) && self.curr != slot;
            report.require(asleep != e.on_rq, || format!("task {id} is {:?} and on_rq is {}", task.state, e.on_rq))?;
            report.require(task.state != TaskState::Waking || self.wake_list.contains(&slot), || {
                format!("task {id} is being woken and nobody will finish it")
            })?;
        }
        let mut listed = 0;
        let mut slot = self.runnable.head;
        while !slot.is_nil() {
            report.require(self.ents[slot.i()].on_rq, || format!("slot {} is listed and not runnable", slot.0))?;
            listed += 1;
            slot = self.task(slot).next;
        }
        report.same("runnable list", listed, self.cfs[0].h_nr_running)
    }
}
