//! Real guests on /dev/kvm: they boot, work, and are measured.

mod support;

use plan::{Mode, RunRecord, RunStatus, Sched};
use support::{kvm_usable, plan, run};
use vmm::Options;

/// What every sound run has, whatever its mode and speed.
fn assert_sound(record: &RunRecord) {
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!((record.stale_reads, record.soft_stale_reads), (0, 0));
    // Not each VM: a busy host may leave one of many without a slice in so short a time.
    assert!(record.vms.iter().any(|vm| vm.cpu_ns > 0), "some VM ran: {:?}", record.vms);
    let count = |name: &str| record.counters[name];
    assert_eq!(count("kicks_sent"), count("kicks_consumed") + count("kicks_coalesced"));
    let latched = count("latch_kicks_consumed") + count("latch_kicks_coalesced") + count("latches_set_at_end");
    assert_eq!(count("latch_kicks_sent"), latched);
    assert_eq!(count("state_words_forged"), 0);
    for (name, summary) in &record.histograms {
        assert!(summary.p50_ns <= summary.p99_ns && summary.p99_ns <= summary.max_ns, "{name}: {summary:?}");
    }
    let share: f64 = record.guest_profile.values().sum();
    assert!(record.guest_profile.is_empty() || (0.999..1.001).contains(&share), "{:?}", record.guest_profile);
}

/// What the lab's scheduler adds.
fn assert_scheduled_by_the_lab(record: &RunRecord, vms: u32) {
    assert_eq!(record.counters["in_run_max"], 1, "one thread at most of a CPU in KVM_RUN");
    assert!(record.counters["switches"] > 0);
    assert!(record.histograms["runqueue_wait"].count > 0);
    assert!(record.settings["sched_latency_ns"] > 0);
    assert_eq!(record.placement.last_cpu.len(), vms as usize);
    assert_eq!(record.gang_coverage.is_some(), record.axes.host_policy.is_gang());
}

fn every_mode_works(vms: u32, sched: Sched) {
    for mode in Mode::ALL {
        let record = run(&plan(*mode, vms, sched), Options::default());
        let count = |name: &str| record.counters.get(name).copied().unwrap_or(0);
        eprintln!(
            "{mode} x{vms} {sched}: {:.0} records/s, startup {} ms (boot {} us, threads {} us), flushes {}, ipis {}, marks {}, halts {}, kicks {}, hints {}, \
             hypercall kicks {} marks {}, real reads {}, soft hits {}, foreign {} ms, p50 flush {} us, profile {:?}",
            record.records_per_s,
            record.startup_ns / 1_000_000,
            count("startup_boot_ns") / 1000,
            count("startup_threads_ns") / 1000,
            count("flushes"),
            count("flush_ipis"),
            count("flush_marks"),
            count("guest_halts"),
            count("guest_kicks"),
            count("spin_hints"),
            count("hypercall_kicks"),
            count("hypercall_marks"),
            count("guest_real_reads"),
            count("guest_soft_hits"),
            record.foreign_cpu_ns / 1_000_000,
            record.histograms["flush_wait"].p50_ns / 1000,
            record.guest_profile,
        );
        assert_sound(&record);
        if sched == Sched::Lab {
            assert_scheduled_by_the_lab(&record, vms);
        }
    }
}

#[test]
fn every_mode_works_with_one_vm_under_the_hosts_scheduler() {
    if kvm_usable("every_mode_works_with_one_vm_under_the_hosts_scheduler") {
        every_mode_works(1, Sched::Host);
    }
}

#[test]
fn every_mode_works_with_one_vm_under_the_lab_scheduler() {
    if kvm_usable("every_mode_works_with_one_vm_under_the_lab_scheduler") {
        every_mode_works(1, Sched::Lab);
    }
}

#[test]
fn every_mode_works_with_eight_vms_under_the_lab_scheduler() {
    if kvm_usable("every_mode_works_with_eight_vms_under_the_lab_scheduler") {
        every_mode_works(8, Sched::Lab);
    }
}
