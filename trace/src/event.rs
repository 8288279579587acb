//! What can be recorded: one [`Event`] is 24 bytes.
//!
//! | event | kernel's name | recorded on |
//! |---|---|---|
//! | [`What::Switch`] | `sched_switch` | the CPU that switches |
//! | [`What::Waking`], [`What::Wakeup`] | `sched_waking`, `sched_wakeup` | the waker's CPU, the target CPU |
//! | [`What::Migrate`] | `sched_migrate_task` | the CPU that gets the task |
//! | [`What::Entry`], [`What::Exit`] | `kvm_entry`, `kvm_exit` | the CPU in question |
//! | [`What::GuestIpi`], [`What::GuestIrq`] | `kvm_apic_ipi`, `kvm_inj_virq` | sender's, receiver's CPU |
//! | [`What::Kick`] | `kvm_hypercall` (`KVM_HC_KICK_CPU`) | sender's CPU |
//! | [`What::Resched`], [`What::Gang`], [`What::HostIrq`] | `ipi_raise`, `ipi_raise`, `ipi_entry` | sender's, sender's, receiver's CPU |
//! | the rest | `tracing_mark_write`, as user space marks what it does | the CPU in question |
use hostsched::{CpuId, TaskId};

/// Who has a CPU: a task, the idle thread, or the stopper (`migration/N`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Who(u32);

impl Who {
    /// The idle thread of the CPU.
    pub const IDLE: Self = Self(u32::MAX);
    /// The stopper thread of the CPU.
    pub const STOPPER: Self = Self(u32::MAX - 1);

    /// A task.
    #[must_use]
    pub const fn task(task: TaskId) -> Self {
        Self(task.0)
    }

    /// The task, if it is one.
    #[must_use]
    pub const fn as_task(self) -> Option<TaskId> {
        match self {
            Self::IDLE | Self::STOPPER => None,
            Self(id) => Some(TaskId(id)),
        }
    }
}

impl From<hostsched::Running> for Who {
    fn from(running: hostsched::Running) -> Self {
        match running {
            hostsched::Running::Idle => Self::IDLE,
            hostsched::Running::Stopper => Self::STOPPER,
            hostsched::Running::Task(task) => Self::task(task),
        }
    }
}

/// In which state a task left its CPU (`prev_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrevState {
    /// `R`: it could have gone on.
    Runnable,
    /// `S`: it halted or sleeps.
    Sleeping,
    /// `X`: it has ended.
    Dead,
}

impl PrevState {
    /// The kernel's letter.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Runnable => 'R',
            Self::Sleeping => 'S',
            Self::Dead => 'X',
        }
    }
}

/// Why a vCPU left guest mode, by the names of VMX (`VMX_EXIT_REASONS`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ExitReason {
    /// An interrupt of the host: a tick, an IPI, a kick.
    ExternalInterrupt,
    /// The guest can take an interrupt now.
    InterruptWindow,
    /// HLT.
    Hlt,
    /// A pause loop lasted too long.
    PauseInstruction,
    /// A hypercall.
    Vmcall,
    /// A write to a model-specific register: x2APIC's interrupt command.
    MsrWrite,
    /// Port I/O: on KVM the doorbell of this lab's guest.
    IoInstruction,
    /// Something else.
    Other,
}

impl ExitReason {
    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExternalInterrupt => "EXTERNAL_INTERRUPT",
            Self::InterruptWindow => "INTERRUPT_WINDOW",
            Self::Hlt => "HLT",
            Self::PauseInstruction => "PAUSE_INSTRUCTION",
            Self::Vmcall => "VMCALL",
            Self::MsrWrite => "MSR_WRITE",
            Self::IoInstruction => "IO_INSTRUCTION",
            Self::Other => "OTHER",
        }
    }
}

/// What happened. `task` is a vCPU's thread wherever guests are spoken of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The CPU went from `prev` to `next`.
    Switch {
        /// Who had it.
        prev: Who,
        /// How `prev` left it.
        state: PrevState,
        /// Who has it.
        next: Who,
    },
    /// A wake-up of `task` begins.
    Waking {
        /// Who is woken.
        task: TaskId,
        /// The CPU that it had last.
        target: CpuId,
    },
    /// `task` is on the run queue of this CPU.
    Wakeup {
        /// Who was woken.
        task: TaskId,
    },
    /// `task` came to this CPU's run queue.
    Migrate {
        /// Who moved.
        task: TaskId,
        /// From which CPU.
        from: CpuId,
    },
    /// The vCPU enters guest mode.
    Entry {
        /// Which.
        task: TaskId,
    },
    /// The vCPU has left guest mode.
    Exit {
        /// Which.
        task: TaskId,
        /// Why.
        reason: ExitReason,
    },
    /// The vCPU begins to flush others, and waits.
    FlushBegin {
        /// Which.
        task: TaskId,
        /// vCPUs to be flushed, where the engine knows.
        targets: Option<u16>,
    },
    /// Its flush is over.
    FlushEnd {
        /// Which.
        task: TaskId,
    },
    /// An interrupt from vCPU to vCPU is sent.
    GuestIpi {
        /// Sender.
        from: TaskId,
        /// Receiver.
        to: TaskId,
    },
    /// The guest's handler of such interrupts begins, for all that are pending.
    GuestIrq {
        /// Receiver.
        task: TaskId,
    },
    /// One vCPU ends the halt of another (`KVM_HC_KICK_CPU`).
    Kick {
        /// Who kicks.
        from: TaskId,
        /// Whom.
        to: TaskId,
    },
    /// A halt in a flush has ended, by a kick or a timer, or a latched kick kept it from beginning.
    HaltOver {
        /// Whose.
        task: TaskId,
    },
    /// This CPU makes another one look at its run queue.
    Resched {
        /// Which.
        to: CpuId,
    },
    /// This CPU, the leader, asks another one to run the gang too.
    Gang {
        /// Which.
        to: CpuId,
        /// The gang's VM.
        vm: u32,
    },
    /// An interrupt from another CPU has arrived.
    HostIrq {
        /// It stands for all that were sent before it, not for the first of them.
        all: bool,
    },
    /// The vCPU has spun for so long that the host was told.
    Spin {
        /// Which.
        task: TaskId,
        /// It gave its CPU to another vCPU.
        yielded: bool,
    },
    /// The vCPU halts.
    Halt {
        /// Which.
        task: TaskId,
    },
}

/// Something that happened at an instant on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in ns.
    pub at_ns: u64,
    /// Where.
    pub cpu: CpuId,
    /// What.
    pub what: What,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_24_bytes() {
        assert_eq!(size_of::<Event>(), 24);
    }
}
