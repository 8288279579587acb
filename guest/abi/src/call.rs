//! Doorbell calls: a 32-bit `OUT` to [`PORT_BASE`] + call number.
//!
//! `eax` carries the 32-bit argument, so the host finds everything about a frequent call in `kvm_run` and needs no
//! register ioctl; what does not fit stands in the caller's [`VcpuPage`](crate::vcpu::VcpuPage). No call returns a
//! value. `OUT` has no memory operand and code is never in a flushable mapping, so a vCPU that stops inside a doorbell
//! (halts, or is parked there) holds no translation that the rest of the instruction could still use: the state word
//! may call it halted or preempted. That does not hold for any other exit in the middle of an instruction.

/// Port of call 0. The TSS I/O bitmap opens [`PORT_COUNT`] ports from here to ring 3, and nothing else.
pub const PORT_BASE: u16 = 0x500;
/// Ports reserved for calls. An `OUT` to one without a [`Call`] is a protocol error that ends the run.
pub const PORT_COUNT: u16 = 16;
/// Every call is an `OUT` of this many bytes; another size is a protocol error.
pub const ACCESS_BYTES: usize = 4;

macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)+) => {
        /// What the guest asks. The argument is `eax`; "arg0" is `VcpuPage::arg0` of the caller.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Call { $($(#[$meta])* $name = $number,)+ }

        impl Call {
            /// Every call, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The call behind a port, or `None`: the port is not ours or has no call.
            #[must_use]
            pub const fn from_port(port: u16) -> Option<Self> {
                match port.wrapping_sub(PORT_BASE) { $($number => Some(Self::$name),)+ _ => None }
            }

            /// The name, for counters.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

calls! {
    /// Nothing: the round trip alone, for the doorbell benchmark. Argument ignored.
    Nop = 0,
    /// Raise [`FLUSH_VECTOR`](crate::layout::FLUSH_VECTOR) on every vCPU of the mask in arg0. Bits of vCPUs that do
    /// not exist, and the caller's own, are ignored; an empty mask is a no-op. Returns at once.
    SendIpi = 1,
    /// Block until kicked or until a vector is pending. Returns at once if the kick latch is set, and consumes it.
    /// Interrupts are on (ring 3). May also return for no reason: the caller looks again.
    Halt = 2,
    /// Set the kick latch of the vCPU that the argument names, and wake it if it halts. A number out of range is a
    /// protocol error. A second kick before the latch is consumed is coalesced.
    KickCpu = 3,
    /// The caller has spun for `ple_window` cycles. The host may yield to a sibling. Argument ignored.
    SpinHint = 4,
    /// Flush every vCPU of the mask in arg0 (as for `SendIpi`): when the call returns, each has left guest mode since
    /// the call began or was not in it, and will flush before its next guest instruction.
    FlushOnEnter = 5,
    /// Block as if for a device: for the argument in microseconds, at most [`IO_MAX_US`], longer ones are cut.
    Io = 6,
    /// Print `VcpuPage::console`; the argument is the length in bytes, cut to the buffer's.
    Console = 7,
    /// Tell the host what happened: the argument is a [`Report`].
    Report = 8,
    /// A thread waits in the run queue of the idle vCPU that the argument names. What the host does is what it does for
    /// `KickCpu`: the latch keeps one that comes just before the halt, which a vector would not (it would be handled
    /// between the last look at the queue and the halt). A call of its own, because a run counts them apart.
    SendResched = 9,
    /// Ask the host's one disk, first come first served over all VMs; argument ignored. Returns at once. When the disk has
    /// answered, the host counts up `VcpuPage::host::disk_done` of the caller, raises
    /// [`DISK_VECTOR`](crate::layout::DISK_VECTOR) there and sets its kick latch; the answers to a vCPU come in the order of its
    /// requests. More than [`Geometry::KTHREADS_MAX`](crate::layout::Geometry::KTHREADS_MAX) unanswered requests of a vCPU are
    /// a protocol error.
    DiskIo = 10,
}

impl Call {
    /// The port of this call.
    #[must_use]
    pub const fn port(self) -> u16 {
        PORT_BASE + self as u16
    }
}

/// Longest wait of [`Call::Io`] in microseconds.
pub const IO_MAX_US: u32 = 1_000_000;

/// Argument of [`Call::Report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Report {
    /// This vCPU executes and is about to start its workload. Once, first.
    Online = 1,
    /// `Params::record_limit` is reached; the vCPU keeps halting from now on and still takes vectors.
    Done = 2,
    /// Rust panic; the message was printed through `Console` before. The vCPU stops.
    Panic = 3,
    /// Unexpected exception, described in `VcpuPage::exception`. The vCPU stops.
    Exception = 4,
    /// The guest found a parameter out of range. The vCPU stops.
    BadParams = 5,
}

impl Report {
    /// Reads an argument; `None` is a protocol error.
    #[must_use]
    pub const fn from_arg(arg: u32) -> Option<Self> {
        Some(match arg {
            1 => Self::Online,
            2 => Self::Done,
            3 => Self::Panic,
            4 => Self::Exception,
            5 => Self::BadParams,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_a_call_or_nothing() {
        for port in 0..=u16::MAX {
            match Call::from_port(port) {
                Some(call) => assert_eq!(call.port(), port),
                None => assert!(Call::ALL.iter().all(|call| call.port() != port)),
            }
        }
        assert!(Call::ALL.iter().all(|call| call.port() < PORT_BASE + PORT_COUNT));
    }

    #[test]
    fn unknown_reports_are_refused() {
        assert_eq!(Report::from_arg(0), None);
        assert_eq!(Report::from_arg(6), None);
        assert_eq!(Report::from_arg(Report::Exception as u32), Some(Report::Exception));
    }
}
