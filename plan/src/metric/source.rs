//! How one number is made of one run. Pure; a number that was not measured is `None`, never 0.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FLUSH_WAIT_SYMBOL_PREFIX, FLUSHES, SCHED_EXEC_NS, SCHED_IDLE_NS};
use crate::{HistogramSummary, RunRecord};

/// Where the value of a metric comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "of")]
pub enum Source {
    /// Records of all VMs a second.
    RecordsPerSecond,
    /// A counter over the measured time.
    PerSecond(Cow<'static, str>),
    /// A counter over the number of flushes.
    PerFlush(Cow<'static, str>),
    /// A counter of nanoseconds over the time of all CPUs, used or idle.
    ShareOfCpus(Cow<'static, str>),
    /// A counter as it is; over blocks its largest value counts.
    Most(Cow<'static, str>),
    /// Median of a histogram.
    P50(Cow<'static, str>),
    /// 99th percentile of a histogram.
    P99(Cow<'static, str>),
    /// Share of the guest profile's samples that are in the wait for a flush.
    FlushWaitProfile,
    /// The record's gang coverage.
    GangCoverage,
    /// Jain, Chiu and Hawe 1984: (sum x)^2 / (n sum x^2) over the VMs' records/s.
    FairnessJain,
    /// Slowest over fastest VM.
    VmMinMax,
    /// CPU time over entitlement, the VM with the smallest such share.
    VmShareMin,
    /// CPU time over entitlement, the VM with the largest such share.
    VmShareMax,
    /// CPU time over records.
    CpuPerRecord,
    /// The neighbour's CPU time over its entitlement.
    NeighbourShare,
    /// Stale reads, real and soft TLB.
    StaleReads,
}

impl Source {
    /// The counter that it shows.
    #[must_use]
    pub fn counter(&self) -> Option<&str> {
        match self {
            Self::PerSecond(name) | Self::PerFlush(name) | Self::ShareOfCpus(name) | Self::Most(name) => Some(name),
            _ => None,
        }
    }

    /// The number of this run.
    #[must_use]
    pub fn value(&self, run: &RunRecord) -> Option<f64> {
        match self {
            Self::RecordsPerSecond => Some(run.records_per_s),
            Self::PerSecond(name) => quotient(counter(run, name)? * 1e9, float(run.duration_ns)),
            Self::PerFlush(name) => quotient(counter(run, name)?, counter(run, FLUSHES)?),
            Self::ShareOfCpus(name) => quotient(counter(run, name)?, cpu_time(run)?),
            Self::Most(name) => counter(run, name),
            Self::P50(name) => histogram(run, name).map(|h| float(h.p50_ns)),
            Self::P99(name) => histogram(run, name).map(|h| float(h.p99_ns)),
            Self::FlushWaitProfile => flush_wait_profile(run),
            Self::GangCoverage => run.gang_coverage,
            Self::FairnessJain => fairness_jain(run),
            Self::VmMinMax => vm_min_max(run),
            Self::VmShareMin => vm_shares(run)?.reduce(f64::min),
            Self::VmShareMax => vm_shares(run)?.reduce(f64::max),
            Self::CpuPerRecord => cpu_per_record(run),
            Self::NeighbourShare => {
                let neighbour = run.neighbour.as_ref()?;
                quotient(float(neighbour.cpu_ns), float(neighbour.entitled_ns))
            }
            Self::StaleReads => Some(float(run.stale_reads.saturating_add(run.soft_stale_reads))),
        }
    }
}

// Exact up to 2^53, far above what any page shows.
#[allow(clippy::cast_precision_loss)]
fn float(value: u64) -> f64 {
    value as f64
}

fn counter(run: &RunRecord, name: &str) -> Option<f64> {
    run.counters.get(name).copied().map(float)
}

fn histogram<'a>(run: &'a RunRecord, name: &str) -> Option<&'a HistogramSummary> {
    run.histograms.get(name).filter(|h| h.count > 0)
}

/// `a / b`; nothing for a `b` of zero.
fn quotient(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// The time of all CPUs, as the scheduler accounted for it.
fn cpu_time(run: &RunRecord) -> Option<f64> {
    Some(counter(run, SCHED_EXEC_NS)? + counter(run, SCHED_IDLE_NS)?)
}

fn flush_wait_profile(run: &RunRecord) -> Option<f64> {
    let waits = run.guest_profile.iter().filter(|(symbol, _)| symbol.starts_with(FLUSH_WAIT_SYMBOL_PREFIX));
    (!run.guest_profile.is_empty()).then(|| waits.map(|(_, share)| share).sum())
}

/// The VMs' records/s, if there are at least two VMs.
fn vm_rates(run: &RunRecord) -> Option<impl Iterator<Item = f64> + Clone + '_> {
    (run.vms.len() > 1).then(|| run.vms.iter().map(|vm| vm.records_per_s))
}

fn fairness_jain(run: &RunRecord) -> Option<f64> {
    let rates = vm_rates(run)?;
    let sum: f64 = rates.clone().sum();
    let squares: f64 = rates.map(|rate| rate * rate).sum();
    quotient(sum * sum, float(run.vms.len() as u64) * squares)
}

fn vm_min_max(run: &RunRecord) -> Option<f64> {
    let rates = vm_rates(run)?;
    quotient(rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max))
}

/// What each VM got of the CPU time that it was entitled to; nothing if that is not known of all.
fn vm_shares(run: &RunRecord) -> Option<impl Iterator<Item = f64> + '_> {
    let known = run.vms.iter().all(|vm| vm.entitled_ns > 0);
    known.then(|| run.vms.iter().map(|vm| float(vm.cpu_ns) / float(vm.entitled_ns)))
}

fn cpu_per_record(run: &RunRecord) -> Option<f64> {
    let sum = |of: fn(&crate::VmRecord) -> u64| run.vms.iter().map(of).fold(0, u64::saturating_add);
    let cpu = sum(|vm| vm.cpu_ns);
    (cpu > 0).then(|| quotient(float(cpu), float(sum(|vm| vm.records)))).flatten()
}
