//! The innocent neighbour of a simulated host: what it gets, and how late it wakes up.
use plan::{Control, Engine, Mode, Neighbour, RunPlan, RunRecord, RunStatus, entitled_cpus, metric};
use sim::{Options, Sim};

use crate::host::{MS, host, plan};

const MODES: [Mode; 4] = [Mode::Base, Mode::Gang, Mode::Ple, Mode::PvFlush];

/// Two VMs that fill two CPUs, with that neighbour, for a second.
fn beside(mode: Mode, neighbour: Neighbour) -> RunPlan {
    RunPlan { neighbour, duration_ns: 1000 * MS, ..plan(mode, 2, 2, 2) }
}

fn run(plan: &RunPlan) -> RunRecord {
    let record = Sim::new(host("1s:2c"), Options::default()).run(plan, &Control::default()).unwrap();
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!(record.vms.len(), 2, "the neighbour is none of the VMs");
    record
}

/// CPU time over entitlement: of the neighbour, and of all together.
fn shares(plan: &RunPlan) -> [f64; 2] {
    let record = run(plan);
    let neighbour = record.neighbour.as_ref().unwrap();
    let (got, entitled) = record.vms.iter().fold((neighbour.cpu_ns, neighbour.entitled_ns), |(got, entitled), vm| {
        (got + vm.cpu_ns, entitled + vm.entitled_ns)
    });
    [(neighbour.cpu_ns, neighbour.entitled_ns), (got, entitled)].map(|(got, entitled)| got as f64 / entitled as f64)
}

#[test]
fn what_the_neighbour_gets_the_vms_do_not() {
    for mode in MODES {
        let plan = beside(mode, Neighbour::Spin);
        let cpus = entitled_cpus(&plan);
        assert!((2.0 * cpus.vm + cpus.neighbour - 2.0).abs() < 1e-9, "two CPUs are shared out whole");
        let [_, all] = shares(&plan);
        // The rest is the host's own: exits, switches, ticks; with pause-loop exits much of it.
        assert!(all > 0.85 && all <= 1.0, "{mode}: {all}");
    }
}

#[test]
fn gangs_take_from_a_neighbour_that_computes_and_pvflush_does_not() {
    let [base, gang, pvflush] =
        [Mode::Base, Mode::Gang, Mode::PvFlush].map(|mode| shares(&beside(mode, Neighbour::Spin))[0]);
    assert!(gang < base - 0.1, "V2 runs its gang first whoever is in line: {gang} against {base}");
    assert!((pvflush - base).abs() < 0.1, "{pvflush} against {base}");
}

#[test]
fn a_sleeper_wakes_up_in_every_mode_and_the_same_again() {
    for mode in MODES {
        let plan = beside(mode, Neighbour::Sleeper);
        let record = run(&plan);
        let wake = &record.histograms[metric::NEIGHBOUR_WAKE];
        // A cycle is 10 ms of sleep, 200 us of computing or somewhat more, and the latency.
        assert!((80..=98).contains(&wake.count), "{mode}: {} wake-ups a second", wake.count);
        assert!(wake.p50_ns > 0 && wake.p99_ns < 50 * MS, "{mode}: {wake:?}");
        let again = run(&plan);
        assert_eq!((wake, &record.neighbour), (&again.histograms[metric::NEIGHBOUR_WAKE], &again.neighbour));
    }
}

#[test]
fn without_a_neighbour_nothing_is_said_of_one() {
    let record = run(&beside(Mode::Base, Neighbour::None));
    assert!(record.neighbour.is_none() && !record.histograms.contains_key(metric::NEIGHBOUR_WAKE));
    let ids = ["neighbour_wake_p50", "neighbour_wake_p99", "neighbour_share"];
    assert!(ids.iter().all(|id| metric::find(id).unwrap().value(&record).is_none()));
}
