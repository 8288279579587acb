//! The innocent neighbour beside real guests.

mod support;

use plan::{Mode, Neighbour, RunPlan, RunRecord, RunStatus, Sched, metric};
use support::{kvm_usable, plan, run};
use vmm::Options;

fn beside(mode: Mode, neighbour: Neighbour, sched: Sched) -> RunRecord {
    let plan = RunPlan { vcpus: 2, neighbour, duration_ns: 600_000_000, ..plan(mode, 2, sched) };
    let record = run(&plan, Options::default());
    assert_eq!(record.status, RunStatus::Ok, "{mode} {sched}: {:?}", record.failures);
    assert_eq!((record.stale_reads, record.soft_stale_reads), (0, 0));
    assert_eq!((record.vms.len(), record.vms[0].vcpu_records.len()), (2, 2), "the neighbour is none of the VMs");
    let count = |name: &str| record.counters[name];
    assert_eq!(count(metric::KICKS_SENT), count(metric::KICKS_CONSUMED) + count(metric::KICKS_COALESCED));
    record
}

#[test]
fn a_sleeper_wakes_up_in_every_mode_and_everything_ends() {
    if !kvm_usable("a_sleeper_wakes_up_in_every_mode_and_everything_ends") {
        return;
    }
    for mode in [Mode::Base, Mode::Gang, Mode::GangNext, Mode::Ple, Mode::PvFlush] {
        let record = beside(mode, Neighbour::Sleeper, Sched::Lab);
        let wake = &record.histograms[metric::NEIGHBOUR_WAKE];
        // 59 cycles fit; a busy host may leave few.
        assert!((1..=62).contains(&wake.count), "{mode}: {wake:?}");
        let neighbour = record.neighbour.expect("there is one");
        assert!(neighbour.records > 0 && neighbour.cpu_ns > 0 && neighbour.entitled_ns > 0, "{mode}: {neighbour:?}");
    }
}

#[test]
fn a_neighbour_that_computes_gets_its_turns_under_both_schedulers() {
    if !kvm_usable("a_neighbour_that_computes_gets_its_turns_under_both_schedulers") {
        return;
    }
    for (mode, sched) in [(Mode::Base, Sched::Lab), (Mode::Gang, Sched::Lab), (Mode::PvFlush, Sched::Host)] {
        let record = beside(mode, Neighbour::Spin, sched);
        let neighbour = record.neighbour.expect("there is one");
        assert!(neighbour.records > 0 && neighbour.cpu_ns > 0, "{mode} {sched}: {neighbour:?}");
        assert!(!record.histograms.contains_key(metric::NEIGHBOUR_WAKE), "it never sleeps");
    }
}
