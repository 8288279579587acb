//! Gang scheduling, as posted to LKML in 2011 ("Gang scheduling in CFS", V1 and V2), with what its reviewers asked for.
//!
//! Units: nanoseconds. Problem: a guest whose vCPUs run at different times waits for those that do not run: for a lock
//! that one of them holds, for the acknowledgement of a TLB flush. Approach: when one CPU, the *leader* of a *span* of
//! CPUs, picks a task of a gang, it asks the others, its *fellows*, to run that gang too.
//!
//! ```text
//!   leader  picks a task of gang G ──► Ipi::Gang{G} ─┬─► fellow: G's entity here := buddy, need_resched ──► picks G
//!                                                    └─► fellow: nothing of G runnable here: carries on
//! ```
//! | variant | name | buddy | at the fellow's next pick |
//! |---|---|---|---|
//! | V1 | `gang-next` | `next` (one slot, shared with `yield_to` and wake-ups) | taken unless too unfair |
//! | V2 | `gang` | `gang` | taken whatever its vruntime |
//!
//! The request is sent after *every* pick of a gang's task on the leader, a re-pick too, so a gang that runs on is held
//! together. The hint goes to the group's entity on the fellow and to the groups above it; which of its tasks runs there
//! is CFS's choice.
//!
//! **Nested groups.** The gang of a task is the innermost of the groups that it is in and that are flagged: a flag on a
//! VM's group makes one gang of all its vCPUs, whatever groups these are in. (The series looks at the task's own group
//! only.) **Several gangs in a span** take turns: the leader's CFS decides whose turn it is, and the fellows follow. A
//! gang with nothing on the leader's CPU never starts there, as in the series: place one member of each gang on it.
//!
//! **What the reviewers found wrong, and what holds here.** Election walks no domain on the pick path: [`span`]
//! precomputes it. A leader that goes off line is replaced, and a span that shrinks is made anew ([`Policy::cpu_changed`]).
//! A group may vanish while a request for it is in flight: a request carries the group's generation, and a late one is
//! dropped. The span's size is a setting. Success is measured ([`coverage`](super::coverage)).
//!
//! # Properties
//! *A gang starts at once* (V2): after the leader's pick, every fellow that has a runnable member of the gang runs one.
//!
//! *V1 starves nobody.* `next` is honoured only up to one wake-up granularity of lead over the leftmost L, in virtual time
//! scaled to L's weight. So whatever requests come, a pick leads L by at most that and then runs for a slice and a tick; no
//! two entities of a queue that always want to run ever stand further apart than
//! `D = wakeup_granularity * 1024 / w(L) + max((slice + tick) * 1024 / w)`, and each gets its weight's share of the CPU to
//! within `2 * D * w / 1024`. With n equal ones nobody waits longer than
//! `(n - 1) * 2 * (wakeup_granularity + period / n + tick)`.
//!
//! *V2 is unfair without bound* as long as requests come: each one is an unconditional pick. What a group that exists only
//! on a fellow gets of its CPU beside a gang whose member on the leader runs and sleeps for 50 us each:
//!
//! | CFS | V1 | V2 |
//! |---|---|---|
//! | 60 % | 60 % | 0 % |
//!
//! Tested in `tests/properties` (`costart.rs`, `fairness.rs`).
//!
//! [`span`]: super::elect
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::coverage::Coverage;
use super::span::{Role, Span, elect, roles};
use super::{HookCx, Hooks, Policy, counter};
use crate::effects::Ipi;
use crate::host::Host;
use crate::ids::{GroupId, Nanos, TaskId};
use crate::topology::CpuId;

/// How a fellow favours the gang.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GangVariant {
    /// V1: `set_next_buddy`.
    Next,
    /// V2: `set_gang_buddy`.
    #[default]
    Gang,
}

/// How gangs are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GangSettings {
    /// V1 or V2.
    pub variant: GangVariant,
    /// A gang's span is the smallest domain with at least this many CPUs, or the whole host (the series: 8).
    pub gang_cpus: u32,
    /// The engine calls [`Sched::guest_mode`](crate::Sched::guest_mode), so that coverage counts only vCPUs that are in
    /// guest mode. If not, whoever has a CPU counts.
    pub guest_mode_told: bool,
}

impl Default for GangSettings {
    fn default() -> Self {
        Self { variant: GangVariant::default(), gang_cpus: 8, guest_mode_told: false }
    }
}

/// Gang scheduling.
#[derive(Debug)]
pub struct Gang {
    settings: GangSettings,
    spans: Vec<Span>,
    roles: Vec<Role>,
    /// Group, +1, whose buddy was set on the CPU and which no pick has answered yet.
    asked: Vec<AtomicU32>,
    coverage: Coverage,
    ipis: AtomicU64,
    stale: AtomicU64,
    set: AtomicU64,
    refused: AtomicU64,
}

impl Gang {
    /// Gang scheduling on that host. Add it before the first task.
    #[must_use]
    pub fn new(host: &Host, settings: GangSettings) -> Self {
        let slots = host.machine().cpu_slots();
        let spans = elect(host.domains(), settings.gang_cpus);
        let roles = roles(&spans, slots);
        Self {
            settings,
            asked: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            coverage: Coverage::new(host, &spans, &roles, settings.guest_mode_told),
            spans,
            roles,
            ipis: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            set: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The spans as they stand now.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Was the request that this CPU got last answered by its pick?
    fn answered(&self, cx: &HookCx<'_>, picked: Option<TaskId>) {
        let asked = &self.asked[cx.rq.cpu().index()];
        let Some(group) = asked.load(Relaxed).checked_sub(1).map(GroupId) else { return };
        asked.store(0, Relaxed);
        let mut within = picked.map(|t| cx.host.task_group(t));
        while within.is_some_and(|g| g != group) {
            within = within.and_then(|g| cx.host.group_parent(g));
        }
        if within.is_none() {
            self.refused.fetch_add(1, Relaxed);
        }
    }
}

/// The gang of a task: the innermost flagged group that it is in.
fn gang_of(host: &Host, task: TaskId) -> Option<GroupId> {
    let mut group = host.task_group(task);
    while !host.is_gang(group) {
        group = host.group_parent(group)?;
    }
    Some(group)
}

impl Policy for Gang {
    fn name(&self) -> &'static str {
        match self.settings.variant {
            GangVariant::Next => "gang-next",
            GangVariant::Gang => "gang",
        }
    }

    fn hooks(&self) -> Hooks {
        let hooks = Hooks::AFTER_PICK.union(Hooks::IPI_RECEIVED).union(Hooks::QUEUED);
        if self.settings.guest_mode_told { hooks.union(Hooks::GUEST_MODE) } else { hooks }
    }

    fn after_pick(&self, cx: &mut HookCx<'_>, picked: Option<TaskId>) {
        let cpu = cx.rq.cpu();
        self.coverage.picked(cx.host, cpu, picked, cx.now);
        self.answered(cx, picked);
        let Role::Leader(span) = self.roles[cpu.index()] else { return };
        let gang = picked.and_then(|task| gang_of(cx.host, task));
        self.coverage.window(span, gang, cx.now);
        let Some(group) = gang else { return };
        let request = Ipi::Gang { group, generation: cx.host.group_generation(group) };
        let fellows = &self.spans[span].fellows;
        cx.fx.ipis.extend(fellows.iter().map(|fellow| (*fellow, request)));
        self.ipis.fetch_add(fellows.len() as u64, Relaxed);
    }

    fn ipi_received(&self, cx: &mut HookCx<'_>, ipi: Ipi) {
        let Ipi::Gang { group, generation } = ipi else { return };
        if cx.host.group_generation(group) != generation || !cx.host.is_gang(group) {
            self.stale.fetch_add(1, Relaxed);
            return;
        }
        let set = match self.settings.variant {
            GangVariant::Next => cx.rq.set_next_buddy_group(group),
            GangVariant::Gang => cx.rq.set_gang_buddy_group(group),
        };
        if set {
            cx.rq.resched_curr(cx.fx);
            self.set.fetch_add(1, Relaxed);
            self.asked[cx.rq.cpu().index()].store(group.0 + 1, Relaxed);
        }
    }

    fn queued(&self, cx: &mut HookCx<'_>, task: TaskId, on: bool) {
        self.coverage.queued(cx.host, cx.rq, task, on, cx.now);
    }

    fn guest_mode(&self, cx: &mut HookCx<'_>, in_guest: bool) {
        self.coverage.guest_mode(cx.host, cx.rq, in_guest, cx.now);
    }

    fn cpu_changed(&mut self, host: &Host, cpu: CpuId, _online: bool, now: Nanos) {
        // It runs nothing, and a request that it has not answered concerns tasks that have left.
        self.coverage.picked(host, cpu, None, now);
        self.asked[cpu.index()].store(0, Relaxed);
        self.spans = elect(host.domains(), self.settings.gang_cpus);
        self.roles = roles(&self.spans, host.machine().cpu_slots());
        self.coverage.reshape(host, &self.spans, &self.roles, now);
    }

    fn group_removed(&self, _host: &Host, group: GroupId, now: Nanos) {
        self.coverage.group_removed(group, now);
    }

    fn counters(&self, now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {
        report(counter::GANG_IPIS, self.ipis.load(Relaxed));
        report(counter::GANG_IPIS_STALE, self.stale.load(Relaxed));
        report(counter::GANG_BUDDIES_SET, self.set.load(Relaxed));
        report(counter::GANG_BUDDIES_REFUSED, self.refused.load(Relaxed));
        self.coverage.counters(now, report);
    }

    fn notices(&self) -> Vec<String> {
        let small = |s: &&Span| s.domain.weight() < self.settings.gang_cpus;
        let told = |s: &Span| {
            let (want, cpus, have) = (self.settings.gang_cpus, &s.cpus, s.cpus.weight());
            format!(
                "no scheduling domain has {want} CPUs: gangs span the {have} CPUs {cpus}; --gang-cpus sets the size"
            )
        };
        self.spans.iter().find(small).map(told).into_iter().collect()
    }
}
