//! What a run counts. Integers only; [`crate::record`] turns it into the result.
use abi::vcpu::Doing;
use hdrhistogram::Histogram;

use crate::vcpu::Phase;

/// Counters of the measured time, all VMs together; names as in `plan::metric`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) flushes: u64,
    pub(crate) flush_targets: u64,
    pub(crate) flush_ipis: u64,
    pub(crate) flush_marks: u64,
    pub(crate) flush_wait_ns: u64,
    pub(crate) guest_halts: u64,
    pub(crate) guest_kicks: u64,
    pub(crate) exits: u64,
    pub(crate) guest_ns: u64,
    pub(crate) switches: u64,
    pub(crate) migrations: u64,
    pub(crate) wakeups: u64,
    pub(crate) ticks: u64,
    pub(crate) early_returns: u64,
    pub(crate) empty_acks: u64,
    pub(crate) lock_acquisitions: u64,
    pub(crate) lock_contended: u64,
    pub(crate) lock_wait_ns: u64,
    pub(crate) lock_holder_preemptions: u64,
    pub(crate) lock_waiter_preemptions: u64,
    pub(crate) lock_halts: u64,
    pub(crate) lock_kicks: u64,
    pub(crate) guest_migrations: u64,
    pub(crate) disk_accesses: u64,
}

/// Everything that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) counters: Counters,
    /// Guest time by phase.
    pub(crate) phase_ns: [u64; Phase::COUNT],
    pub(crate) flush_wait: Histogram<u64>,
    /// By [`Doing`]: from the sending of a flush's interrupt to the acknowledgement.
    pub(crate) flush_ack: [Histogram<u64>; Doing::ALL.len()],
    pub(crate) ipi_delivery: Histogram<u64>,
    pub(crate) ipi_round_trip: Histogram<u64>,
    pub(crate) runqueue_wait: Histogram<u64>,
    pub(crate) dispatch: Histogram<u64>,
    pub(crate) lock_wait: Histogram<u64>,
    pub(crate) disk_wait: Histogram<u64>,
    pub(crate) neighbour_wake: Histogram<u64>,
}

/// A histogram of times below a minute and a half, to three digits: one that never has to grow.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(1 << 36, 3).expect("these bounds are valid")
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            phase_ns: [0; Phase::COUNT],
            flush_wait: histogram(),
            flush_ack: std::array::from_fn(|_| histogram()),
            ipi_delivery: histogram(),
            ipi_round_trip: histogram(),
            runqueue_wait: histogram(),
            dispatch: histogram(),
            lock_wait: histogram(),
            disk_wait: histogram(),
            neighbour_wake: histogram(),
        }
    }
}
