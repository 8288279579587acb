//! Where a task runs next: on wake-up and at fork (`select_task_rq_fair`, 3.4).
//!
//! Units: loads. Problem: near the waker's cache, near the task's own, or on an idle CPU? Approach on wake-up: choose
//! between the waker's CPU and the one where the task ran last (*wake-affine*), then look for an idle CPU that shares the
//! cache of the chosen one (*idle sibling*). At fork: from the widest domain down, the idlest group, then its idlest CPU.
//!
//! Property: the chosen CPU is on line and one that the task may use, or any on-line CPU if there is none such.
use std::sync::atomic::Ordering::Relaxed;

use crate::balance::SCALE;
use crate::config::IdleSibling;
use crate::entity::Slot;
use crate::host::Host;
use crate::rq::{Rq, RunQueues};
use crate::sched::Sched;
use crate::topology::{CpuId, CpuSet, SchedDomain, SchedGroup, SdFlags};
use crate::trace::Trace;
use crate::wake::{Placed, Waker};

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Chooses the CPU of a waking task (`SD_BALANCE_WAKE`).
    pub(crate) fn select_task_rq_wake(&mut self, task: &Placed, waker: Waker) -> CpuId {
        let host = self.cx.host;
        let mut cpu = task.prev;
        if task.affinity.weight() != 1 {
            let affine = |sd: &&SchedDomain| {
                sd.params.flags.contains(SdFlags::LOAD_BALANCE.union(SdFlags::WAKE_AFFINE))
                    && sd.span.contains(task.prev)
            };
            let domains = host.domains().of(waker.cpu);
            let affine_sd = domains.iter().find(affine).filter(|_| task.affinity.contains(waker.cpu));
            cpu = match affine_sd {
                Some(sd) => {
                    let pull = waker.cpu == task.prev || self.wake_affine(sd, task, waker);
                    host.select_idle_sibling(task, waker.cpu, if pull { waker.cpu } else { task.prev })
                }
                None => host.idlest(task, waker.cpu, SdFlags::BALANCE_WAKE).unwrap_or(task.prev),
            };
        }
        self.allowed_or_fallback(cpu, task)
    }

    /// Chooses the CPU of a new task (`SD_BALANCE_FORK`), or leaves it with its parent.
    pub(crate) fn select_task_rq_fork(&mut self, task: &Placed, parent: CpuId, balanced: bool) -> CpuId {
        let mut cpu = parent;
        if balanced && task.affinity.weight() != 1 {
            cpu = self.cx.host.idlest(task, parent, SdFlags::BALANCE_FORK).unwrap_or(parent);
        }
        self.allowed_or_fallback(cpu, task)
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

    /// True if the task may be drawn to the waker's CPU without unbalancing the two (`wake_affine`, 3.4).
    fn wake_affine(&mut self, sd: &SchedDomain, task: &Placed, waker: Waker) -> bool {
        let host = self.cx.host;
        let idx = sd.params.wake_idx;
        let (this, prev) = (waker.cpu, task.prev);
        let weight = task.weight.cast_signed();
        let mut load = host.source_load(prev, idx).cast_signed();
        let mut this_load = host.target_load(this, idx).cast_signed();
        // A waker that is about to block takes its own load away, and its group's shares move.
        let leaving =
            if waker.sync { self.rqs.with(this, |rq| rq.current().map(|_| rq.placed(rq.curr))) } else { None };
        if let Some(waker) = leaving {
            let w = waker.weight.cast_signed();
            this_load = this_load.wrapping_add(self.effective_load(this, waker.queue, -w, -w));
            load = load.wrapping_add(self.effective_load(prev, waker.queue, 0, -w));
        }
        let balanced = this_load <= 0 || {
            // effective_load of a nested group without load here can be nonsense as large as its type, in the kernel too.
            let power = |c| host.power(c).cast_signed();
            let this_load = this_load.wrapping_add(self.effective_load(this, task.queue, weight, weight));
            let load = load.wrapping_add(self.effective_load(prev, task.queue, 0, weight));
            let pct = 100 + (i64::from(sd.params.imbalance_pct) - 100) / 2;
            let this_eff = (100 * power(prev)).wrapping_mul(this_load);
            let prev_eff = (pct * power(this)).wrapping_mul(load);
            this_eff <= prev_eff
        };
        if balanced {
            return true;
        }
        let both = this_load.cast_unsigned().wrapping_add(host.target_load(prev, idx));
        this_load <= load && both <= host.load_per_task(this)
    }

    fn effective_load(&mut self, cpu: CpuId, group: Slot, wl: i64, wg: i64) -> i64 {
        if group.is_nil() {
            return wl;
        }
        let host = self.cx.host;
        self.rqs.with(cpu, |rq| rq.effective_load(host, group, wl, wg))
    }
}

impl Host {
    /// An idle CPU that shares the cache of `target`, or the target (`select_idle_sibling`: 3.4, 3.0, the buddies).
    fn select_idle_sibling(&self, task: &Placed, this: CpuId, target: CpuId) -> CpuId {
        if (target == this || target == task.prev) && self.is_idle(target) {
            return target;
        }
        let llc = match self.domains().llc_index(target) {
            Some(llc) => &self.domains().of(target)[..=llc],
            None => return target,
        };
        let mut asked = 0;
        let mut idle = |cpu| {
            asked += 1;
            self.is_idle(cpu)
        };
        let found = match self.config().switches.idle_sibling {
            IdleSibling::Off => None,
            IdleSibling::Traverse => llc
                .iter()
                .rev()
                .flat_map(SchedDomain::groups)
                .find(|g| g.cpus.intersects(&task.affinity) && g.cpus.iter().all(&mut idle))
                .and_then(|g| g.cpus.first_and(&task.affinity)),
            IdleSibling::FirstIdle => {
                let last = llc.iter().position(|sd| sd.span.contains(this) && sd.span.contains(task.prev));
                let domains = &llc[..last.map_or(llc.len(), |at| at + 1)];
                // Each wider domain that has an idle CPU replaces the choice of the narrower ones.
                let first_idle = |sd: &SchedDomain| sd.span.iter_and(&task.affinity).find(|c| idle(*c));
                domains.iter().filter_map(first_idle).fold(None, |_, cpu| Some(cpu))
            }
            IdleSibling::Buddy => llc
                .iter()
                .rev()
                .filter_map(|sd| sd.idle_buddy)
                .find(|buddy| task.affinity.contains(*buddy) && idle(*buddy)),
        };
        self.cpu(this).idle_asked.fetch_add(asked, Relaxed);
        found.unwrap_or(target)
    }

    /// The idlest CPU of the idlest group, from the widest domain with the flag down; `None` if no domain has it.
    fn idlest(&self, task: &Placed, cpu: CpuId, flag: SdFlags) -> Option<CpuId> {
        let (mut cpu, mut new_cpu) = (cpu, cpu);
        let usable = |sd: &SchedDomain| sd.params.flags.contains(flag);
        let widest = |sd: &SchedDomain| usable(sd) && sd.params.flags.contains(SdFlags::LOAD_BALANCE);
        let mut at = Some(self.domains().of(cpu).iter().rposition(widest)?);
        while let Some(i) = at {
            let sd = &self.domains().of(cpu)[i];
            at = i.checked_sub(1);
            if !usable(sd) {
                continue;
            }
            let idx = if flag == SdFlags::BALANCE_WAKE { sd.params.wake_idx } else { sd.params.forkexec_idx };
            let Some(group) = self.find_idlest_group(sd, task, cpu, idx) else { continue };
            match self.find_idlest_cpu(group, task, cpu) {
                Some(found) if found != cpu => {
                    // On from there, in its domains below this one.
                    (cpu, new_cpu) = (found, found);
                    let narrower = |d: &SchedDomain| d.span_weight < sd.span_weight && usable(d);
                    at = self.domains().of(cpu).iter().rposition(narrower);
                }
                Some(found) => new_cpu = found,
                None => {}
            }
        }
        Some(new_cpu)
    }

    /// `find_idlest_group` (3.4): `None` if this CPU's own is idle enough.
    fn find_idlest_group<'a>(&self, sd: &'a SchedDomain, task: &Placed, cpu: CpuId, idx: u8) -> Option<&'a SchedGroup> {
        let pct = 100 + (u64::from(sd.params.imbalance_pct) - 100) / 2;
        let (mut idlest, mut min_load, mut this_load) = (None, u64::MAX, 0);
        for group in sd.groups().filter(|g| g.cpus.intersects(&task.affinity)) {
            let local = group.cpus.contains(cpu);
            let load: u64 = if local {
                group.cpus.iter().map(|c| self.source_load(c, idx)).sum()
            } else {
                group.cpus.iter().map(|c| self.target_load(c, idx)).sum()
            };
            let avg_load = load * SCALE / self.group_power(group);
            if local {
                this_load = avg_load;
            } else if avg_load < min_load {
                (min_load, idlest) = (avg_load, Some(group));
            }
        }
        idlest.filter(|_| 100 * this_load >= pct * min_load)
    }

    /// `find_idlest_cpu` (3.4).
    fn find_idlest_cpu(&self, group: &SchedGroup, task: &Placed, this: CpuId) -> Option<CpuId> {
        let (mut min_load, mut idlest) = (u64::MAX, None);
        for cpu in group.cpus.iter_and(&task.affinity) {
            let load = self.load(cpu);
            if load < min_load || load == min_load && cpu == this {
                (min_load, idlest) = (load, Some(cpu));
            }
        }
        idlest
    }
}

impl Rq {
    /// What placement needs to know of a task here.
    pub(crate) fn placed(&self, slot: Slot) -> Placed {
        let e = &self.ents[slot.i()];
        Placed { prev: self.cpu, queue: e.queue, weight: e.load.weight, affinity: self.task(slot).affinity.clone() }
    }
}
