//! What the lab tells about a run: counters, histograms, coverage, settings, notices.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hostsched::policy::counter;
use hostsched::{CpuId, CpuSet, Nanos};
use plan::metric;

use super::lab::Lab;
use super::pcpu::Pcpu;
use super::stats::histogram;
use crate::clock::monotonic_ns;

/// Totals since the run's start; the difference of two is a measurement.
#[derive(Debug, Clone)]
pub struct LabStats {
    /// By the names of [`plan::metric`], and some of the lab's own.
    pub counters: BTreeMap<&'static str, u64>,
    /// From runnable to running, ns.
    pub runqueue_wait: Histogram<u64>,
    /// From the kick of a CPU to the next entry there, ns.
    pub dispatch: Histogram<u64>,
    /// From a pick to the first instruction of the thread that was picked, ns.
    pub hand_over: Histogram<u64>,
}

impl LabStats {
    /// What came after `earlier`, an older reading of the same run.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut diff = self.clone();
        for (name, value) in &mut diff.counters {
            // A maximum is of the whole run.
            if *name != metric::IN_RUN_MAX {
                *value -= earlier.counters.get(name).copied().unwrap_or(0).min(*value);
            }
        }
        for (now, then) in [
            (&mut diff.runqueue_wait, &earlier.runqueue_wait),
            (&mut diff.dispatch, &earlier.dispatch),
            (&mut diff.hand_over, &earlier.hand_over),
        ] {
            // Cannot fail: same bounds, and every count of the older one is in the newer.
            let _ = now.subtract(then);
        }
        diff
    }

    /// Share of the time of gang windows with at least two runnable members in which all of them ran, 0 to 1; `None`
    /// if there was no such time.
    #[must_use]
    pub fn coverage(&self) -> Option<f64> {
        let ns = |name| self.counters.get(name).copied().filter(|ns| *ns > 0);
        // Nanoseconds of a run are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        ns(counter::GANG_WINDOW_NS).map(|whole| ratio(ns(counter::GANG_COVERED_NS).unwrap_or(0), whole))
    }
}

impl Lab {
    /// Everything counted so far.
    #[must_use]
    pub fn stats(&self) -> LabStats {
        let (mut runqueue_wait, mut dispatch, mut hand_over) = (histogram(), histogram(), histogram());
        let mut counters = BTreeMap::new();
        let mut add = |name, value: u64| *counters.entry(name).or_insert(0) += value;
        for pcpu in &self.cpus {
            let stats = pcpu.count(|stats| stats.clone());
            for (sum, one) in [
                (&mut runqueue_wait, &stats.runqueue_wait),
                (&mut dispatch, &stats.dispatch),
                (&mut hand_over, &stats.hand_over),
            ] {
                // Cannot fail: same bounds.
                let _ = sum.add(one);
            }
            let rq = self.core.look(CpuId(pcpu.slot), |rq, _| *rq.stats());
            add(metric::SWITCHES, stats.switches);
            add(metric::MIGRATIONS, stats.migrations);
            add(metric::WAKEUPS, rq.ttwu_count);
            add(metric::TICKS, stats.ticks);
            add("migration_ns", stats.migration_ns);
            add("halts_slept", stats.halts);
            add("steal_ns", stats.steal_ns);
            add("sched_exec_ns", rq.exec.0);
            add("sched_idle_ns", rq.idle.0);
        }
        add(metric::IN_RUN_MAX, self.in_run_max().into());
        let now = monotonic_ns();
        for corun in &self.coruns {
            let one = corun.totals(now);
            add("corun_open_ns", one.open_ns);
            add("corun_covered_ns", one.covered_ns);
        }
        for policy in self.core.host().policies() {
            policy.counters(Nanos(now), &mut add);
        }
        LabStats { counters, runqueue_wait, dispatch, hand_over }
    }

    /// The most threads of one CPU that ever were allowed into `KVM_RUN` at once.
    #[must_use]
    pub fn in_run_max(&self) -> u32 {
        self.cpus.iter().map(Pcpu::in_run_max).max().unwrap_or(0)
    }

    /// The scheduler's settings in force, by the kernel's names.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<&'static str, u64> {
        let config = self.core.host().config();
        BTreeMap::from([
            ("sched_latency_ns", config.sysctls.latency.0),
            ("sched_min_granularity_ns", config.sysctls.min_granularity.0),
            ("sched_wakeup_granularity_ns", config.sysctls.wakeup_granularity.0),
            ("tick_ns", self.period_ns),
            ("hz", self.config.hz.into()),
        ])
    }

    /// The gang span of each CPU's domain, once each, in the kernel's CPU numbers; empty outside gang policies.
    #[must_use]
    pub fn gang_spans(&self) -> Vec<Vec<u32>> {
        if !self.config.policy.is_gang() {
            return Vec::new();
        }
        let domains = self.core.host().domains();
        let mut spans: Vec<&CpuSet> = Vec::new();
        for pcpu in &self.cpus {
            let span = domains.gang_span(CpuId(pcpu.slot), self.config.gang_cpus);
            if !spans.contains(&span) {
                spans.push(span);
            }
        }
        spans.iter().map(|span| span.iter().map(|cpu| self.cpus[cpu.index()].number).collect()).collect()
    }

    /// The CPU that each vCPU has or had last, by VM, in the kernel's CPU numbers.
    #[must_use]
    pub fn last_cpus(&self) -> Vec<Vec<u32>> {
        let vcpus = 0..self.config.vms * self.config.vcpus;
        let cpus: Vec<u32> = vcpus
            .filter_map(|v| self.core.host().task_cpu(hostsched::TaskId(v)))
            .map(|cpu| self.cpus[cpu.index()].number)
            .collect();
        cpus.chunks(self.config.vcpus as usize).map(<[u32]>::to_vec).collect()
    }

    /// What the user should know when reading this run. `measured`: the run's measurement.
    #[must_use]
    pub fn notices(&self, measured: &LabStats) -> Vec<String> {
        let mut notices = Vec::new();
        let Some(span) = self.gang_spans().into_iter().min_by_key(Vec::len) else { return notices };
        let (span, vcpus, wanted) = (span.len(), self.config.vcpus, self.config.gang_cpus);
        if (span as u64) < u64::from(wanted) {
            notices.push(format!(
                "No scheduling domain has {wanted} CPUs (--gang-cpus): gangs span the {span} that this run has"
            ));
        }
        if u64::from(vcpus) > span as u64 {
            let coverage = measured.coverage().map_or("not measured".into(), |c| format!("{c:.2}"));
            notices.push(format!(
                "A gang of {vcpus} vCPUs does not fit its span of {span} CPUs: coverage {coverage}, little can be \
                 gained; --vcpus {span} would fit, or --pcpus with at least {vcpus} CPUs"
            ));
        }
        notices
    }
}
