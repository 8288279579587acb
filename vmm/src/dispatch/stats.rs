//! What one pCPU's token holder counts. Guarded by a lock that only the holder takes in the course of a run.

use hdrhistogram::Histogram;

/// Largest value of the histograms: 100 s. Longer waits are counted as that.
const LONGEST_NS: u64 = 100_000_000_000;

/// Significant digits: 1 % at any size, in 60 KiB.
const DIGITS: u8 = 2;

/// Counters and histograms of one pCPU.
#[derive(Debug, Clone)]
pub(super) struct CpuStats {
    /// From runnable to running, ns.
    pub(super) runqueue_wait: Histogram<u64>,
    /// From the kick of the CPU to the next entry there, ns.
    pub(super) dispatch: Histogram<u64>,
    /// From the pick to the incoming thread's first instruction, ns.
    pub(super) hand_over: Histogram<u64>,
    /// Times that the CPU went from one vCPU to another.
    pub(super) switches: u64,
    /// Affinity changes of kernel threads that were given this CPU.
    pub(super) migrations: u64,
    /// Time that those system calls took.
    pub(super) migration_ns: u64,
    /// Ticks taken.
    pub(super) ticks: u64,
    /// Halts that gave the CPU up.
    pub(super) halts: u64,
    /// Time during which a vCPU had the CPU and the host's kernel ran something else there.
    pub(super) steal_ns: u64,
}

impl CpuStats {
    pub(super) fn new() -> Self {
        Self {
            runqueue_wait: histogram(),
            dispatch: histogram(),
            hand_over: histogram(),
            switches: 0,
            migrations: 0,
            migration_ns: 0,
            ticks: 0,
            halts: 0,
            steal_ns: 0,
        }
    }
}

/// An empty histogram of nanoseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).unwrap_or_else(|error| unreachable!("constant bounds: {error}"))
}
