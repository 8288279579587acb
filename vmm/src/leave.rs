//! Why a vCPU thread left its loop, and which check of the run that fails.

use std::any::Any;
use std::io;

use kvm_ioctls::VcpuExit;

use crate::doorbell::ProtocolError;

/// The reason; all but [`Leave::Stopped`] fail the run. Displayed as what the vCPU did: "VM 0 vCPU 3 at RIP 0x...: ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Leave {
    /// The run ended.
    #[error("was stopped")]
    Stopped,
    /// It ended although nobody had asked it to: a fault of vmmlab.
    #[error("its thread ended before the run did")]
    Early,
    /// The guest misused the doorbell.
    #[error("the guest {0}")]
    Protocol(ProtocolError),
    /// The guest kernel panicked.
    #[error("the guest kernel panicked")]
    GuestPanic,
    /// The guest refused its parameters.
    #[error("the guest refused its parameters")]
    BadParams,
    /// The guest took an exception that it has no handler for.
    #[error("the guest took exception {vector} (error code {error:#x}, CR2 {cr2:#x}) at {rip:#x}")]
    Exception {
        /// Vector.
        vector: u64,
        /// Error code.
        error: u64,
        /// Where.
        rip: u64,
        /// Faulting address of a page fault.
        cr2: u64,
    },
    /// KVM_EXIT_SHUTDOWN.
    #[error("the guest shut down: a triple fault")]
    TripleFault,
    /// An exit that a guest of ours cannot cause on a working host.
    #[error("KVM_RUN returned {0}, which no guest of this lab may cause")]
    UnexpectedExit(String),
    /// The host refused something.
    #[error("{what} failed: {reason}")]
    Host {
        /// The call.
        what: &'static str,
        /// The system's words.
        reason: String,
    },
    /// A fault of vmmlab.
    #[error("its thread panicked: {0}")]
    Panicked(String),
}

impl Leave {
    pub(crate) fn host(what: &'static str, error: &io::Error) -> Self {
        Self::Host { what, reason: error.to_string() }
    }

    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Self::Panicked(text.or_else(|| payload.downcast_ref().cloned()).unwrap_or_else(|| "no message".into()))
    }

    pub(crate) fn unexpected(exit: &VcpuExit<'_>) -> Self {
        match exit {
            VcpuExit::Shutdown => Self::TripleFault,
            VcpuExit::IoIn(port, _) => Self::Protocol(ProtocolError::In { port: *port }),
            other => Self::UnexpectedExit(format!("{other:?}")),
        }
    }

    /// The failed check's stable name; `None` if nothing failed.
    #[must_use]
    pub const fn check(&self) -> Option<&'static str> {
        Some(match self {
            Self::Stopped => return None,
            Self::Protocol(_) | Self::GuestPanic | Self::BadParams | Self::Exception { .. } | Self::TripleFault => {
                "guest-crash"
            }
            Self::Early | Self::UnexpectedExit(_) | Self::Host { .. } | Self::Panicked(_) => "vcpu-thread",
        })
    }
}
