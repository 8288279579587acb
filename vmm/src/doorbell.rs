//! The doorbell: from an untrusted `OUT` to a checked call.
//!
//! Everything that a guest can choose (port, size, argument, the mask in its page) passes through [`Doorbell::parse`]
//! and comes out as a value that cannot be wrong: masks are cut to the VM's vCPUs, numbers are in range, unknown ones
//! are refused. What comes after never sees a raw guest value. Calls and their meaning: [`abi::call`].

use std::time::Duration;

use abi::call::{ACCESS_BYTES, Call, IO_MAX_US, Report};
use abi::vcpu::VcpuPage;

use crate::sync::Ordering;

/// A set of vCPUs of one VM, all of which exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuSet(u64);

impl VcpuSet {
    /// `mask` without the bits of vCPUs that do not exist and of `me`.
    #[must_use]
    pub const fn cut(mask: u64, vcpus: u32, me: u32) -> Self {
        Self(mask & abi::vcpu_mask(vcpus) & !(1 << me))
    }

    /// The vCPU numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |vcpu| self.0 >> vcpu & 1 == 1)
    }

    /// Number of vCPUs in the set.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A call that may be carried out as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doorbell {
    /// Nothing.
    Nop,
    /// Raise the flush vector on each.
    SendIpi(VcpuSet),
    /// Block until kicked or interrupted.
    Halt,
    /// Set the kick latch of this vCPU.
    KickCpu(u32),
    /// The same, because a thread waits for that vCPU.
    SendResched(u32),
    /// The guest spins.
    SpinHint,
    /// Flush each before its next instruction.
    FlushOnEnter(VcpuSet),
    /// Block for a time.
    Io(Duration),
    /// Ask the disk.
    DiskIo,
    /// Print this many bytes of the console buffer; the buffer's accessor cuts the length.
    Console(u32),
    /// The guest says what happened.
    Report(Report),
}

/// What a guest may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// An `OUT` to a port without a call.
    #[error("wrote to port {port:#x}, which is not a doorbell call")]
    NoSuchCall {
        /// The port.
        port: u16,
    },
    /// An `OUT` of another size.
    #[error("rang {call} with {bytes} bytes; every call is an OUT of {ACCESS_BYTES} bytes")]
    Size {
        /// The call.
        call: &'static str,
        /// Size of the access.
        bytes: usize,
    },
    /// An `IN`.
    #[error("read from port {port:#x}; a doorbell is only written")]
    In {
        /// The port.
        port: u16,
    },
    /// A vCPU number out of range.
    #[error("kicked vCPU {vcpu} of a VM that has vCPUs 0 to {last}")]
    NoSuchVcpu {
        /// The number.
        vcpu: u32,
        /// The last that exists.
        last: u32,
    },
    /// More requests to the disk than a guest has threads.
    #[error("asked the disk with {max} requests of that vCPU unanswered; no more are allowed")]
    DiskFull {
        /// As many as there may be.
        max: u32,
    },
    /// A report without meaning.
    #[error("made report {number}, which does not exist")]
    NoSuchReport {
        /// The number.
        number: u32,
    },
}

impl Doorbell {
    /// Reads an `OUT` of `data` to `port` by vCPU `me` of a VM with `vcpus` vCPUs, whose page is `page`.
    ///
    /// # Errors
    /// What the guest did wrong.
    pub fn parse(port: u16, data: &[u8], page: &VcpuPage, vcpus: u32, me: u32) -> Result<(Call, Self), ProtocolError> {
        let call = Call::from_port(port).ok_or(ProtocolError::NoSuchCall { port })?;
        let bytes: [u8; ACCESS_BYTES] =
            data.try_into().map_err(|_| ProtocolError::Size { call: call.name(), bytes: data.len() })?;
        let arg = u32::from_le_bytes(bytes);
        // The one read of the mask: what the guest stores there afterwards is not seen.
        let mask = || VcpuSet::cut(page.call.0.arg0.load(Ordering::Relaxed), vcpus, me);
        let doorbell = match call {
            Call::Nop => Self::Nop,
            Call::SendIpi => Self::SendIpi(mask()),
            Call::Halt => Self::Halt,
            Call::KickCpu if arg < vcpus => Self::KickCpu(arg),
            Call::SendResched if arg < vcpus => Self::SendResched(arg),
            Call::KickCpu | Call::SendResched => return Err(ProtocolError::NoSuchVcpu { vcpu: arg, last: vcpus - 1 }),
            Call::SpinHint => Self::SpinHint,
            Call::FlushOnEnter => Self::FlushOnEnter(mask()),
            Call::Io => Self::Io(Duration::from_micros(arg.min(IO_MAX_US).into())),
            Call::DiskIo => Self::DiskIo,
            Call::Console => Self::Console(arg),
            Call::Report => Self::Report(Report::from_arg(arg).ok_or(ProtocolError::NoSuchReport { number: arg })?),
        };
        Ok((call, doorbell))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::GuestMemory;

    proptest! {
        #[test]
        fn whatever_a_guest_writes_becomes_a_call_in_range_or_an_error(
            port in 0x4f0u16..0x520, data in proptest::collection::vec(any::<u8>(), 0..9),
            mask in any::<u64>(), vcpus in 1u32..=64, me in 0u32..64,
        ) {
            prop_assume!(me < vcpus);
            let memory = GuestMemory::new(4096).unwrap();
            let page: &VcpuPage = memory.shared(0).unwrap();
            page.call.0.arg0.store(mask, Ordering::Relaxed);
            match Doorbell::parse(port, &data, page, vcpus, me) {
                Ok((_, Doorbell::SendIpi(set) | Doorbell::FlushOnEnter(set))) => {
                    prop_assert!(set.iter().all(|vcpu| vcpu < vcpus && vcpu != me));
                    prop_assert_eq!(set.iter().count(), set.len() as usize);
                }
                Ok((_, Doorbell::KickCpu(vcpu) | Doorbell::SendResched(vcpu))) => prop_assert!(vcpu < vcpus),
                Ok((_, Doorbell::Io(time))) => prop_assert!(time <= Duration::from_secs(1)),
                Ok((call, _)) => prop_assert_eq!(Call::from_port(port), Some(call)),
                Err(_) => {}
            }
        }
    }

    #[test]
    fn errors_name_the_value_and_what_would_be_right() {
        let memory = GuestMemory::new(4096).unwrap();
        let page: &VcpuPage = memory.shared(0).unwrap();
        let error = |port: u16, data: &[u8]| Doorbell::parse(port, data, page, 8, 0).unwrap_err().to_string();
        assert_eq!(error(Call::KickCpu.port(), &[8, 0, 0, 0]), "kicked vCPU 8 of a VM that has vCPUs 0 to 7");
        assert!(error(Call::Halt.port(), &[0]).contains("1 bytes"));
        assert!(error(0x50f, &[0; 4]).contains("0x50f"));
    }
}
