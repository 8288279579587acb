//! Faults as inputs of a run: what happens when. [`crate::world`] carries them out.
use std::fmt;

use plan::format_ns;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A CPU goes off line.
    CpuOffline(u32),
    /// A CPU that went off line comes back.
    CpuOnline(u32),
    /// The cgroup of a VM is removed; its vCPUs go to the parent.
    GroupRemoved {
        /// Which VM, from 0.
        vm: u32,
    },
    /// A vCPU's thread is killed, and with it its VM.
    VcpuKilled {
        /// Which VM, from 0.
        vm: u32,
        /// Which of its vCPUs, from 0.
        vcpu: u32,
    },
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Time since the start of the run, in virtual ns.
    pub at_ns: u64,
    /// What happens then.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = format_ns(self.at_ns);
        match self.kind {
            FaultKind::CpuOffline(cpu) => write!(f, "CPU {cpu} off line at {at}"),
            FaultKind::CpuOnline(cpu) => write!(f, "CPU {cpu} on line at {at}"),
            FaultKind::GroupRemoved { vm } => write!(f, "group of VM {vm} removed at {at}"),
            FaultKind::VcpuKilled { vm, vcpu } => write!(f, "vCPU {vcpu} of VM {vm} killed at {at}"),
        }
    }
}
