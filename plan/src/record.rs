//! What one run measured. Field names are an interface: scripts read them from `vmmlab.result/1`.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axes, RunPlan, entitled_cpus};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Ran its whole time and passed its checks.
    Ok,
    /// Failed a check of its own: see `failures`.
    Failed,
    /// Was stopped from outside before its time.
    Partial,
}

/// One failed check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Short stable name: `stale-read`, `soft-stale-read`, `lost-kick`, `guest-crash`, `watchdog`, `vcpu-thread`, ...
    pub check: String,
    /// One sentence that names VM, vCPU and RIP where they are known.
    pub message: String,
}

/// What one VM did in the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmRecord {
    /// Records completed in the measured time.
    pub records: u64,
    /// The same per second.
    pub records_per_s: f64,
    /// CPU time of its vCPU threads in the measured time.
    pub cpu_ns: u64,
    /// CPU time that it was entitled to in the measured time: see [`entitled_cpus`](crate::entitled_cpus); 0 where that is not
    /// known.
    #[serde(default)]
    pub entitled_ns: u64,
    /// Reads through a stale translation, real TLB.
    pub stale_reads: u64,
    /// Reads through a stale translation, soft TLB.
    pub soft_stale_reads: u64,
    /// Records of each vCPU, in order.
    pub vcpu_records: Vec<u64>,
}

/// What the neighbour did in the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourRecord {
    /// Bursts of computing that it completed.
    pub records: u64,
    /// The same per second.
    pub records_per_s: f64,
    /// CPU time of its vCPU thread in the measured time.
    pub cpu_ns: u64,
    /// CPU time that it was entitled to, or wanted if that is less; 0 where that is not known.
    pub entitled_ns: u64,
}

/// Where vCPUs ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// `pinned` or `free`.
    pub kind: String,
    /// The gang span in force: its CPUs; empty outside gang policies.
    pub gang_span: Vec<Vec<u32>>,
    /// Last pCPU of each vCPU, by VM, at the end of the run.
    pub last_cpu: Vec<Vec<u32>>,
}

/// A histogram in a few numbers, and whole for later analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramSummary {
    /// Median in ns.
    pub p50_ns: u64,
    /// 90th percentile in ns; 0 in results of versions that did not write it.
    #[serde(default)]
    pub p90_ns: u64,
    /// 99th percentile in ns.
    pub p99_ns: u64,
    /// 99.9th percentile in ns; 0 in results of versions that did not write it.
    #[serde(default)]
    pub p999_ns: u64,
    /// Largest value in ns.
    pub max_ns: u64,
    /// Number of values.
    pub count: u64,
    /// HdrHistogram V2 encoding, hexadecimal; absent where there are no values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdr_v2_hex: Option<String>,
}

impl HistogramSummary {
    /// Summarizes a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        let encoded = !histogram.is_empty() && V2Serializer::new().serialize(histogram, &mut bytes).is_ok();
        Self {
            p50_ns: histogram.value_at_quantile(0.50),
            p90_ns: histogram.value_at_quantile(0.90),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            count: histogram.len(),
            hdr_v2_hex: encoded.then(|| bytes.iter().map(|b| format!("{b:02x}")).collect()),
        }
    }

    /// The histogram itself; `None` if it was not kept, or what was kept is none.
    ///
    /// What a file says is untrusted: a histogram of more than three digits, or of an impossible length, is refused before
    /// anything is allocated for it.
    #[must_use]
    pub fn whole(&self) -> Option<Histogram<u64>> {
        let hex = self.hdr_v2_hex.as_deref()?;
        if hex.len() > 2 * ENCODED_MAX {
            return None;
        }
        let byte = |at| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        let bytes = bytes?;
        // Cookie, length of the payload, offset, then the digits and the lowest value: all big-endian. The reader would make
        // room for as long a payload as the length says.
        let length = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
        let digits = u32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?);
        let lowest = u64::from_be_bytes(bytes.get(16..24)?.try_into().ok()?);
        if length as usize > bytes.len() || digits > DIGITS_MAX || lowest > LOWEST_MAX {
            return None;
        }
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

/// Longest encoding that is decoded, in bytes: 64-bit values at three digits take at most 9 bytes for each of 57,344 counts.
const ENCODED_MAX: usize = 1 << 20;

/// Largest value that a histogram may not tell from 0: the engines use 1 ns. From 2^53 up the reader's own arithmetic
/// overflows, and it never ends.
const LOWEST_MAX: u64 = 1 << 40;

/// Most significant digits: the engines record three. Each more takes ten times the memory.
const DIGITS_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_kept_whole_and_summed_up() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
        (1..=1000).for_each(|ns| histogram.record(ns).unwrap());
        let summary = HistogramSummary::of(&histogram);
        let figures = (summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.p999_ns, summary.max_ns, summary.count);
        assert_eq!(figures, (500, 900, 990, 999, 1000, 1000));
        assert_eq!(summary.whole(), Some(histogram));
    }

    #[test]
    fn what_is_no_histogram_gives_none() {
        let with = |hex: Option<&str>| HistogramSummary {
            hdr_v2_hex: hex.map(str::to_owned),
            ..HistogramSummary::of(&Histogram::new(2).unwrap())
        };
        for hex in [None, Some(""), Some("1c"), Some("1c8"), Some("zz"), Some("é"), Some("1c849303ffff")] {
            assert_eq!(with(hex).whole(), None, "{hex:?}");
        }
    }

    /// Five digits take a hundred megabytes, whatever they hold.
    #[test]
    fn a_histogram_of_more_digits_than_ours_or_of_impossible_length_gives_none() {
        let mut fine = Histogram::<u64>::new(5).unwrap();
        fine.record(7).unwrap();
        assert_eq!(HistogramSummary::of(&fine).whole(), None);
        let mut one = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
        one.record(9).unwrap();
        let hex = HistogramSummary::of(&one).hdr_v2_hex.unwrap();
        let roomy = format!("{}ffffffff{}", &hex[..8], &hex[16..]);
        assert_eq!(HistogramSummary { hdr_v2_hex: Some(roomy), ..HistogramSummary::of(&one) }.whole(), None);
        let endless = format!("{}{:016x}{:016x}{}", &hex[..32], 1_u64 << 60, u64::MAX, &hex[64..]);
        assert_eq!(HistogramSummary { hdr_v2_hex: Some(endless), ..HistogramSummary::of(&one) }.whole(), None);
        let long =
            HistogramSummary { hdr_v2_hex: Some("0".repeat(2 * ENCODED_MAX + 2)), ..HistogramSummary::of(&fine) };
        assert_eq!(long.whole(), None);
    }
}

/// Everything that one run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// The mode's name.
    pub mode: String,
    /// The axes in force.
    pub axes: Axes,
    /// The block.
    pub block: u32,
    /// The seed of this run.
    pub seed: u64,
    /// How it ended.
    pub status: RunStatus,
    /// Checks that failed; empty if `status` is `ok`.
    pub failures: Vec<Failure>,
    /// Measured time.
    pub duration_ns: u64,
    /// From the first `KVM_CREATE_VM` to the first guest instruction of the last vCPU.
    pub startup_ns: u64,
    /// Sum over all VMs.
    pub records_per_s: f64,
    /// Each VM.
    pub vms: Vec<VmRecord>,
    /// The neighbour, if there was one. Counters and histograms of the scheduler include it; records, guest counters and the
    /// profile do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<NeighbourRecord>,
    /// Sum over all VMs, real TLB; must be 0.
    pub stale_reads: u64,
    /// Sum over all VMs, soft TLB; must be 0.
    pub soft_stale_reads: u64,
    /// Time-weighted share of gang windows with at least two runnable members in which all of these were in guest
    /// mode at once; `null` outside gang policies.
    pub gang_coverage: Option<f64>,
    /// Counters by name, all of the measured time unless the name says otherwise.
    pub counters: BTreeMap<String, u64>,
    /// `flush_wait`, `ipi_delivery`, `runqueue_wait`, `dispatch`, and more by engine.
    pub histograms: BTreeMap<String, HistogramSummary>,
    /// Guest symbol: share of tick samples, 0..1.
    pub guest_profile: BTreeMap<String, f64>,
    /// Effective sysctls and constants, by name (`sched_latency_ns`, `hz`, `chunk_pages`, ...).
    pub settings: BTreeMap<String, u64>,
    /// CPU time that others took from the run's CPUs: steal and foreign tasks.
    pub foreign_cpu_ns: u64,
    /// Where vCPUs ran.
    pub placement: Placement,
    /// What the user should know when reading this run.
    pub notices: Vec<String>,
}

impl RunRecord {
    /// An empty record of `plan`, to be filled.
    #[must_use]
    pub fn empty(plan: &RunPlan) -> Self {
        Self {
            mode: plan.mode.clone(),
            axes: plan.axes,
            block: plan.block,
            seed: plan.seed,
            status: RunStatus::Ok,
            failures: Vec::new(),
            duration_ns: 0,
            startup_ns: 0,
            records_per_s: 0.0,
            vms: Vec::new(),
            neighbour: None,
            stale_reads: 0,
            soft_stale_reads: 0,
            gang_coverage: None,
            counters: BTreeMap::new(),
            histograms: BTreeMap::new(),
            guest_profile: BTreeMap::new(),
            settings: BTreeMap::new(),
            foreign_cpu_ns: 0,
            placement: Placement {
                kind: if plan.axes.pin { "pinned" } else { "free" }.into(),
                gang_span: Vec::new(),
                last_cpu: Vec::new(),
            },
            notices: Vec::new(),
        }
    }

    /// Fills in what the VMs and the neighbour were entitled to in the measured time.
    pub fn entitle(&mut self, plan: &RunPlan) {
        let cpus = entitled_cpus(plan);
        // Entitlements are at most the CPU time of all CPUs, far below 2^53 ns.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let entitled = |cpus: f64| (cpus * self.duration_ns as f64) as u64;
        let each = entitled(cpus.vm);
        self.vms.iter_mut().for_each(|vm| vm.entitled_ns = each);
        let of_neighbour = entitled(cpus.neighbour);
        self.neighbour.iter_mut().for_each(|neighbour| neighbour.entitled_ns = of_neighbour);
    }
}
