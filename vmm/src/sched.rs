//! The contract between a vCPU thread and whoever schedules it.
//!
//! # Picture
//! ```text
//!   attach ──► before_entry ──Enter──► KVM_RUN ──► after_exit ──► exit handling
//!                 ▲   │ Stop                                        │   │
//!                 │   ▼                                             │   ├─ halt: sleep until woken
//!                 │  drop(thread)                                   │   └─ spin: I wait for another vCPU
//!                 └─────────────────────────────────────────────────┘
//!   any thread:  wake(target): what `target` halts for has come
//!                stop():       every thread leaves
//! ```
//!
//! # Approach
//! The shared half is [`VcpuSched`], the half of one thread is [`VcpuThread`]: made on the vCPU's own thread, never
//! sent to another, dropped by it. Dropping during a panic is how a dying thread gives back what it holds and ends the
//! run, so no path can forget it.
//!
//! Two schedulers implement the pair: `Lab` ([`dispatch`](crate::dispatch)), which lets one thread per pCPU enter and
//! asks `hostsched` which, and [`HostSched`], which leaves the threads to the kernel.
//!
//! # Glossary
//! - *vCPU index*: dense over all vCPUs of all VMs of the run; the same number is the task's id in `hostsched`.
//! - *halt*, *wake*: the guest gives its CPU up until an interrupt or a kick comes.
//!
//! # Properties
//! - After [`VcpuSched::stop`] every `before_entry` says `Stop` and every `halt` returns, also those already waiting.
//! - No wake is lost: if what `woken` reads was set before `wake`, the halt that it was meant for ends.

#[cfg(test)]
pub(crate) mod fake;
mod host;

use std::fmt;
use std::io;

use crate::kick::Bound;

pub use host::HostSched;

/// A vCPU of the run: dense over the vCPUs of all VMs, VM by VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuIndex(pub u32);

impl VcpuIndex {
    /// As an index into per-vCPU arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a thread may call `KVM_RUN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Permit {
    /// It may, once. It holds its CPU until it halts or asks again.
    Enter,
    /// The run ends: leave the vCPU loop.
    Stop,
}

/// What a scheduler shares among all threads.
pub trait VcpuSched: Send + Sync + fmt::Debug {
    /// Takes the calling thread in as the thread of vCPU `me`; it may be parked from the next call on.
    ///
    /// Called once per vCPU, on its thread, after `bound` tied the vCPU's kick cell to that thread and before any other
    /// call for `me`.
    ///
    /// # Errors
    /// The errno of what the host refused (a timer, the affinity, the cgroup).
    fn attach<'a>(&'a self, me: VcpuIndex, bound: &'a Bound<'a>) -> io::Result<Box<dyn VcpuThread + 'a>>;

    /// What vCPU `target` may be halted for has come. Cheap if it is not halted.
    ///
    /// Called by any thread, vCPU or not, holding no lock that a `woken` or a [`PreemptNotifier`] takes, *after* it
    /// changed what the target's `woken` reads, by a read-modify-write. `from`: the vCPU on whose thread the call is
    /// made, if it is one.
    fn wake(&self, target: VcpuIndex, from: Option<VcpuIndex>);

    /// Ends the run: see the properties above. May be called at any time, by anyone, more than once.
    fn stop(&self);
}

/// One vCPU thread's side. Every method is called by that thread, none while it is in `KVM_RUN`.
///
/// Dropped by the thread when its loop ends. If that is an unwinding panic, the run is stopped.
pub trait VcpuThread: fmt::Debug {
    /// Asks to enter the guest; waits until it may. Called before every `KVM_RUN`, and again whenever the kick cell
    /// forbade the entry. Cheap if nothing changed since the last entry.
    ///
    /// May call [`PreemptNotifier::sched_out`] and `sched_in` for this vCPU.
    fn before_entry(&mut self) -> Permit;

    /// `KVM_RUN` returned, whatever the reason. Called once after each `Enter`, also if the kick cell forbade the entry.
    fn after_exit(&mut self);

    /// The guest halts: gives the CPU up until `woken()` is true or the run stops.
    ///
    /// `woken` must not block and must not call the scheduler; it is asked while scheduler locks are held. Returns at
    /// once if it is already true. A return is not a proof of it: the caller asks its own state again.
    fn halt(&mut self, woken: &dyn Fn() -> bool);

    /// The guest spins for something that another vCPU must do (the PLE exit, or the guest's spin hint).
    fn spin(&mut self);
}

/// Why a vCPU leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedOut {
    /// It could have gone on.
    Preempted,
    /// It halted.
    Halted,
}

/// Told when a vCPU loses and regains its CPU (the kernel's `preempt_notifier`). Implemented by the VMM.
///
/// Both calls come on the vCPU's own thread, strictly in turn (`sched_out` first), outside `KVM_RUN`, with no lock held
/// that another vCPU's way waits for; so they may use vCPU ioctls, but not call the scheduler. Between the two nothing
/// of the guest runs on this vCPU.
pub trait PreemptNotifier: Send + Sync + fmt::Debug {
    /// `vcpu` gives up its CPU and will park right after this: mark its state word.
    fn sched_out(&self, vcpu: VcpuIndex, why: SchedOut);

    /// `vcpu` has a CPU again and may enter right after this: unmark it, and do what was asked for meanwhile.
    fn sched_in(&self, vcpu: VcpuIndex);
}
