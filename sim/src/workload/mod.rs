//! Workloads: what guest threads do, as small programs that hand out one operation at a time.
//!
//! A program is asked for its next operation whenever the last one is over, and sees nothing of the host: how long an
//! operation takes is decided by the guest and the machine below it. Threads of a VM share a small state ([`Shared`]); a
//! program that looks at it and then asks for an operation does both at one instant. One file per workload, each opening
//! with what it does not model.
mod dbench;
mod ebizzy;
mod hackbench;
mod ipi;
mod kernbench;
mod neighbour;
mod specjbb;
mod spinlock;
mod tlb_storm;

use plan::{Neighbour, Workload, WorkloadParams};

use crate::machine::Costs;
use crate::rng::Stream;
use crate::world::{LockId, WaitId};

/// How far pieces of work lie around their mean: the luck of allocators, hash chains and searches.
const SPREAD_PERCENT: u64 = 30;

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
    /// Interrupts the sibling whose turn that is, and waits for its answer.
    Ipi(u32),
    /// `spin_lock`.
    Lock(LockId),
    /// `spin_lock_irqsave`, outside of any other lock.
    LockIrqsave(LockId),
    /// `spin_unlock`, `spin_unlock_irqrestore`.
    Unlock(LockId),
    /// Sleeps on a wait queue until it is woken.
    Sleep(WaitId),
    /// Wakes the first so many that sleep there.
    Wake(WaitId, u32),
    /// The first that sleeps there is a new process: it goes to the vCPU with least to do.
    Fork(WaitId),
    /// Asks the disk, and sleeps until it answers.
    Disk,
    /// Sleeps for that many ns.
    Nap(u64),
    /// Goes on after a nap.
    Awake,
    /// One record is complete.
    Record,
}

/// What the threads of a VM do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The plan's workload.
    Workload(Workload),
    /// What a neighbour does, with one thread.
    Neighbour(Neighbour),
}

impl Load {
    /// Threads of a VM.
    #[must_use]
    pub(crate) fn threads(self, params: &WorkloadParams, vcpus: u32) -> u32 {
        match self {
            Self::Workload(workload) => u32::try_from(params.threads(workload, vcpus)).unwrap_or(u32::MAX),
            Self::Neighbour(_) => 1,
        }
    }
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

/// What the threads of a VM share, by workload.
#[derive(Debug, Clone)]
pub(crate) enum Shared {
    /// Nothing but locks.
    Nothing { locks: usize },
    /// See [`ipi`].
    Answers,
    /// See [`hackbench`].
    Queues(Vec<hackbench::Queue>),
    /// See [`kernbench`].
    Build(kernbench::Build),
    /// See [`specjbb`].
    Heap(specjbb::Heap),
}

impl Shared {
    /// The state of a VM before its first thread runs.
    #[must_use]
    pub(crate) fn new(load: Load, params: &WorkloadParams, vcpus: u32) -> Self {
        let Load::Workload(workload) = load else { return Self::Nothing { locks: 0 } };
        match workload {
            // `gup` is refused before; without its walks it would be `flush`.
            Workload::Ebizzy | Workload::Flush | Workload::Gup => Self::Nothing { locks: 0 },
            Workload::TlbStorm => Self::Nothing { locks: tlb_storm::LOCKS },
            Workload::Ipi => Self::Answers,
            Workload::Dbench => Self::Nothing { locks: dbench::LOCKS },
            Workload::Spinlock => Self::Nothing { locks: spinlock::LOCKS },
            Workload::Hackbench => Self::Queues(hackbench::queues(params)),
            Workload::Kernbench => Self::Build(kernbench::Build::default()),
            Workload::Specjbb => Self::Heap(specjbb::Heap::new(params, vcpus)),
        }
    }

    /// Spinlocks that its threads use.
    #[must_use]
    pub(crate) fn locks(&self) -> usize {
        match self {
            Self::Nothing { locks } => *locks,
            Self::Queues(queues) => queues.len(),
            Self::Build(_) => kernbench::LOCKS,
            Self::Heap(_) | Self::Answers => 0,
        }
    }

    /// Wait queues that its threads use.
    #[must_use]
    pub(crate) fn waits(&self) -> usize {
        match self {
            Self::Nothing { .. } => 0,
            Self::Answers => ipi::WAITS,
            Self::Queues(queues) => 2 * queues.len(),
            Self::Build(_) => kernbench::WAITS,
            Self::Heap(_) => specjbb::WAITS,
        }
    }

    /// Work that is lost, or done twice, as a sentence.
    pub(crate) fn broken(&self) -> Option<String> {
        match self {
            Self::Nothing { .. } | Self::Answers => None,
            Self::Queues(queues) => hackbench::broken(queues),
            Self::Build(build) => kernbench::broken(build),
            Self::Heap(heap) => heap.broken(),
        }
    }
}

/// The program of one thread.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// See [`ebizzy`].
    Ebizzy(ebizzy::Ebizzy),
    /// See [`hackbench`].
    Hackbench(hackbench::Hackbench),
    /// See [`kernbench`].
    Kernbench(kernbench::Kernbench),
    /// See [`specjbb`].
    Specjbb(specjbb::Specjbb),
    /// See [`dbench`].
    Dbench(dbench::Dbench),
    /// See [`spinlock`].
    Spinlock(spinlock::Spinlock),
    /// Flushes back to back.
    Flush(bool),
    /// See [`tlb_storm`].
    TlbStorm(tlb_storm::TlbStorm),
    /// See [`ipi`].
    Ipi(ipi::Ipi),
    /// See [`neighbour`].
    Neighbour(neighbour::Beside),
}

impl Program {
    /// The thread of that number in its VM.
    #[must_use]
    pub(crate) fn new(load: Load, role: u32, params: &WorkloadParams) -> Self {
        let workload = match load {
            Load::Workload(workload) => workload,
            Load::Neighbour(kind) => return Self::Neighbour(neighbour::Beside::new(kind)),
        };
        match workload {
            Workload::Ebizzy => Self::Ebizzy(ebizzy::Ebizzy::default()),
            Workload::Hackbench => Self::Hackbench(hackbench::Hackbench::new(role, params)),
            Workload::Kernbench => Self::Kernbench(kernbench::Kernbench::new(role)),
            Workload::Specjbb => Self::Specjbb(specjbb::Specjbb::new(role, params)),
            Workload::Dbench => Self::Dbench(dbench::Dbench::default()),
            Workload::Spinlock => Self::Spinlock(spinlock::Spinlock::default()),
            Workload::Flush | Workload::Gup => Self::Flush(false),
            Workload::TlbStorm => Self::TlbStorm(tlb_storm::TlbStorm::default()),
            Workload::Ipi => Self::Ipi(ipi::Ipi::new(role, params.ipi_senders)),
        }
    }

    /// The next operation.
    #[inline]
    pub(crate) fn next(&mut self, env: &mut Env<'_>, shared: &mut Shared) -> Op {
        match (self, shared) {
            (Self::Ebizzy(program), _) => program.next(env),
            (Self::Hackbench(program), Shared::Queues(queues)) => program.next(env, queues),
            (Self::Kernbench(program), Shared::Build(build)) => program.next(env, build),
            (Self::Specjbb(program), Shared::Heap(heap)) => program.next(env, heap),
            (Self::Dbench(program), _) => program.next(env),
            (Self::Spinlock(program), _) => program.next(env),
            (Self::TlbStorm(program), _) => program.next(env),
            (Self::Ipi(program), _) => program.next(),
            (Self::Neighbour(program), _) => program.next(),
            (Self::Flush(flushed), _) => {
                *flushed = !*flushed;
                if *flushed { Op::Flush } else { Op::Record }
            }
            (program, shared) => unreachable!("{program:?} does not share {shared:?}"),
        }
    }
}
