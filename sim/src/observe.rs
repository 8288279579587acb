//! What an observer of a run is told: every event of the simulated host, as it happens.
//!
//! ```text
//!   World ── tell(Event) ──► Sink   log.rs: one line an event
//!                                   swarm/ledger.rs: its own books, to compare
//!                                   anything else, through Sim::watched
//! ```
//! Without a sink each hook point is one test of a word that is never written during a run. A sink sees and never acts:
//! the run's digest is the same with one and without.
use std::fmt;

use hostsched::CpuId;
use plan::RunPlan;

/// A vCPU: the VM, and its number there. Written `VM.VCPU`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VcpuName {
    /// The VM, from 0.
    pub vm: u32,
    /// Its number in the VM, from 0.
    pub vcpu: u32,
}

impl fmt::Display for VcpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.vm, self.vcpu)
    }
}

/// Who has a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Nobody.
    Idle,
    /// The host's kernel thread of that CPU.
    Daemon,
    /// A vCPU's thread.
    Vcpu(VcpuName),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("-"),
            Self::Daemon => f.write_str("k"),
            Self::Vcpu(name) => name.fmt(f),
        }
    }
}

/// What one CPU interrupts another for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// `smp_send_reschedule`.
    Resched,
    /// A woken task waits on the receiver's wake list.
    Wakeup,
    /// A gang leader asks for that VM.
    Gang {
        /// The VM.
        vm: u32,
    },
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// `schedule` has chosen: `next` has the CPU from now on. Also told if it is `prev` again (a re-pick).
    Pick {
        /// Where.
        cpu: CpuId,
        /// Who had it.
        prev: Who,
        /// Who has it.
        next: Who,
    },
    /// The vCPU enters guest mode.
    Enter {
        /// Where.
        cpu: CpuId,
        /// Who.
        vcpu: VcpuName,
    },
    /// It leaves guest mode.
    Exit {
        /// Where.
        cpu: CpuId,
        /// Who.
        vcpu: VcpuName,
    },
    /// It halts in the host, just after it has left guest mode.
    Halt {
        /// Where.
        cpu: CpuId,
        /// Who.
        vcpu: VcpuName,
    },
    /// A halted vCPU is woken.
    Wake {
        /// Who.
        vcpu: VcpuName,
        /// The CPU that executes the waker.
        by: CpuId,
        /// The CPU where it will run, as far as is known yet.
        on: CpuId,
    },
    /// An interrupt is under way.
    Send {
        /// The CPU that executes the sender, if one does.
        from: Option<CpuId>,
        /// Where it goes.
        to: CpuId,
        /// What for.
        what: Interrupt,
    },
    /// It has arrived.
    Receive {
        /// Where.
        cpu: CpuId,
        /// What for.
        what: Interrupt,
        /// It comes while the CPU executes the host, which looks at `need_resched` only when that ends.
        deferred: bool,
        /// A gang request found members of its VM here.
        heeded: bool,
    },
    /// The tick of a CPU gives work to its kernel thread.
    Noise {
        /// Where.
        cpu: CpuId,
    },
    /// A vCPU begins a flush.
    FlushBegin {
        /// Who.
        vcpu: VcpuName,
        /// Targets that must acknowledge, a bit each.
        outstanding: u64,
    },
    /// A target has flushed, or will have in a moment (its handler runs).
    FlushAck {
        /// The target.
        by: VcpuName,
        /// Whose flush.
        of: VcpuName,
    },
    /// A flush is over.
    FlushEnd {
        /// Whose.
        vcpu: VcpuName,
        /// Since its beginning (ns).
        waited_ns: u64,
        /// Targets that have not acknowledged: halt-kick as it was posted returns with some.
        outstanding: u64,
    },
    /// The host flushes that vCPU before it executes again.
    Mark {
        /// Who.
        vcpu: VcpuName,
    },
    /// A vCPU kicks another out of its halt, or sets its latch.
    Kick {
        /// Who kicks.
        by: VcpuName,
        /// Who is kicked.
        to: VcpuName,
    },
    /// A pause loop has made the processor leave the guest.
    PauseExit {
        /// Where.
        cpu: CpuId,
        /// Who.
        vcpu: VcpuName,
        /// A directed yield followed.
        yielded: bool,
    },
    /// A VM starts.
    Start {
        /// Which.
        vm: u32,
    },
    /// A CPU goes off line.
    Offline {
        /// Which.
        cpu: CpuId,
    },
    /// A CPU comes on line.
    Online {
        /// Which.
        cpu: CpuId,
    },
    /// The group of a VM is removed; its vCPUs go to the root group.
    GroupRemoved {
        /// Which VM.
        vm: u32,
    },
    /// A vCPU's thread is killed, and with it its VM.
    Killed {
        /// Which.
        vcpu: VcpuName,
    },
}

/// Takes the events of one run in their order.
pub trait Sink: fmt::Debug {
    /// At `now_ns` since the start of the run this happens.
    fn event(&mut self, now_ns: u64, event: Event);
    /// The run has ended.
    fn end(&mut self, now_ns: u64);
}

/// Gives each run its sink.
pub trait Watch: fmt::Debug + Send + Sync {
    /// A run of that plan begins; `None` if nobody wants to see it.
    fn begin(&self, plan: &RunPlan) -> Option<Box<dyn Sink>>;
}
