//! Metrics: what a comparison compares, one line each. This definition feeds the tables, the JSON, `--explain`, the
//! manual and the HTML report; none of them knows a metric that is not here.
//!
//! ```text
//!   recorded    counters and histograms by name, as the engine counted them       (recorded.rs)
//!      │
//!   Source      how one number is made of one run: per second, per flush, p99 ... (source.rs)
//!      │
//!   Metric      that number with its unit, direction, margin and family           (here)
//! ```
//!
//! *Family.* PRIMARY metrics decide: their verdicts make the exit code. COST metrics are what a mode pays. WHY metrics are
//! the mechanism. *Margin.* A change inside it is of no practical importance, however sure it is; shown to be inside it is
//! what SAME means. *Scale.* Rates and times change by percent, shares and indices by points (hundredths).

mod recorded;
mod source;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use recorded::*;
pub use source::Source;

use crate::RunRecord;

/// Which side of a change is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the metric explains, it does not judge.
    Neither,
}

impl Direction {
    /// The direction in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher is better",
            Self::Lower => "lower is better",
            Self::Neither => "neither side is better",
        }
    }
}

/// What a metric is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Decides the exit code.
    Primary,
    /// What a mode pays.
    Cost,
    /// The mechanism behind the figures.
    Why,
}

impl Family {
    /// All families, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Cost, Self::Why];

    /// Its heading.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "PRIMARY",
            Self::Cost => "COST",
            Self::Why => "WHY",
        }
    }
}

/// How a change is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As a ratio, in percent.
    Percent,
    /// As a difference in points: hundredths of a value that is a share or an index.
    Points,
}

/// A metric, described for those who read a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name in the JSON and on the command line.
    pub id: Cow<'static, str>,
    /// Its name in tables.
    pub title: Cow<'static, str>,
    /// The unit of its value: `1/s`, `ns`, `share`, `index`, `ratio`, `count`.
    pub unit: Cow<'static, str>,
    /// Which side is better.
    pub direction: Direction,
    /// How its change is expressed.
    pub scale: Scale,
    /// A change inside this, in percent or points of its scale, does not matter.
    pub margin: f64,
    /// What it is for.
    pub family: Family,
    /// True if equal systems give equal values: any difference is one, and no statistics are needed.
    pub exact: bool,
    /// What it measures.
    pub text: Cow<'static, str>,
    /// How it is computed from a run.
    pub source: Source,
}

impl Metric {
    /// The value of one run; `None` where it was not measured.
    #[must_use]
    pub fn value(&self, run: &RunRecord) -> Option<f64> {
        self.source.value(run).filter(|value| value.is_finite())
    }

    /// The metric of a counter that has no definition here: its rate, as an explanation.
    #[must_use]
    pub fn of_counter(name: &str) -> Self {
        Self {
            id: format!("{name}_per_s").into(),
            title: format!("{}/s", name.replace('_', " ")).into(),
            unit: "1/s".into(),
            direction: Direction::Neither,
            scale: Scale::Percent,
            margin: 5.0,
            family: Family::Why,
            exact: false,
            text: format!("Counter `{name}` of the engine, a second.").into(),
            source: Source::PerSecond(name.to_owned().into()),
        }
    }
}

/// Every metric with a definition, in the order of the page.
pub static METRICS: &[Metric] = &{
    use Direction::{Higher, Lower, Neither};
    use Family::{Cost, Primary, Why};
    use Scale::{Percent, Points};
    use Source as From;

    /// The short form of a line of the table.
    const fn metric(
        [id, title, unit]: [&'static str; 3],
        direction: Direction,
        (margin, scale): (f64, Scale),
        family: Family,
        source: Source,
        text: &'static str,
    ) -> Metric {
        Metric {
            id: Cow::Borrowed(id),
            title: Cow::Borrowed(title),
            unit: Cow::Borrowed(unit),
            direction,
            scale,
            margin,
            family,
            exact: matches!(source, Source::StaleReads | Source::Most(_)),
            text: Cow::Borrowed(text),
            source,
        }
    }
    /// A counter's or histogram's name.
    const fn name(name: &'static str) -> Cow<'static, str> {
        Cow::Borrowed(name)
    }

    [
        metric(
            ["records_per_s", "records/s", "1/s"],
            Higher,
            (2.0, Percent),
            Primary,
            From::RecordsPerSecond,
            "Records that all VMs together complete in a second.",
        ),
        metric(
            ["fairness_jain", "fairness (Jain)", "index"],
            Higher,
            (1.0, Points),
            Cost,
            From::FairnessJain,
            "Jain's index over the VMs' records/s: 1 if all are equally fast, 1/VMs if one has everything.",
        ),
        metric(
            ["vm_min_max", "VM min/max", "ratio"],
            Higher,
            (2.0, Points),
            Cost,
            From::VmMinMax,
            "Records of the slowest VM over those of the fastest.",
        ),
        metric(
            ["runqueue_wait_p99", "run-queue wait p99", "ns"],
            Lower,
            (10.0, Percent),
            Cost,
            From::P99(name(RUNQUEUE_WAIT)),
            "99th percentile of the time from runnable to running: what neighbours wait.",
        ),
        metric(
            ["cpu_ns_per_record", "CPU time/record", "ns"],
            Lower,
            (2.0, Percent),
            Cost,
            From::CpuPerRecord,
            "CPU time of all vCPU threads for one record.",
        ),
        metric(
            ["forced_idle", "forced idle", "share"],
            Lower,
            (1.0, Points),
            Cost,
            From::ShareOfCpus(name(FORCED_IDLE_NS)),
            "Share of the CPUs' time that stood idle although a vCPU waited that might have run there.",
        ),
        metric(
            ["switches_per_s", "switches/s", "1/s"],
            Lower,
            (5.0, Percent),
            Cost,
            From::PerSecond(name(SWITCHES)),
            "Changes of vCPU, all CPUs together.",
        ),
        metric(
            ["migrations_per_s", "migrations/s", "1/s"],
            Lower,
            (5.0, Percent),
            Cost,
            From::PerSecond(name(MIGRATIONS)),
            "Moves of a vCPU to another CPU.",
        ),
        metric(
            ["gang_ipis_per_s", "gang IPIs/s", "1/s"],
            Lower,
            (5.0, Percent),
            Cost,
            From::PerSecond(name(GANG_IPIS)),
            "Interrupts that gang leaders send to their fellow CPUs.",
        ),
        metric(
            ["exits_per_s", "exits/s", "1/s"],
            Lower,
            (5.0, Percent),
            Cost,
            From::PerSecond(name(EXITS)),
            "Returns of KVM_RUN, whatever the reason.",
        ),
        metric(
            ["stale_reads", "stale reads", "count"],
            Lower,
            (0.0, Points),
            Cost,
            From::StaleReads,
            "Reads through a stale translation after its flush had completed; more than 0 is unsafe.",
        ),
        metric(
            ["flush_wait_p50", "flush wait p50", "ns"],
            Lower,
            (5.0, Percent),
            Why,
            From::P50(name(FLUSH_WAIT)),
            "Median time from the start of a TLB flush until its initiator may go on.",
        ),
        metric(
            ["flush_wait_p99", "flush wait p99", "ns"],
            Lower,
            (10.0, Percent),
            Why,
            From::P99(name(FLUSH_WAIT)),
            "99th percentile of that time.",
        ),
        metric(
            ["guest_waits", "guest waits", "share"],
            Lower,
            (1.0, Points),
            Why,
            From::FlushWaitProfile,
            "Share of guest time spent in that wait (guest profile, sampled by the tick).",
        ),
        metric(
            ["ipis_per_flush", "IPIs/flush", "ratio"],
            Lower,
            (5.0, Percent),
            Why,
            From::PerFlush(name(FLUSH_IPIS)),
            "Interrupts that an initiator sends for one flush.",
        ),
        metric(
            ["marks_per_flush", "marks/flush", "ratio"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerFlush(name(FLUSH_MARKS)),
            "Targets that did not run and were only marked: the host flushes before they do.",
        ),
        metric(
            ["flushes_per_s", "flushes/s", "1/s"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerSecond(name(FLUSHES)),
            "Remote TLB flushes that guests completed.",
        ),
        metric(
            ["gang_coverage", "gang cover", "share"],
            Higher,
            (1.0, Points),
            Why,
            From::GangCoverage,
            "Co-run fraction: the time-weighted share of gang windows in which every runnable member ran at once.",
        ),
        metric(
            ["lock_holder_preemptions_per_s", "lock-holder preempt./s", "1/s"],
            Lower,
            (5.0, Percent),
            Why,
            From::PerSecond(name(LOCK_HOLDER_PREEMPTIONS)),
            "vCPUs that lost their CPU while they held a lock.",
        ),
        metric(
            ["ple_exits_per_s", "PLE exits/s", "1/s"],
            Lower,
            (5.0, Percent),
            Why,
            From::PerSecond(name(SPIN_HINTS)),
            "Spins longer than the PLE window that the host was told of.",
        ),
        metric(
            ["yields_per_s", "yields/s", "1/s"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerSecond(name(YIELDS)),
            "Directed yields that boosted another vCPU of the same VM.",
        ),
        metric(
            ["kicks_per_s", "kicks/s", "1/s"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerSecond(name(GUEST_KICKS)),
            "Halted initiators woken by the last acknowledger.",
        ),
        metric(
            ["halts_per_s", "halts/s", "1/s"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerSecond(name(GUEST_HALTS)),
            "Times that a vCPU halted.",
        ),
        metric(
            ["runqueue_wait_p50", "run-queue wait p50", "ns"],
            Lower,
            (10.0, Percent),
            Why,
            From::P50(name(RUNQUEUE_WAIT)),
            "Median time from runnable to running.",
        ),
        metric(
            ["ipi_delivery_p50", "IPI delivery p50", "ns"],
            Lower,
            (5.0, Percent),
            Why,
            From::P50(name(IPI_DELIVERY)),
            "Median time from the sending of a guest IPI until its handler runs.",
        ),
        metric(
            ["ipi_delivery_p99", "IPI delivery p99", "ns"],
            Lower,
            (10.0, Percent),
            Why,
            From::P99(name(IPI_DELIVERY)),
            "99th percentile of that time.",
        ),
        metric(
            ["dispatch_p50", "dispatch p50", "ns"],
            Lower,
            (5.0, Percent),
            Why,
            From::P50(name(DISPATCH)),
            "Median time from the kick of a CPU until the next vCPU enters its guest there.",
        ),
        metric(
            ["wakeups_per_s", "wake-ups/s", "1/s"],
            Neither,
            (5.0, Percent),
            Why,
            From::PerSecond(name(WAKEUPS)),
            "Blocked vCPUs that became runnable.",
        ),
        metric(
            ["idle", "idle", "share"],
            Neither,
            (1.0, Points),
            Why,
            From::ShareOfCpus(name(SCHED_IDLE_NS)),
            "Share of the CPUs' time in which no vCPU had the CPU.",
        ),
        metric(
            ["in_run_max", "threads in KVM_RUN", "count"],
            Lower,
            (0.0, Points),
            Why,
            From::Most(name(IN_RUN_MAX)),
            "Most threads of one CPU in KVM_RUN at once: 1 under the lab scheduler.",
        ),
    ]
};

/// The metric of that name.
#[must_use]
pub fn find(id: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_there_once_and_described() {
        let mut ids: Vec<_> = METRICS.iter().map(|m| &m.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), METRICS.len());
        assert!(METRICS.iter().all(|m| m.text.ends_with('.') && m.margin >= 0.0 && m.title.len() <= 22));
        assert!(METRICS.iter().all(|m| m.exact == (m.margin == 0.0)), "only exact metrics have no margin");
        assert_eq!(METRICS.iter().filter(|m| m.family == Family::Primary).count(), 1);
    }

    #[test]
    fn the_description_survives_json() {
        let json = serde_json::to_string(METRICS).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Metric>>(&json).unwrap(), METRICS);
    }
}
