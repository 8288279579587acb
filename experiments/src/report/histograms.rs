//! Whole histograms of a run directory, merged over the blocks of a mode.
//!
//! They lie in `blocks/*.json` as HdrHistogram V2, hexadecimal. The files are untrusted: a histogram of more than three
//! digits or beyond a bound of length is refused before anything is allocated for it ([`HistogramSummary::whole`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use plan::{HistogramSummary, RunRecord, RunStatus};

use super::chart::float;

/// A distribution of times.
#[derive(Debug, Clone)]
pub(super) struct Latency(Histogram<u64>);

/// All values up to `ns` and above those of the step before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// Longest time of the step.
    pub(super) ns: u64,
    /// Share of values below the step.
    pub(super) below: f64,
    /// Share of values up to it.
    pub(super) upto: f64,
}

impl Latency {
    /// The whole histogram of a summary; `None` for what is none, is too large, or holds nothing.
    pub(super) fn of(summary: &HistogramSummary) -> Option<Self> {
        summary.whole().filter(|histogram| !histogram.is_empty()).map(Self)
    }

    fn add(&mut self, other: &Self) {
        // The first one grows where it must: it cannot refuse a value then.
        self.0.auto(true);
        let _ = self.0.add(&other.0);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn min_ns(&self) -> u64 {
        self.0.min()
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The time that a share 0..1 of the values does not exceed.
    pub(super) fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = Step> {
        let all = float(self.count());
        let max = self.max_ns();
        let mut below = 0.0;
        let mut seen = 0_u64;
        self.0.iter_recorded().map(move |recorded| {
            seen = seen.saturating_add(recorded.count_since_last_iteration());
            let upto = float(seen) / all;
            // A step's longest time may lie above the longest that was seen.
            let step = Step { ns: recorded.value_iterated_to().min(max), below, upto };
            below = upto;
            step
        })
    }
}

/// The distributions of all modes.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// By name of the histogram, then by mode.
    pub(super) by_name: BTreeMap<String, BTreeMap<String, Latency>>,
    /// Histograms that could not be decoded.
    pub(super) damaged: u64,
}

impl Latencies {
    /// Adds those of a run that passed its checks.
    pub(super) fn add(&mut self, run: &RunRecord) {
        if run.status != RunStatus::Ok {
            return;
        }
        for (name, summary) in &run.histograms {
            if summary.hdr_v2_hex.is_none() {
                continue;
            }
            let Some(latency) = Latency::of(summary) else {
                self.damaged += 1;
                continue;
            };
            let modes = self.by_name.entry(name.clone()).or_default();
            modes.entry(run.mode.clone()).and_modify(|merged| merged.add(&latency)).or_insert(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(values: &[u64]) -> String {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        values.iter().for_each(|ns| histogram.record(*ns).unwrap());
        HistogramSummary::of(&histogram).hdr_v2_hex.unwrap_or_default()
    }

    fn decode(hex: &str) -> Option<Latency> {
        let summary =
            HistogramSummary { hdr_v2_hex: Some(hex.into()), ..HistogramSummary::of(&Histogram::new(3).unwrap()) };
        Latency::of(&summary)
    }

    #[test]
    fn steps_are_shares_that_end_at_all() {
        let mut latency = decode(&hex(&[10, 10, 500])).unwrap();
        latency.add(&decode(&hex(&[1_000_000_000])).unwrap());
        let steps: Vec<_> = latency.steps().collect();
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0], Step { ns: 10, below: 0.0, upto: 0.5 });
        assert_eq!((steps[2].below, steps[2].upto, steps[2].ns), (0.75, 1.0, latency.max_ns()));
        assert!((999_000_000..=1_001_000_000).contains(&latency.max_ns()));
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let good = hex(&[1, 2, 3]);
        let many_digits = format!("{}00000005{}", &good[..24], &good[32..]);
        for wrong in ["", "0", "zz", &good[..good.len() - 6], &good[2..], &many_digits, "\u{e9}\u{e9}"] {
            assert!(decode(wrong).is_none(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_histogram_is_never_a_panic(at in 0_usize..200, with in "[0-9a-f]{2}") {
            let mut damaged = hex(&[5, 70_000, 70_001, 1 << 40]);
            let at = 2 * (at % (damaged.len() / 2));
            damaged.replace_range(at..at + 2, &with);
            if let Some(latency) = decode(&damaged) {
                prop_assert!(latency.steps().count() > 0);
            }
        }
    }
}
