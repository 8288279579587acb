//! Walkers that rely on interrupts being off, in real guests: what holds a flush's owner off from freeing under them.

mod support;

use plan::{Flush, Inject, Mode, RunPlan, RunRecord, RunStatus, Sched, Workload};
use support::{kvm_usable, plan, run};
use vmm::Options;

/// Overcommitted, so that walkers lose their CPU in the middle, and with long walks.
fn walking(mode: Mode, inject: Option<Inject>) -> RunPlan {
    let mut plan = RunPlan {
        workload: Workload::Gup,
        vcpus: 4,
        warmup_ns: 10_000_000,
        duration_ns: 300_000_000,
        inject,
        ..plan(mode, 2, Sched::Lab)
    };
    plan.params.chunk_pages = 2;
    plan.params.walk_turns = 100;
    plan
}

fn count(record: &RunRecord, name: &str) -> u64 {
    record.counters[&format!("guest_{name}")]
}

#[test]
fn no_walk_finds_its_frame_reused_in_any_mode() {
    if !kvm_usable("no_walk_finds_its_frame_reused_in_any_mode") {
        return;
    }
    for mode in Mode::ALL {
        let record = run(&walking(*mode, None), Options::default());
        assert_eq!(record.status, RunStatus::Ok, "{mode}: {:?}", record.failures);
        assert_eq!(count(&record, "gup_hazards"), 0, "{mode}");
        assert!(record.records_per_s > 0.0, "{mode}: nobody walked");
        eprintln!("{mode}: {:.0} walks/s, {} frees deferred", record.records_per_s, count(&record, "frees_deferred"));
    }
}

#[test]
fn a_flush_that_waits_for_interrupts_to_come_on_holds_off_an_early_free() {
    if !kvm_usable("a_flush_that_waits_for_interrupts_to_come_on_holds_off_an_early_free") {
        return;
    }
    for mode in Mode::ALL.iter().filter(|mode| matches!(mode.axes().flush, Flush::Ipi | Flush::HaltKick)) {
        let record = run(&walking(*mode, Some(Inject::EarlyFree)), Options::default());
        assert_eq!(record.status, RunStatus::Ok, "{mode}: {:?}", record.failures);
        assert!(record.records_per_s > 0.0, "{mode}: nobody walked");
    }
}

#[test]
fn a_flush_that_only_marks_lets_an_early_free_pull_the_frame_from_under_a_walker() {
    if !kvm_usable("a_flush_that_only_marks_lets_an_early_free_pull_the_frame_from_under_a_walker") {
        return;
    }
    for mode in Mode::ALL.iter().filter(|mode| !matches!(mode.axes().flush, Flush::Ipi | Flush::HaltKick)) {
        let plan = walking(*mode, Some(Inject::EarlyFree));
        let longer = |n| RunPlan { duration_ns: plan.duration_ns << n, ..plan.clone() };
        let found = (0..6).map(|n| run(&longer(n), Options::default())).find(|r| r.status == RunStatus::Failed);
        let record = found.unwrap_or_else(|| panic!("{mode}: no walk went wrong in six runs"));
        assert!(record.failures.iter().all(|failure| failure.check == "gup-hazard"), "{mode}: {:?}", record.failures);
        eprintln!("{mode}: {}", record.failures[0].message);
    }
}
