//! The mechanism behind the figures: what the counters and histograms of a run say, as columns.

use plan::metric::{self, FLUSH_WAIT_SYMBOL_PREFIX};
use plan::{HistogramSummary, RunRecord};

use super::figure;

/// A column of the WHY table: the value of one run, and how the median over the blocks is shown.
pub(super) struct Why {
    pub(super) head: [&'static str; 2],
    pub(super) value: fn(&RunRecord) -> Option<f64>,
    pub(super) show: fn(f64) -> String,
}

/// The columns in their order: the flush, the scheduler, the waiting, the gang.
pub(super) const COLUMNS: &[Why] = &[
    Why { head: ["flush wait", "p50"], value: |r| p50(r, metric::FLUSH_WAIT), show: figure::time },
    Why { head: ["", "p99"], value: |r| p99(r, metric::FLUSH_WAIT), show: figure::time },
    Why { head: ["guest", "waits"], value: flush_wait_share, show: figure::share },
    Why { head: ["IPIs/", "flush"], value: |r| per_flush(r, metric::FLUSH_IPIS), show: figure::ratio },
    Why { head: ["marks/", "flush"], value: |r| per_flush(r, metric::FLUSH_MARKS), show: figure::ratio },
    Why { head: ["kicks", "/s"], value: |r| per_s(r, metric::GUEST_KICKS), show: figure::rate },
    Why { head: ["yields", "/s"], value: |r| per_s(r, metric::YIELDS), show: figure::rate },
    Why { head: ["switch", "/s"], value: |r| per_s(r, metric::SWITCHES), show: figure::rate },
    Why { head: ["runq wait", "p50"], value: |r| p50(r, metric::RUNQUEUE_WAIT), show: figure::time },
    Why { head: ["", "p99"], value: |r| p99(r, metric::RUNQUEUE_WAIT), show: figure::time },
    Why { head: ["gang", "cover"], value: |r| r.gang_coverage, show: figure::share },
    Why { head: ["VM min", "/max"], value: vm_spread, show: figure::ratio },
];

/// What the headings mean; printed by `vmmlab run --help` and the manual.
pub const LEGEND: &str = "  flush wait     from the start of a TLB flush until its initiator may go on
  guest waits    share of guest time spent in that wait (guest profile, sampled by the tick)
  IPIs/flush     interrupts that an initiator sends for one flush
  marks/flush    targets that did not run and were only marked: the host flushes before they do
  kicks/s        halted initiators woken by the last acknowledger
  yields/s       directed yields that boosted another vCPU of the same machine
  switch/s       changes of vCPU, all CPUs together
  runq wait      from runnable to running
  gang cover     share of gang windows in which every runnable member ran at once
  VM min/max     records of the slowest machine over those of the fastest";

fn histogram<'a>(run: &'a RunRecord, id: &str) -> Option<&'a HistogramSummary> {
    run.histograms.get(id).filter(|h| h.count > 0)
}

// Exact up to 2^53, far above what three digits show.
#[allow(clippy::cast_precision_loss)]
fn float(value: u64) -> f64 {
    value as f64
}

fn p50(run: &RunRecord, id: &str) -> Option<f64> {
    histogram(run, id).map(|h| float(h.p50_ns))
}

fn p99(run: &RunRecord, id: &str) -> Option<f64> {
    histogram(run, id).map(|h| float(h.p99_ns))
}

fn counter(run: &RunRecord, id: &str) -> Option<f64> {
    run.counters.get(id).copied().map(float)
}

/// `a / b`; nothing for a `b` of zero.
fn quotient(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn per_s(run: &RunRecord, id: &str) -> Option<f64> {
    quotient(counter(run, id)? * 1e9, float(run.duration_ns))
}

fn per_flush(run: &RunRecord, id: &str) -> Option<f64> {
    quotient(counter(run, id)?, counter(run, metric::FLUSHES)?)
}

fn flush_wait_share(run: &RunRecord) -> Option<f64> {
    let waits = run.guest_profile.iter().filter(|(symbol, _)| symbol.starts_with(FLUSH_WAIT_SYMBOL_PREFIX));
    (!run.guest_profile.is_empty()).then(|| waits.map(|(_, share)| share).sum())
}

fn vm_spread(run: &RunRecord) -> Option<f64> {
    let rates = || run.vms.iter().map(|vm| vm.records_per_s);
    (run.vms.len() > 1).then(|| quotient(rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))).flatten()
}
