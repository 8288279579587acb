//! What is counted, copied at one moment: twice in a run, and what the run measured is the difference.

use abi::histogram::{BUCKETS, Histogram as GuestHistogram, bucket_low};
use abi::results::{Counters as GuestCounters, Results};
use hdrhistogram::Histogram;
use plan::CpuList;

use crate::clock::{cycles_to_ns, monotonic_ns};
use crate::cpu_use::{CpuUse, thread_cpu_ns};
use crate::dispatch::LabStats;
use crate::guests::Guests;
use crate::scheduler::Scheduler;
use crate::stats::{Counter, histogram};
use crate::sync::Ordering;

/// Counts in the buckets of a guest's histogram.
#[derive(Debug, Clone)]
pub struct Buckets(Vec<u32>);

impl Buckets {
    /// Copies them.
    #[must_use]
    pub fn read(histogram: &GuestHistogram) -> Self {
        let mut counts = vec![0; BUCKETS];
        for (bucket, count) in histogram.counts() {
            counts[bucket] = count;
        }
        Self(counts)
    }

    /// Adds what came since `earlier` to `into`, from cycles to ns. The middle of a bucket stands for its values.
    pub fn add_since(&self, earlier: &Self, tsc_khz: u32, into: &mut Histogram<u64>) {
        for (bucket, (now, before)) in self.0.iter().zip(&earlier.0).enumerate() {
            // The guest may write any number; a count that fell is no measurement.
            let count = u64::from(now.wrapping_sub(*before));
            if count > 0 && now >= before {
                let next = if bucket + 1 < BUCKETS { bucket_low(bucket + 1) } else { bucket_low(bucket) };
                let middle = u64::midpoint(bucket_low(bucket), next);
                into.saturating_record_n(cycles_to_ns(middle, tsc_khz).max(1), count);
            }
        }
    }
}

/// One vCPU at one moment.
#[derive(Debug, Clone)]
pub struct VcpuSnapshot {
    /// By [`Counter`].
    pub host: [u64; Counter::NAMES.len()],
    /// By `abi::results::Counters::NAMES`.
    pub guest: [u64; GuestCounters::NAMES.len()],
    /// By `abi::results::Results::HISTOGRAMS`.
    pub histograms: [Buckets; Results::HISTOGRAMS.len()],
    /// CPU time of its thread.
    pub cpu_ns: u64,
}

/// The whole run at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By vCPU index.
    pub vcpus: Vec<VcpuSnapshot>,
    /// The run's CPUs.
    pub cpu: CpuUse,
    /// The lab's scheduler, if that is the run's.
    pub lab: Option<LabStats>,
}

impl Snapshot {
    /// Copies everything.
    #[must_use]
    pub fn take(guests: &Guests, sched: &Scheduler, cpus: &CpuList) -> Self {
        let at_ns = monotonic_ns();
        let vcpus = guests
            .indices()
            .map(|index| {
                let (vm, number) = guests.locate(index);
                let (results, own) = (vm.results(number), guests.shared(index));
                VcpuSnapshot {
                    host: own.counters.read(),
                    guest: results.counters.read(),
                    histograms: results.histograms().map(Buckets::read),
                    cpu_ns: thread_cpu_ns(own.tid.load(Ordering::Acquire)),
                }
            })
            .collect();
        Self { at_ns, vcpus, cpu: CpuUse::now(cpus), lab: sched.stats() }
    }
}

/// What every vCPU recorded between two snapshots in the histogram of that number, as one histogram of ns.
#[must_use]
pub fn histogram_between(guests: &Guests, from: &Snapshot, to: &Snapshot, number: usize) -> Histogram<u64> {
    let mut sum = histogram();
    for ((index, before), after) in guests.indices().zip(&from.vcpus).zip(&to.vcpus) {
        let khz = guests.locate(index).0.tsc_khz;
        after.histograms[number].add_since(&before.histograms[number], khz, &mut sum);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_become_ns_and_only_what_is_new_counts() {
        let (mut before, mut after) = (vec![0; BUCKETS], vec![0; BUCKETS]);
        before[190] = 2; // 992 to 1007 cycles
        after[190] = 5;
        before[3] = 9; // fell: a guest that writes nonsense
        let mut sum = histogram();
        Buckets(after).add_since(&Buckets(before), 1_000_000, &mut sum);
        assert_eq!(sum.len(), 3);
        assert!((990..=1010).contains(&sum.max()), "{}", sum.max());
    }
}
