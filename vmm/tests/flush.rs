//! TLB shootdown of real guests: who is sent an interrupt, who is only marked, and what a lost flush looks like.
//!
//! Rates depend on the machine and its neighbours; these tests look at counters alone.

mod support;

use plan::metric;
use plan::{Flush, Inject, Mode, RunPlan, RunRecord, RunStatus, Sched, Workload};
use support::{kvm_usable, plan, run};
use vmm::Options;

/// One mode for each flush strategy.
const STRATEGIES: [Mode; 5] = [Mode::Base, Mode::HaltKick, Mode::OnEnter, Mode::Hypercall, Mode::PvFlush];

fn count(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or_else(|| panic!("no counter {name} in {:?}", record.counters.keys()))
}

/// Nothing but flushes.
fn flushing(mode: Mode, sched: Sched) -> RunPlan {
    RunPlan { workload: Workload::Flush, ..plan(mode, 1, sched) }
}

/// Repeats a run, each time twice as long, until it shows `found`: how much a run does is the host's business.
fn run_until(plan: &RunPlan, what: &str, found: impl Fn(&RunRecord) -> bool) -> RunRecord {
    let record = (0..7)
        .map(|n| run(&RunPlan { duration_ns: plan.duration_ns << n, ..plan.clone() }, Options::default()))
        .find(found);
    record.unwrap_or_else(|| panic!("{}: 7 runs without {what}", plan.mode))
}

#[test]
fn a_single_vcpu_flushes_without_a_call() {
    if !kvm_usable("a_single_vcpu_flushes_without_a_call") {
        return;
    }
    for mode in STRATEGIES {
        let record = run(&RunPlan { vcpus: 1, ..flushing(mode, Sched::Host) }, Options::default());
        assert_eq!(record.status, RunStatus::Ok, "{mode}: {:?}", record.failures);
        assert!(count(&record, "flushes") > 0, "{mode}");
        for name in ["flush_targets", "call_send_ipi", "call_flush_on_enter", "call_halt", "call_kick_cpu"] {
            assert_eq!(count(&record, name), 0, "{mode}: {name}");
        }
    }
}

/// Eight vCPUs on fewer CPUs under the lab: some targets of every strategy run, others wait for a CPU.
#[test]
fn every_target_of_a_flush_is_sent_an_interrupt_or_marked() {
    if !kvm_usable("every_target_of_a_flush_is_sent_an_interrupt_or_marked") {
        return;
    }
    for mode in STRATEGIES {
        let record = run_until(&flushing(mode, Sched::Lab), "a flush", |record| count(record, "flush_targets") > 0);
        assert_eq!(record.status, RunStatus::Ok, "{mode}: {:?}", record.failures);
        let [targets, ipis, marks, late] =
            ["flush_targets", "flush_ipis", "flush_marks", "guest_flush_marks_late"].map(|name| count(&record, name));
        match mode.axes().flush {
            Flush::Ipi | Flush::HaltKick => assert_eq!(marks, 0, "{mode} marks nobody"),
            Flush::OnEnter | Flush::PvFlush => assert!(marks > 0, "{mode} marks those without a CPU"),
            Flush::Hypercall => {
                assert_eq!((ipis, marks), (0, 0), "the host does it all");
                assert!(count(&record, "hypercall_marks") > 0);
                continue;
            }
        }
        // The counters of a vCPU are copied while it runs: at either end of the measured time one flush of each of the
        // eight may be half counted.
        let told = ipis + marks - late;
        assert!(told.abs_diff(targets) <= 2 * 8 * 7, "{mode}: {targets} targets, {told} told");
    }
}

/// Each acknowledgement is counted once more under what its target did when the interrupt was sent.
#[test]
fn acknowledgements_are_told_apart_by_what_their_targets_did() {
    if !kvm_usable("acknowledgements_are_told_apart_by_what_their_targets_did") {
        return;
    }
    let preempted = |record: &RunRecord| record.histograms.contains_key(metric::FLUSH_ACK_PREEMPTED);
    let record = run_until(&flushing(Mode::Base, Sched::Lab), "a preempted target", preempted);
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    let count = |name: &str| record.histograms.get(name).map_or(0, |histogram| histogram.count);
    let of = [
        metric::FLUSH_ACK_RUNNING,
        metric::FLUSH_ACK_PREEMPTED,
        metric::FLUSH_ACK_HALTED,
        metric::FLUSH_ACK_HALTED_IRQS_OFF,
        metric::FLUSH_ACK_IDLE,
    ]
    .map(count);
    // Copied while the guest runs: one of each vCPU may be counted in one place only.
    assert!(of.iter().sum::<u64>().abs_diff(count("flush_ack")) <= 2 * 8, "{of:?} of {}", count("flush_ack"));
    assert_eq!(of[2..], [0, 0, 0], "nobody halts in this mode");
}

#[test]
fn a_lost_flush_is_caught_under_every_strategy() {
    if !kvm_usable("a_lost_flush_is_caught_under_every_strategy") {
        return;
    }
    for mode in STRATEGIES {
        let plan = RunPlan { inject: Some(Inject::LostFlush), ..flushing(mode, Sched::Lab) };
        let record = run_until(&plan, "a stale read", |record| record.soft_stale_reads > 0);
        assert_eq!(record.status, RunStatus::Failed, "{mode}");
        assert!(record.failures.iter().any(|failure| failure.check == "soft-stale-read"), "{mode}");
    }
}

/// A page fault that is pending when the vCPU enters with a flush is delivered first; its handler must not use what the
/// flush removes. Reads of slots that are being unmapped fault now and then.
#[test]
fn page_faults_among_flushes_see_nothing_stale() {
    if !kvm_usable("page_faults_among_flushes_see_nothing_stale") {
        return;
    }
    let plan = flushing(Mode::PvFlush, Sched::Lab);
    let record = run_until(&plan, "a page fault", |record| count(record, "guest_read_faults") > 0);
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!((record.stale_reads, record.soft_stale_reads), (0, 0));
}
