//! Workloads: what guest threads do, as small programs that hand out one operation at a time.
//!
//! A program is asked for its next operation whenever the last one is over, and sees nothing of the host: how long an
//! operation takes is decided by the guest and the machine below it. One file per workload, each opening with what it
//! does not model.
mod ebizzy;

use plan::{Workload, WorkloadParams};

use crate::machine::Costs;
use crate::rng::Stream;

/// What a thread asks of its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Computes for that many ns on a warm cache without running siblings.
    Work(u64),
    /// Takes mmap_sem for read; blocks if it must.
    DownRead,
    /// Gives it back.
    UpRead,
    /// Takes mmap_sem for write; blocks if it must.
    DownWrite,
    /// Gives it back.
    UpWrite,
    /// Flushes the TLBs of all vCPUs that use the address space, and waits for it.
    Flush,
    /// One record is complete.
    Record,
}

/// What a program may look at.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    /// The machine.
    pub(crate) costs: &'a Costs,
    /// The plan's constants.
    pub(crate) params: &'a WorkloadParams,
    /// The thread's own randomness.
    pub(crate) rng: &'a mut Stream,
}

/// The program of one thread.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// See [`ebizzy`].
    Ebizzy(ebizzy::Ebizzy),
    /// Flushes back to back.
    Flush(bool),
}

impl Program {
    /// A thread of that workload.
    #[must_use]
    pub(crate) fn new(workload: Workload) -> Self {
        match workload {
            Workload::Flush => Self::Flush(false),
            _ => Self::Ebizzy(ebizzy::Ebizzy::default()),
        }
    }

    /// The next operation.
    #[inline]
    pub(crate) fn next(&mut self, env: &mut Env<'_>) -> Op {
        match self {
            Self::Ebizzy(program) => program.next(env),
            Self::Flush(flushed) => {
                *flushed = !*flushed;
                if *flushed { Op::Flush } else { Op::Record }
            }
        }
    }
}
