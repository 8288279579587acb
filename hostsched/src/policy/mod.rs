//! Remedies as hooks: a policy watches the scheduler at a few points and nudges it through buddies, `need_resched`,
//! IPIs and `yield_to`. One file per remedy; [`install`] makes them by name.
//!
//! ```text
//!   schedule ── after_pick ──► IPIs to other CPUs ── ipi_received ──► set buddy, need_resched
//!   spin hint ── spin_detected ──► yield_to(candidate), until one accepts ── spin_done
//!   enqueue, dequeue ── queued        engine's reports ── guest_mode, guest_ring
//! ```
//!
//! A policy declares in [`Policy::hooks`] what it wants to see; a hook that nobody wants costs one test of a bit. It is
//! shared by all CPUs (`&self`), so state of its own goes into atomics. A hook runs with one CPU's queue in hand,
//! [`HookCx::rq`], and never holds two: to act on another CPU, send it an [`Ipi`].
//!
//! # The smallest policy
//! Whoever spins yields to the task that follows it in its VM. `docs/writing-a-policy.md` builds a larger one.
//! ```
//! use hostsched::TaskId;
//! use hostsched::policy::{HookCx, Hooks, Policy, SpinWalk, YieldTo};
//!
//! #[derive(Debug)]
//! struct Neighbour;
//!
//! impl Policy for Neighbour {
//!     fn name(&self) -> &'static str {
//!         "neighbour"
//!     }
//!     fn hooks(&self) -> Hooks {
//!         Hooks::SPIN_DETECTED
//!     }
//!     fn spin_detected(&self, cx: &mut HookCx<'_>, spinner: TaskId, walk: &mut SpinWalk) -> Option<YieldTo> {
//!         let next = cx.host.next_of_vm(walk.at.unwrap_or(spinner));
//!         walk.at = Some(next);
//!         (next != spinner).then_some(YieldTo::fair(next))
//!     }
//! }
//! ```
mod coverage;
mod gang;
mod install;
mod ple;
mod span;

use std::fmt::Debug;

pub use gang::{Gang, GangSettings, GangVariant};
pub use install::{PolicyKind, PolicySettings, UnknownPolicy, install};
pub use ple::{Ple, PleSwitches};
pub use span::{Span, elect};

use crate::effects::{Effects, Ipi};
use crate::host::Host;
use crate::ids::{GroupId, Nanos, TaskId};
use crate::rq::Rq;
use crate::topology::CpuId;

/// A set of hooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hooks(u8);

impl Hooks {
    /// None.
    pub const NONE: Self = Self(0);
    /// [`Policy::after_pick`].
    pub const AFTER_PICK: Self = Self(1);
    /// [`Policy::ipi_received`].
    pub const IPI_RECEIVED: Self = Self(1 << 1);
    /// [`Policy::woken`].
    pub const WOKEN: Self = Self(1 << 2);
    /// [`Policy::spin_detected`] and [`Policy::spin_done`].
    pub const SPIN_DETECTED: Self = Self(1 << 3);
    /// [`Policy::blocked`].
    pub const BLOCKED: Self = Self(1 << 4);
    /// [`Policy::queued`].
    pub const QUEUED: Self = Self(1 << 5);
    /// [`Policy::guest_mode`].
    pub const GUEST_MODE: Self = Self(1 << 6);
    /// [`Policy::guest_ring`].
    pub const GUEST_RING: Self = Self(1 << 7);

    /// Both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the sets share a hook.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a hook may look at and act on.
#[derive(Debug)]
pub struct HookCx<'a> {
    /// Everything shared; read-only summaries of the other CPUs.
    pub host: &'a Host,
    /// The queue of the CPU where the hook runs.
    pub rq: &'a mut Rq,
    /// What the engine will do afterwards.
    pub fx: &'a mut Effects,
    /// The instant.
    pub now: Nanos,
}

/// Where the search for a receiver of one spin stands. A policy keeps in it what it likes between two answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpinWalk {
    /// The task looked at last; `None` at first.
    pub at: Option<TaskId>,
    /// The round in which that was.
    pub pass: u32,
}

/// A request to yield.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct YieldTo {
    /// The task that should run.
    pub to: TaskId,
    /// Pick it whatever its vruntime, instead of only while that is not too unfair.
    pub strict: bool,
}

impl YieldTo {
    /// `yield_to` as the kernel has it: the `next` buddy, which may be refused.
    #[must_use]
    pub const fn fair(to: TaskId) -> Self {
        Self { to, strict: false }
    }
}

/// A remedy.
#[allow(unused_variables, reason = "the default bodies ignore their arguments")]
pub trait Policy: Send + Sync + Debug {
    /// Its name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// The hooks that it wants called. Fixed once it is added to a host.
    fn hooks(&self) -> Hooks;

    /// `picked` has just been chosen to run on `cx.rq`'s CPU, also when it already ran (a re-pick); `None` is idle.
    fn after_pick(&self, cx: &mut HookCx<'_>, picked: Option<TaskId>) {}

    /// An IPI other than [`Ipi::Wakeup`] has arrived at `cx.rq`'s CPU.
    fn ipi_received(&self, cx: &mut HookCx<'_>, ipi: Ipi) {}

    /// `task` has been put on (`true`) or taken off `cx.rq`, running or not, for whatever reason: wake-up, sleep, birth,
    /// exit, a move between CPUs or groups, a change of weight.
    fn queued(&self, cx: &mut HookCx<'_>, task: TaskId, on: bool) {}

    /// `task` has been woken and queued on `cx.rq`'s CPU.
    fn woken(&self, cx: &mut HookCx<'_>, task: TaskId) {}

    /// `task` is about to block (halt) on `cx.rq`'s CPU.
    fn blocked(&self, cx: &mut HookCx<'_>, task: TaskId) {}

    /// `spinner`, which runs on `cx.rq`'s CPU, spins (a PLE exit): whom should it yield to? The scheduler tries
    /// `yield_to` with each answer and asks again while it is refused, at most twice the host's tasks plus two times.
    fn spin_detected(&self, cx: &mut HookCx<'_>, spinner: TaskId, walk: &mut SpinWalk) -> Option<YieldTo> {
        None
    }

    /// The answers of [`Self::spin_detected`] are over: `boosted` accepted, or nobody did.
    fn spin_done(&self, cx: &mut HookCx<'_>, spinner: TaskId, boosted: Option<TaskId>) {}

    /// The task that runs on `cx.rq`'s CPU has entered or left guest mode. Engines need not tell.
    fn guest_mode(&self, cx: &mut HookCx<'_>, in_guest: bool) {}

    /// The vCPU `task` was last seen in its guest's kernel (`true`) or in user mode. Engines need not tell.
    fn guest_ring(&self, task: TaskId, kernel: bool) {}

    /// A CPU has gone off line (`false`) or come on line (`true`), and the domains are the new ones: forget or elect
    /// again. Nothing else runs meanwhile.
    fn cpu_changed(&mut self, host: &Host, cpu: CpuId, online: bool, now: Nanos) {}

    /// A group is about to vanish; its tasks move to its parent next.
    fn group_removed(&self, host: &Host, group: GroupId, now: Nanos) {}

    /// Reports what it has counted up to now, by name. Counters only grow, so an engine that measures a part of a run
    /// subtracts what it read at the start of that part.
    fn counters(&self, now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {}

    /// What the user should know about how it will act on this host, a sentence each.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Names of the policies' counters.
pub mod counter {
    /// Requests of gang leaders to fellow CPUs.
    pub const GANG_IPIS: &str = "gang_ipis";
    /// Those that found their group gone or no gang any more.
    pub const GANG_IPIS_STALE: &str = "gang_ipis_stale";
    /// Windows in which at least two members were runnable.
    pub const GANG_WINDOWS: &str = "gang_windows";
    /// Time in windows while at least two members were runnable (ns): the whole of the coverage.
    pub const GANG_WINDOW_NS: &str = "gang_window_ns";
    /// The part of it in which all runnable members ran at once (ns): coverage = covered / window.
    pub const GANG_COVERED_NS: &str = "gang_covered_ns";
    /// Buddies that fellows set.
    pub const GANG_BUDDIES_SET: &str = "gang_buddies_set";
    /// Those that the fellow's next pick passed over.
    pub const GANG_BUDDIES_REFUSED: &str = "gang_buddies_refused";
    /// Spins that the host was told of.
    pub const SPIN_HINTS: &str = "spin_hints";
    /// Directed yields that were tried.
    pub const YIELD_TO_CALLS: &str = "yield_to_calls";
    /// Directed yields that boosted another vCPU.
    pub const YIELDS: &str = "yields";
}

impl Host {
    /// What the policies have counted up to now.
    #[must_use]
    pub fn policy_counters(&self, now: Nanos) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        for policy in self.policies() {
            policy.counters(now, &mut |name, value| all.push((name, value)));
        }
        all
    }

    /// The engine saw this vCPU in its guest's kernel (`true`) or in user mode when it left the guest last.
    pub fn guest_ring(&self, task: TaskId, kernel: bool) {
        if self.hooked(Hooks::GUEST_RING) {
            self.policies().iter().for_each(|p| p.guest_ring(task, kernel));
        }
    }
}
