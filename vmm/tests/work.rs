//! The guest's scheduler and the workloads that run on it: their work is checked, not only counted.

mod support;

use std::time::Duration;

use plan::metric;
use plan::{Lock, Mode, RunPlan, RunRecord, RunStatus, Sched, Workload};
use support::{kvm_usable, plan, run};
use vmm::Options;

fn count(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or_else(|| panic!("no counter {name} in {:?}", record.counters.keys()))
}

/// Small VMs with few threads.
fn small(mode: Mode, workload: Workload, vms: u32, sched: Sched) -> RunPlan {
    let mut plan = RunPlan { workload, vcpus: 2, ..plan(mode, vms, sched) };
    plan.params.groups = 2;
    plan.params.pairs = 3;
    plan.params.warehouses = 4;
    plan.params.heap_transactions = 500;
    plan.params.collection_us = 2000;
    plan.params.clients = 6;
    plan.params.jobs = 5;
    plan.params.build_jobs = 12;
    plan.params.job_us = 1000;
    plan.params.job_pages = 70;
    plan.params.link_us = 2000;
    plan
}

fn assert_sound(record: &RunRecord) {
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!((record.stale_reads, record.soft_stale_reads), (0, 0));
    assert_eq!(count(record, "guest_work_errors"), 0);
    assert_eq!(count(record, "state_words_forged"), 0);
}

fn tell(record: &RunRecord) {
    let names = [
        "guest_thread_switches",
        "guest_thread_wakes",
        "guest_resched_ipis",
        "guest_timer_ticks",
        "guest_thread_preemptions",
        "guest_migrations",
        "guest_idle_halts",
        "call_halt",
        "exits",
        "flushes",
    ];
    let counts = names.map(|name| format!("{name} {}", count(record, name)));
    eprintln!("{} x{} {:.0} records/s: {}", record.mode, record.vms.len(), record.records_per_s, counts.join(", "));
}

fn every_mode_works(workload: Workload) {
    for mode in Mode::ALL {
        for (vms, sched) in [(1, Sched::Lab), (2, Sched::Lab)] {
            let record = run(&small(*mode, workload, vms, sched), Options::default());
            tell(&record);
            assert_sound(&record);
            assert!(count(&record, "guest_thread_switches") > 0);
        }
    }
}

#[test]
fn hackbench_works_in_every_mode() {
    if kvm_usable("hackbench_works_in_every_mode") {
        every_mode_works(Workload::Hackbench);
    }
}

#[test]
fn specjbb_works_in_every_mode() {
    if kvm_usable("specjbb_works_in_every_mode") {
        every_mode_works(Workload::Specjbb);
    }
}

#[test]
fn dbench_works_in_every_mode() {
    if kvm_usable("dbench_works_in_every_mode") {
        every_mode_works(Workload::Dbench);
    }
}

#[test]
fn kernbench_works_in_every_mode() {
    if kvm_usable("kernbench_works_in_every_mode") {
        every_mode_works(Workload::Kernbench);
    }
}

/// Two VMs that do little but ask the disk get no more of it than there is.
#[test]
fn all_vms_share_one_disk() {
    if !kvm_usable("all_vms_share_one_disk") {
        return;
    }
    let mut plan = RunPlan { duration_ns: 500_000_000, ..small(Mode::Base, Workload::Dbench, 2, Sched::Lab) };
    (plan.params.io_per_mille, plan.params.disk_us) = (1000, 2000);
    let record = run(&plan, Options::default());
    assert_sound(&record);
    let (accesses, wait) = (count(&record, metric::DISK_ACCESSES), &record.histograms[metric::DISK_WAIT]);
    // Those that were asked for in the measured time, of which 12 clients may have one each under way at its end.
    assert!(accesses > 0 && accesses <= record.duration_ns / 2_000_000 + 13, "{accesses} accesses");
    assert!(wait.count > 0 && wait.p50_ns >= 1_900_000, "{wait:?}");
    assert!(count(&record, "guest_idle_halts") > 0, "vCPUs halt while all their clients wait");
}

/// A run that its record limit ends comes to rest: all threads end, and nothing is under way when the sums are compared.
#[test]
fn work_adds_up_when_the_record_limit_ends_the_run() {
    if !kvm_usable("work_adds_up_when_the_record_limit_ends_the_run") {
        return;
    }
    for workload in [Workload::Hackbench, Workload::Specjbb, Workload::Dbench, Workload::Kernbench] {
        let plan = RunPlan { duration_ns: 60_000_000_000, ..small(Mode::PvFlush, workload, 1, Sched::Lab) };
        let record_limit = if workload == Workload::Kernbench { 30 } else { 20_000 };
        let record = run(&plan, Options { record_limit, ..Options::default() });
        tell(&record);
        assert_sound(&record);
        assert!(record.duration_ns < plan.duration_ns, "{workload}: all vCPUs are done");
    }
}

/// Every kind of lock, with threads that are preempted, sleep and move between vCPUs; twice as many vCPUs as CPUs.
#[test]
fn hackbench_works_with_every_lock_and_scheduler() {
    if !kvm_usable("hackbench_works_with_every_lock_and_scheduler") {
        return;
    }
    for lock in Lock::ALL {
        for sched in [Sched::Lab, Sched::Host] {
            let plan = RunPlan { lock: *lock, vcpus: 4, ..small(Mode::Ple, Workload::Hackbench, 1, sched) };
            let record = run(&plan, Options::default());
            tell(&record);
            assert_sound(&record);
            assert!(count(&record, "lock_acquisitions") > 0);
        }
    }
}

/// One sender and one receiver on two of eight vCPUs: nearly every message wakes a thread, most of them on an idle vCPU. A
/// wake-up that is lost stops the group for good, and the watchdog says so.
#[test]
fn wake_ups_of_idle_vcpus_are_not_lost() {
    if !kvm_usable("wake_ups_of_idle_vcpus_are_not_lost") {
        return;
    }
    for sched in [Sched::Lab, Sched::Host] {
        let mut plan =
            RunPlan { vcpus: 8, duration_ns: 1_000_000_000, ..small(Mode::PvFlush, Workload::Hackbench, 1, sched) };
        (plan.params.groups, plan.params.pairs, plan.params.message_ns) = (1, 1, 1000);
        let record = run(&plan, Options { watchdog: Duration::from_secs(2), ..Options::default() });
        tell(&record);
        assert_sound(&record);
        assert!(count(&record, "guest_resched_ipis") > 0 && count(&record, "guest_idle_halts") > 0);
    }
}

/// A collection of several seconds, in which no transaction is completed, is no hang.
#[test]
fn long_computing_does_not_alarm_the_watchdog() {
    if !kvm_usable("long_computing_does_not_alarm_the_watchdog") {
        return;
    }
    let mut plan = RunPlan { duration_ns: 2_500_000_000, ..small(Mode::Base, Workload::Specjbb, 1, Sched::Host) };
    (plan.params.heap_transactions, plan.params.collection_us) = (1, 8_000_000);
    let record = run(&plan, Options { watchdog: Duration::from_secs(1), ..Options::default() });
    assert_sound(&record);
    let records: u64 = record.vms.iter().map(|vm| vm.records).sum();
    assert!(records <= 16, "{records} transactions: the collections took their time");
}

/// The sizes of the published runs: 320 threads of hackbench, 16 warehouses.
#[test]
fn the_defaults_work_with_four_vms() {
    if !kvm_usable("the_defaults_work_with_four_vms") {
        return;
    }
    for workload in [Workload::Hackbench, Workload::Specjbb] {
        let plan = RunPlan { workload, duration_ns: 1_000_000_000, ..plan(Mode::Base, 4, Sched::Lab) };
        let record = run(&plan, Options::default());
        tell(&record);
        assert_sound(&record);
        assert!(count(&record, "guest_thread_preemptions") > 0);
    }
}

#[test]
fn lost_work_is_found() {
    if !kvm_usable("lost_work_is_found") {
        return;
    }
    for workload in [Workload::Hackbench, Workload::Specjbb, Workload::Dbench, Workload::Kernbench] {
        let plan = RunPlan { duration_ns: 1_000_000_000, ..small(Mode::Base, workload, 1, Sched::Lab) };
        let record = run(&plan, Options { lost_work: true, ..Options::default() });
        assert_eq!(record.status, RunStatus::Failed, "{workload}");
        let failure = record.failures.iter().find(|failure| failure.check == "work");
        assert!(failure.is_some_and(|failure| failure.message.contains("lost")), "{workload}: {:?}", record.failures);
    }
}
