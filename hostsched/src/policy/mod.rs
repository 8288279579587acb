//! Remedies as hooks: a policy watches the scheduler at a few points and nudges it through buddies, `need_resched`,
//! IPIs and `yield_to`. One file per remedy.
//!
//! ```text
//!   schedule ── after_pick ──► IPIs to other CPUs ── ipi_received ──► set buddy, need_resched
//!   spin hint ── spin_detected ──► yield_to(candidate), until one accepts
//! ```
//!
//! A policy declares in [`Policy::hooks`] what it wants to see; a hook that nobody wants costs one test of a bit. It is
//! shared by all CPUs (`&self`), so state of its own goes into atomics. A hook runs with one CPU's queue in hand,
//! [`HookCx::rq`], and never holds two: to act on another CPU, send it an [`Ipi`].
//!
//! # A worked example
//! The smallest policy: whoever spins yields to the task that follows it in its VM.
//! ```
//! use hostsched::policy::{HookCx, Hooks, Policy};
//! use hostsched::TaskId;
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
//!     fn spin_detected(&self, cx: &mut HookCx<'_>, spinner: TaskId) -> Option<TaskId> {
//!         Some(cx.host.next_of_vm(spinner)).filter(|next| *next != spinner)
//!     }
//! }
//! ```
use std::fmt::Debug;

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
    pub const IPI_RECEIVED: Self = Self(2);
    /// [`Policy::woken`].
    pub const WOKEN: Self = Self(4);
    /// [`Policy::spin_detected`] and [`Policy::spin_done`].
    pub const SPIN_DETECTED: Self = Self(8);
    /// [`Policy::blocked`].
    pub const BLOCKED: Self = Self(16);

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

/// A remedy.
#[allow(unused_variables, reason = "the default bodies ignore their arguments")]
pub trait Policy: Send + Sync + Debug {
    /// Its name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// The hooks that it wants called.
    fn hooks(&self) -> Hooks;

    /// `picked` has just been chosen to run on `cx.rq`'s CPU, also when it already ran (a re-pick).
    fn after_pick(&self, cx: &mut HookCx<'_>, picked: TaskId) {}

    /// An IPI other than [`Ipi::Wakeup`] has arrived at `cx.rq`'s CPU.
    fn ipi_received(&self, cx: &mut HookCx<'_>, ipi: Ipi) {}

    /// `task` has been woken and queued on `cx.rq`'s CPU.
    fn woken(&self, cx: &mut HookCx<'_>, task: TaskId) {}

    /// `task` is about to block (halt) on `cx.rq`'s CPU.
    fn blocked(&self, cx: &mut HookCx<'_>, task: TaskId) {}

    /// `spinner`, which runs on `cx.rq`'s CPU, spins (a PLE exit): whom should it yield to? The scheduler tries
    /// `yield_to` with each answer and asks again while it is refused, at most twice the VM's tasks plus two times.
    fn spin_detected(&self, cx: &mut HookCx<'_>, spinner: TaskId) -> Option<TaskId> {
        None
    }

    /// The answers of [`Self::spin_detected`] are over: `boosted` accepted, or nobody did.
    fn spin_done(&self, cx: &mut HookCx<'_>, spinner: TaskId, boosted: Option<TaskId>) {}

    /// A CPU goes off line (`false`) or has come on line (`true`): forget or elect again. Nothing else runs meanwhile.
    fn cpu_changed(&self, host: &Host, cpu: CpuId, online: bool) {}

    /// A group is about to vanish.
    fn group_removed(&self, host: &Host, group: GroupId) {}
}
