//! Faults as inputs of a run: what happens when. [`crate::world`] carries them out.
//!
//! ```text
//!   100ms:cpu-off=3        CPU 3 goes off line 100 ms after the start, the warm-up included
//!   300ms:cpu-on=3         it comes back
//!   200ms:group-gone=1     the cgroup of VM 1 is removed; its vCPUs go to the parent
//!   250ms:vcpu-killed=0.2  the thread of vCPU 2 of VM 0 is killed, and with it the VM
//! ```
use std::fmt;
use std::str::FromStr;

use plan::{RunPlan, format_ns};

use crate::machine::Machine;

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

/// The names of kinds, as they are written.
const NAMES: [&str; 4] = ["cpu-off", "cpu-on", "group-gone", "vcpu-killed"];

impl Fault {
    /// What it would happen to, if that does not exist.
    pub(crate) fn missing(&self, plan: &RunPlan, machine: &Machine) -> Option<String> {
        let vm_is_missing = |vm: u32| (vm >= plan.vms).then(|| format!("VM {vm} among {}, from 0", plan.vms));
        match self.kind {
            FaultKind::CpuOffline(cpu) | FaultKind::CpuOnline(cpu) => {
                let cpus = machine.topology.cpus();
                (!cpus.iter().any(|known| known.id.0 == cpu)).then(|| format!("CPU {cpu} among {}, from 0", cpus.len()))
            }
            FaultKind::GroupRemoved { vm } => vm_is_missing(vm),
            FaultKind::VcpuKilled { vm, vcpu } => vm_is_missing(vm)
                .or_else(|| (vcpu >= plan.vcpus).then(|| format!("vCPU {vcpu} among {}, from 0", plan.vcpus))),
        }
    }

    /// As [`FromStr`] reads it.
    #[must_use]
    pub fn written(&self) -> String {
        let at = format_ns(self.at_ns);
        let [off, on, gone, killed] = NAMES;
        match self.kind {
            FaultKind::CpuOffline(cpu) => format!("{at}:{off}={cpu}"),
            FaultKind::CpuOnline(cpu) => format!("{at}:{on}={cpu}"),
            FaultKind::GroupRemoved { vm } => format!("{at}:{gone}={vm}"),
            FaultKind::VcpuKilled { vm, vcpu } => format!("{at}:{killed}={vm}.{vcpu}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = || format!("write TIME:WHAT=N, as in 100ms:cpu-off=3; WHAT is one of {}", NAMES.join(", "));
        let (at, what) = text.split_once(':').ok_or_else(shape)?;
        let (kind, of) = what.split_once('=').ok_or_else(shape)?;
        let at_ns = time_ns(at).ok_or_else(|| format!("'{at}' is no time: write 100ms, 5us or 1s"))?;
        let number = |text: &str| text.parse().map_err(|_| format!("'{of}' is no number of what '{kind}' happens to"));
        let kind = match kind {
            "cpu-off" => FaultKind::CpuOffline(number(of)?),
            "cpu-on" => FaultKind::CpuOnline(number(of)?),
            "group-gone" => FaultKind::GroupRemoved { vm: number(of)? },
            "vcpu-killed" => {
                let (vm, vcpu) =
                    of.split_once('.').ok_or_else(|| format!("'{of}' is no vCPU: write VM.VCPU, as in 0.2"))?;
                FaultKind::VcpuKilled { vm: number(vm)?, vcpu: number(vcpu)? }
            }
            _ => return Err(shape()),
        };
        Ok(Self { at_ns, kind })
    }
}

/// Nanoseconds of a whole number with its unit, as [`format_ns`] writes it.
fn time_ns(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["100ms:cpu-off=3", "0ns:cpu-on=0", "1s:group-gone=7", "1500us:vcpu-killed=0.12"] {
            assert_eq!(text.parse::<Fault>().unwrap().written(), text);
        }
    }

    #[test]
    fn nonsense_is_answered_with_what_would_be_right() {
        for (text, want) in [
            ("cpu-off=3", "write TIME:WHAT=N"),
            ("1ms:cpu-off", "write TIME:WHAT=N"),
            ("1ms:cpu-gone=1", "one of cpu-off, cpu-on, group-gone, vcpu-killed"),
            ("1:cpu-off=1", "'1' is no time"),
            ("99999999999999h:cpu-off=1", "is no time"),
            ("1ms:cpu-off=-1", "'-1' is no number"),
            ("1ms:vcpu-killed=1", "write VM.VCPU"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
