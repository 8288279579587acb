//! Parameters page: written by the host before the first entry, read-only for the guest, never changed afterwards.

use crate::layout::Geometry;

/// What the guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Workload {
    /// Map, touch, copy, search, unmap, flush.
    Ebizzy = 0,
    /// Map one page, unmap, flush; as fast as it goes.
    Flush = 1,
    /// No-op doorbells, each timed into `Results::record_time`.
    Doorbell = 2,
    /// Groups of senders and receivers over locked queues.
    Hackbench = 3,
    /// A parallel build: many short processes, and a serial tail.
    Kernbench = 4,
    /// Warehouses that allocate, and stop-the-world collections.
    Specjbb = 5,
    /// Clients of a file server on one shared disk.
    Dbench = 6,
    /// Every vCPU takes one lock again and again.
    Spinlock = 7,
    /// Flushes with many pages.
    TlbStorm = 8,
    /// IPIs from every vCPU to every other.
    Ipi = 9,
    /// Lockless page-table walks with interrupts off, while the pages are unmapped and freed.
    Gup = 10,
    /// Computes without end: a neighbour of the VMs under test.
    Spin = 64,
    /// Sleeps and computes in turn: a neighbour of the VMs under test.
    Sleeper = 65,
}

impl Workload {
    /// By number; `None` if it means nothing.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Ebizzy,
            1 => Self::Flush,
            2 => Self::Doorbell,
            3 => Self::Hackbench,
            4 => Self::Kernbench,
            5 => Self::Specjbb,
            6 => Self::Dbench,
            7 => Self::Spinlock,
            8 => Self::TlbStorm,
            9 => Self::Ipi,
            10 => Self::Gup,
            64 => Self::Spin,
            65 => Self::Sleeper,
            _ => return None,
        })
    }
}

/// How a spinlock of the guest waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Lock {
    /// First come first served, spinning.
    Ticket = 0,
    /// Whoever finds it free.
    Unfair = 1,
    /// First come first served: spin [`Params::lock_spins`], halt, who unlocks kicks the next.
    Pv = 2,
    /// The same, but who waits for a vCPU that the host has taken off its CPU halts without spinning on.
    PvEarly = 3,
}

/// Constants of a workload that a [`Params`] page holds.
pub const ARGS: usize = 8;

/// How the guest flushes remote TLBs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Flush {
    /// IPI every target, wait for all.
    Ipi = 0,
    /// The same, but halt after the spin budget; the last acknowledger kicks.
    HaltKick = 1,
    /// Mark the targets that do not run, IPI the others, wait for these.
    OnEnter = 2,
    /// [`Call::FlushOnEnter`](crate::call::Call::FlushOnEnter).
    Hypercall = 3,
    /// `OnEnter` for those that do not run, `HaltKick` for those that do.
    PvFlush = 4,
}

/// Page contents: plain words, so that any bytes are a valid value; the methods give them meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Params {
    /// [`VERSION`](crate::VERSION).
    pub version: u32,
    /// vCPUs of this VM, 1 to 64.
    pub vcpus: u32,
    /// [`Workload`].
    pub workload: u32,
    /// [`Flush`].
    pub flush: u32,
    /// Logical threads a vCPU, 1 to 16.
    pub threads: u32,
    /// Pages of a chunk, 1 to 1024.
    pub chunk_pages: u32,
    /// Search passes over the copy in a record.
    pub search_passes: u32,
    /// Of 1000 records, how many unmap and flush; the others keep their chunk.
    pub flush_per_mille: u32,
    /// Slots that are read at each of the four checks of a record, each once through the real and once through the soft
    /// TLB.
    pub peeks: u32,
    /// Iterations of a wait before `HaltKick` and `PvFlush` halt.
    pub spin_budget: u32,
    /// [`Lock`].
    pub lock: u32,
    /// Iterations of a wait for a [`Lock::Pv`] before it halts.
    pub lock_spins: u32,
    /// Timer ticks a second of a vCPU that has threads to run; 0: none.
    pub guest_hz: u32,
    /// Threads of the guest's scheduler, at most [`Geometry::KTHREADS_MAX`]; each has a stack.
    pub kthreads: u32,
    /// Pages of the heap, at most [`Geometry::HEAP_PAGES_MAX`]: zeroed memory for the workload's tables.
    pub heap_pages: u32,
    /// Iterations of the guest's computing loop that take a millisecond, as the host has measured: times of the plan are
    /// computed as iterations, so that a vCPU without a CPU does not get its computing for free. 0: not measured.
    pub loops_per_ms: u32,
    /// Faults put in on purpose: bits of `FAULT_*`.
    pub faults: u32,
    /// 0: keeps the 64-bit fields aligned.
    pub reserved: u32,
    /// Constants of the workload, in the order in which `plan` lists the parameters of that workload.
    pub args: [u32; ARGS],
    /// Cycles of a wait after which the guest calls `SpinHint`, again and again; 0: never.
    pub ple_window_cycles: u64,
    /// Turns (or doorbells) of a vCPU after which it reports `Done`; 0: none. Where the guest has threads, the first vCPU that
    /// reaches it ends the work of all, which report `Done` when their threads have ended.
    pub record_limit: u64,
    /// Seed of everything random in this VM.
    pub seed: u64,
}

/// Fault of workloads with a check of their work: one piece in [`FAULT_PERIOD`] is lost (a message, an object). The check
/// must find out.
pub const FAULT_LOST_WORK: u32 = 1;
/// Fault of every spinlock: of those who wait for a lock, one in [`FAULT_PERIOD`] does not. The check of `spinlock` must
/// find out.
pub const FAULT_BROKEN_LOCK: u32 = 2;
/// Fault of `gup`: frames are free as soon as their flush has ended, whoever still walks. Its check must find out where a flush
/// does not wait for interrupts to come on.
pub const FAULT_EARLY_FREE: u32 = 4;
/// How seldom a fault comes.
pub const FAULT_PERIOD: u64 = 64;

impl Params {
    /// Parameters that every geometry accepts: one vCPU, no work. For `..Params::MINIMAL`.
    pub const MINIMAL: Self = Self {
        version: crate::VERSION,
        vcpus: 1,
        workload: Workload::Ebizzy as u32,
        flush: Flush::Ipi as u32,
        threads: 1,
        chunk_pages: 1,
        search_passes: 0,
        flush_per_mille: 1000,
        peeks: 4,
        spin_budget: 1024,
        lock: Lock::Ticket as u32,
        lock_spins: 2048,
        guest_hz: 0,
        kthreads: 0,
        heap_pages: 0,
        loops_per_ms: 0,
        faults: 0,
        reserved: 0,
        args: [0; ARGS],
        ple_window_cycles: 0,
        record_limit: 0,
        seed: 0,
    };

    /// The workload, `None` if the number means nothing.
    #[must_use]
    pub const fn workload(&self) -> Option<Workload> {
        Workload::from_number(self.workload)
    }

    /// The flush strategy, `None` if the number means nothing.
    #[must_use]
    pub const fn flush(&self) -> Option<Flush> {
        Some(match self.flush {
            0 => Flush::Ipi,
            1 => Flush::HaltKick,
            2 => Flush::OnEnter,
            3 => Flush::Hypercall,
            4 => Flush::PvFlush,
            _ => return None,
        })
    }

    /// The kind of lock, `None` if the number means nothing.
    #[must_use]
    pub const fn lock(&self) -> Option<Lock> {
        Some(match self.lock {
            0 => Lock::Ticket,
            1 => Lock::Unfair,
            2 => Lock::Pv,
            3 => Lock::PvEarly,
            _ => return None,
        })
    }

    /// The memory that these parameters need, `None` if a number is out of range.
    #[must_use]
    pub const fn geometry(&self) -> Option<Geometry> {
        match Geometry::new(self.vcpus, self.threads, self.chunk_pages) {
            Some(geometry) => geometry.with_threads(self.kthreads, self.heap_pages),
            None => None,
        }
    }

    /// The page's bytes, little-endian, in the order of the fields.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let narrow = [
            self.version,
            self.vcpus,
            self.workload,
            self.flush,
            self.threads,
            self.chunk_pages,
            self.search_passes,
            self.flush_per_mille,
            self.peeks,
            self.spin_budget,
            self.lock,
            self.lock_spins,
            self.guest_hz,
            self.kthreads,
            self.heap_pages,
            self.loops_per_ms,
            self.faults,
            self.reserved,
        ];
        let wide = [self.ple_window_cycles, self.record_limit, self.seed];
        let mut bytes = [0; size_of::<Self>()];
        let (low, high) = bytes.split_at_mut(size_of_val(&narrow) + size_of_val(&self.args));
        for (to, from) in low.chunks_exact_mut(4).zip(narrow.into_iter().chain(self.args)) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        for (to, from) in high.chunks_exact_mut(8).zip(wide) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }
}

const _: () = {
    assert!(size_of::<Params>() == 128);
    assert!(core::mem::offset_of!(Params, spin_budget) == 36);
    assert!(core::mem::offset_of!(Params, args) == 72);
    assert!(core::mem::offset_of!(Params, ple_window_cycles) == 104);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_fields() {
        let params = Params { spin_budget: 0x0403_0201, seed: 9, args: [5, 0, 0, 0, 0, 0, 0, 6], ..Params::MINIMAL };
        let bytes = params.to_bytes();
        assert_eq!(bytes[36..40], [1, 2, 3, 4]);
        assert_eq!((bytes[72], bytes[100], bytes[120]), (5, 6, 9));
    }

    #[test]
    fn numbers_without_meaning_are_refused() {
        assert_eq!(Params { workload: 11, ..Params::MINIMAL }.workload(), None);
        assert_eq!(Params { lock: 4, ..Params::MINIMAL }.lock(), None);
        assert_eq!(Params { flush: 5, ..Params::MINIMAL }.flush(), None);
        assert_eq!(Params { vcpus: 0, ..Params::MINIMAL }.geometry(), None);
        assert_eq!(Params { kthreads: Geometry::KTHREADS_MAX + 1, ..Params::MINIMAL }.geometry(), None);
    }
}
