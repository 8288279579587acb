//! The micros of real guests: spinlocks in every form, TLB storms, interrupts there and back. Work is checked, not only
//! counted; rates are the host's business.

mod support;

use plan::metric;
use plan::{Lock, Mode, RunPlan, RunRecord, RunStatus, Sched, Workload};
use support::{kvm_usable, plan, run};
use vmm::Options;

fn count(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or_else(|| panic!("no counter {name} in {:?}", record.counters.keys()))
}

fn small(workload: Workload, mode: Mode, vms: u32) -> RunPlan {
    RunPlan { workload, vcpus: 2, warmup_ns: 20_000_000, duration_ns: 150_000_000, ..plan(mode, vms, Sched::Lab) }
}

fn assert_sound(record: &RunRecord) {
    assert_eq!(record.status, RunStatus::Ok, "{} x{}: {:?}", record.mode, record.vms.len(), record.failures);
    assert_eq!((record.stale_reads, record.soft_stale_reads), (0, 0));
    assert_eq!((count(record, "guest_work_errors"), count(record, "state_words_forged")), (0, 0));
}

/// Repeats a run, each time twice as long, until it shows `found`.
fn run_until(plan: &RunPlan, options: &Options, what: &str, found: impl Fn(&RunRecord) -> bool) -> RunRecord {
    let longer = |n| RunPlan { duration_ns: plan.duration_ns << n, ..plan.clone() };
    let record = (0..6).map(|n| run(&longer(n), options.clone())).find(found);
    record.unwrap_or_else(|| panic!("{} {}: 6 runs without {what}", plan.workload, plan.mode))
}

fn every_mode_works(test: &str, workload: Workload) {
    if !kvm_usable(test) {
        return;
    }
    for mode in Mode::ALL {
        for vms in [1, 2] {
            let record = run(&small(workload, *mode, vms), Options::default());
            assert_sound(&record);
            eprintln!("{workload} {mode} x{vms}: {:.0} records/s", record.records_per_s);
        }
    }
}

#[test]
fn spinlock_works_in_every_mode() {
    every_mode_works("spinlock_works_in_every_mode", Workload::Spinlock);
}

#[test]
fn tlb_storm_works_in_every_mode() {
    every_mode_works("tlb_storm_works_in_every_mode", Workload::TlbStorm);
}

#[test]
fn ipi_works_in_every_mode() {
    every_mode_works("ipi_works_in_every_mode", Workload::Ipi);
}

/// Each vCPU takes its locks and is done: the run ends by itself, and all of them were counted.
#[test]
fn every_lock_is_taken_as_often_as_it_was_asked_for() {
    if !kvm_usable("every_lock_is_taken_as_often_as_it_was_asked_for") {
        return;
    }
    let options = Options { record_limit: 300, ..Options::default() };
    for lock in Lock::ALL {
        let plan = RunPlan {
            lock: *lock,
            warmup_ns: 0,
            duration_ns: 20_000_000_000,
            ..small(Workload::Spinlock, Mode::Base, 2)
        };
        let record = run(&plan, options.clone());
        assert_sound(&record);
        assert!(record.duration_ns < plan.duration_ns, "{lock}: the limit ends the run");
        let asked = count(&record, metric::LOCK_ACQUISITIONS);
        // What came before the measured time began is not in it.
        assert!(asked <= 4 * 300 && asked > 0, "{lock}: {asked}");
    }
}

#[test]
fn a_broken_lock_is_found_by_the_check_of_the_work() {
    if !kvm_usable("a_broken_lock_is_found_by_the_check_of_the_work") {
        return;
    }
    let options = Options { broken_lock: true, ..Options::default() };
    for lock in Lock::ALL {
        let mut plan = RunPlan { lock: *lock, ..small(Workload::Spinlock, Mode::Base, 1) };
        (plan.params.hold_ns, plan.params.gap_ns) = (20_000, 1_000);
        let record = run_until(&plan, &options, "a lost count", |record| record.status == RunStatus::Failed);
        let checks: Vec<_> = record.failures.iter().map(|failure| failure.check.as_str()).collect();
        assert_eq!(checks, ["work"], "{lock}: {:?}", record.failures);
    }
}

/// Two VMs of two vCPUs on the CPUs of two: holders and waiters lose their CPUs, and paravirt waiters halt and are kicked.
#[test]
fn lost_holders_and_waiters_are_counted_and_paravirt_waiters_are_kicked() {
    if !kvm_usable("lost_holders_and_waiters_are_counted_and_paravirt_waiters_are_kicked") {
        return;
    }
    let busy = |lock| {
        let mut plan = RunPlan { lock, ..small(Workload::Spinlock, Mode::Base, 4) };
        (plan.params.hold_ns, plan.params.gap_ns) = (5_000, 5_000);
        plan
    };
    let options = Options::default();
    let holders = |record: &RunRecord| count(record, metric::LOCK_HOLDER_PREEMPTIONS) > 0;
    let record = run_until(&busy(Lock::Ticket), &options, "a preempted holder", holders);
    assert_sound(&record);
    assert_eq!((count(&record, metric::LOCK_HALTS), count(&record, metric::LOCK_KICKS)), (0, 0));
    assert!(record.histograms.contains_key(metric::LOCK_WAIT));
    let kicked = |record: &RunRecord| count(record, metric::LOCK_KICKS) > 0 && count(record, metric::LOCK_HALTS) > 0;
    for lock in [Lock::Pv, Lock::PvEarly] {
        let record = run_until(&busy(lock), &options, "a kick", kicked);
        assert_sound(&record);
        // The counters of a vCPU are copied while it runs: each of the eight may have counted a kick that it has yet to send.
        assert!(count(&record, metric::LOCK_KICKS) <= count(&record, metric::GUEST_KICKS) + 8, "{lock}");
    }
}

/// With a budget that no wait spends, only a look at who has the lock ends the spinning.
#[test]
fn who_waits_for_a_lost_holder_halts_before_its_budget_is_spent() {
    if !kvm_usable("who_waits_for_a_lost_holder_halts_before_its_budget_is_spent") {
        return;
    }
    let endless = |lock| {
        let mut plan = RunPlan { lock, ..small(Workload::Spinlock, Mode::Base, 4) };
        (plan.params.hold_ns, plan.params.gap_ns, plan.params.lock_spins) = (5_000, 5_000, 1_000_000_000);
        plan
    };
    let halted = |record: &RunRecord| count(record, metric::LOCK_HALTS) > 0;
    assert_sound(&run_until(&endless(Lock::PvEarly), &Options::default(), "a halt", halted));
    let record = run(&endless(Lock::Pv), Options::default());
    assert_eq!(count(&record, metric::LOCK_HALTS), 0);
}

/// Who only answers halts with nothing to do, and is found idle.
#[test]
fn interrupts_to_idle_vcpus_are_told_apart() {
    if !kvm_usable("interrupts_to_idle_vcpus_are_told_apart") {
        return;
    }
    let mut plan = small(Workload::Ipi, Mode::Base, 1);
    plan.params.ipi_senders = 1;
    let idle = |record: &RunRecord| record.histograms.contains_key(metric::FLUSH_ACK_IDLE);
    let record = run_until(&plan, &Options::default(), "an idle target", idle);
    assert_sound(&record);
    let [trips, to_idle] = [metric::IPI_ROUND_TRIP, metric::FLUSH_ACK_IDLE].map(|name| record.histograms[name].count);
    assert!(trips > 0 && to_idle <= trips + 1, "{trips} round trips, {to_idle} of them to idle vCPUs");
    assert_eq!(record.vms[0].vcpu_records[1], 0, "the second vCPU only answers");
}

/// An initiator that halts for its flush is found halted by the next one.
#[test]
fn a_flush_meets_targets_that_halt_for_theirs() {
    if !kvm_usable("a_flush_meets_targets_that_halt_for_theirs") {
        return;
    }
    let plan = RunPlan { vcpus: 4, spin_budget: 10, ..small(Workload::TlbStorm, Mode::HaltKick, 1) };
    let met = |record: &RunRecord| record.histograms.contains_key(metric::FLUSH_ACK_HALTED);
    assert_sound(&run_until(&plan, &Options::default(), "a halted target", met));
}

/// A paravirt waiter for the page allocator's lock halts with interrupts off: it answers a flush after it was kicked.
#[test]
fn a_flush_meets_targets_that_halt_with_interrupts_off() {
    if !kvm_usable("a_flush_meets_targets_that_halt_with_interrupts_off") {
        return;
    }
    let mut plan = RunPlan { vcpus: 4, lock: Lock::Pv, ..small(Workload::TlbStorm, Mode::Base, 1) };
    (plan.params.zone_hold_ns, plan.params.lock_spins) = (200_000, 10);
    // A halt may have begun before the measured time, and its flush ended in it.
    let halted = |record: &RunRecord| count(record, metric::LOCK_HALTS) > 0 && count(record, metric::LOCK_KICKS) > 0;
    let met = |record: &RunRecord| record.histograms.contains_key(metric::FLUSH_ACK_HALTED_IRQS_OFF) && halted(record);
    let record = run_until(&plan, &Options::default(), "a target that halts with interrupts off", met);
    assert_sound(&record);
}

#[test]
fn a_lost_flush_is_caught_in_a_storm() {
    if !kvm_usable("a_lost_flush_is_caught_in_a_storm") {
        return;
    }
    let plan = RunPlan { inject: Some(plan::Inject::LostFlush), ..small(Workload::TlbStorm, Mode::Base, 1) };
    let found = run_until(&plan, &Options::default(), "a stale read", |record| record.soft_stale_reads > 0);
    assert_eq!(found.status, RunStatus::Failed);
}
