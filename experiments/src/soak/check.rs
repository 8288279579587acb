//! What must hold after a run: what the run says of itself, and what can be seen from outside.

use std::fs;

use plan::{RunPlan, RunRecord, RunStatus, Sched, metric};

/// What a run may leave behind in this process and in the system, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Threads of this process.
    threads: usize,
    /// Its open descriptors.
    descriptors: usize,
    /// cgroup directories of its runs.
    cgroups: usize,
}

impl Left {
    /// Counts now.
    #[must_use]
    pub fn now() -> Self {
        let entries = |path: &str| fs::read_dir(path).map_or(0, |entries| entries.flatten().count());
        Self {
            threads: entries("/proc/self/task"),
            descriptors: entries("/proc/self/fd"),
            cgroups: vmm::cgroup::of_this_process(),
        }
    }

    /// What there is more of than `before`.
    fn beyond(self, before: Self) -> Vec<String> {
        let counts = [
            ("threads", before.threads, self.threads, "threads of vmmlab"),
            ("descriptors", before.descriptors, self.descriptors, "open descriptors"),
            ("cgroups", before.cgroups, self.cgroups, "cgroups of its runs"),
        ];
        let more = counts.into_iter().filter(|(_, before, now, _)| now > before);
        more.map(|(name, before, now, what)| format!("leak-{name}: {now} {what}, {before} before the run")).collect()
    }
}

/// Everything that does not hold of a run, as sentences that begin with the name of the check.
#[must_use]
pub fn complaints(plan: &RunPlan, record: &RunRecord, before: Left, after: Left) -> Vec<String> {
    let mut found: Vec<String> = record.failures.iter().map(|f| format!("{}: {}", f.check, f.message)).collect();
    if record.status == RunStatus::Failed && found.is_empty() {
        found.push("failed: the run says that it failed, and not why".into());
    }
    let counted = |name: &str| record.counters.get(name).copied();
    let stale = record.stale_reads.saturating_add(record.soft_stale_reads);
    if stale > 0 && record.status != RunStatus::Failed {
        found.push(format!("stale-read: {stale} stale reads in a run that calls itself good"));
    }
    for (name, sent, came) in [
        ("kicks", metric::KICKS_SENT, &[metric::KICKS_CONSUMED, metric::KICKS_COALESCED][..]),
        (
            "latched kicks",
            "latch_kicks_sent",
            &["latch_kicks_consumed", "latch_kicks_coalesced", "latches_set_at_end"][..],
        ),
    ] {
        let all: Option<u64> = came.iter().map(|name| counted(name)).sum();
        if let (Some(sent), Some(all)) = (counted(sent), all)
            && sent != all
        {
            found.push(format!("lost-kick: {sent} {name} were sent, and {all} came or wait"));
        }
    }
    if plan.sched == Sched::Lab
        && let Some(most) = counted(metric::IN_RUN_MAX).filter(|most| *most > 1)
    {
        found.push(format!("scheduler: {most} threads of one CPU were in KVM_RUN at once"));
    }
    let whole = record.status != RunStatus::Partial;
    if whole && record.vms.len() != plan.vms as usize {
        found.push(format!("record: {} of {} VMs are in the record", record.vms.len(), plan.vms));
    }
    if whole && record.neighbour.is_none() != plan.neighbour.is_none() && record.duration_ns > 0 {
        found.push(format!("record: the plan has the neighbour '{}', and the record says otherwise", plan.neighbour));
    }
    found.extend(after.beyond(before));
    found
}

#[cfg(test)]
mod tests {
    use plan::Mode;

    use super::*;

    const NOTHING: Left = Left { threads: 3, descriptors: 9, cgroups: 0 };

    fn good() -> (RunPlan, RunRecord) {
        let plan = RunPlan { vms: 0, ..RunPlan::sample(Mode::Base) };
        let record = RunRecord::empty(&plan);
        (plan, record)
    }

    #[test]
    fn a_good_run_gives_no_complaint() {
        let (plan, mut record) = good();
        record
            .counters
            .extend([("kicks_sent", 5), ("kicks_consumed", 3), ("kicks_coalesced", 2)].map(|(n, v)| (n.into(), v)));
        assert_eq!(complaints(&plan, &record, NOTHING, NOTHING), Vec::<String>::new());
        let fewer = Left { threads: 2, ..NOTHING };
        assert_eq!(complaints(&plan, &record, NOTHING, fewer), Vec::<String>::new(), "less than before is no leak");
    }

    #[test]
    fn what_is_lost_or_left_behind_is_told_by_name() {
        let (plan, mut record) = good();
        record.soft_stale_reads = 1;
        let counts = [("kicks_sent", 5), ("kicks_consumed", 3), ("kicks_coalesced", 1), ("in_run_max", 2)];
        record.counters.extend(counts.map(|(name, value)| (name.into(), value)));
        let after = Left { threads: 4, descriptors: 10, cgroups: 2 };
        let found = complaints(&plan, &record, NOTHING, after);
        let names: Vec<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(names, ["stale-read", "lost-kick", "scheduler", "leak-threads", "leak-descriptors", "leak-cgroups"]);
        record.status = RunStatus::Failed;
        record.failures.push(plan::Failure { check: "watchdog".into(), message: "stuck".into() });
        assert_eq!(complaints(&plan, &record, NOTHING, NOTHING)[0], "watchdog: stuck");
    }
}
