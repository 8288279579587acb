//! Faults: CPUs off and on line, groups removed, vCPUs killed.
use std::sync::Arc;

use plan::{Control, Engine, Mode, RunPlan, RunRecord, RunStatus};
use sim::{EventLog, Fault, FaultKind, Options, Sim};

use crate::host::{MS, host, plan};

fn fault(at_ns: u64, kind: FaultKind) -> Fault {
    Fault { at_ns, kind }
}

fn run(plan: &RunPlan, faults: &[Fault]) -> (RunRecord, String) {
    let log = EventLog::new(100_000);
    let sim = Sim::new(host("2s:2c"), Options::default()).with_faults(faults.to_vec()).watched(Arc::new(log.clone()));
    let record = sim.run(plan, &Control::default()).unwrap();
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    (record, log.render())
}

/// Lines of the log after `marker` that hold `what`.
fn after<'a>(log: &'a str, marker: &str, what: &str) -> Vec<&'a str> {
    let rest = log.lines().filter(|line| !line.starts_with('#')).skip_while(|line| !line.ends_with(marker));
    rest.skip(1).filter(|line| line.contains(what)).collect()
}

fn events<'a>(log: &'a str, what: &str) -> Vec<&'a str> {
    log.lines().filter(|line| !line.starts_with('#') && line.contains(what)).collect()
}

#[test]
fn a_cpu_that_goes_off_line_does_nothing_until_it_is_back() {
    for mode in Mode::ALL.iter().copied() {
        let faults = [fault(40 * MS, FaultKind::CpuOffline(1)), fault(80 * MS, FaultKind::CpuOnline(1))];
        let (record, log) = run(&plan(mode, 3, 4, 4), &faults);
        let lines = events(&log, "");
        let at = |what: &str| lines.iter().position(|line| line.ends_with(what)).unwrap();
        let (off, on) = (at(" c1 off"), at(" c1 on"));
        let about_it = |line: &&&str| line.split(' ').nth(1) == Some("c1") || line.contains(" send c1 ");
        assert!(lines[..off].iter().filter(about_it).count() > 10, "{mode}: it works before");
        assert_eq!(lines[off + 1..on].iter().find(about_it), None, "{mode}");
        assert_eq!(record.notices.iter().filter(|notice| notice.starts_with("fault: CPU 1 o")).count(), 2);
        assert!(record.vms.iter().all(|vm| vm.records > 0), "{mode}");
    }
}

#[test]
fn a_cpu_that_is_back_is_used() {
    let faults = [fault(30 * MS, FaultKind::CpuOffline(1)), fault(60 * MS, FaultKind::CpuOnline(1))];
    let (_, log) = run(&plan(Mode::Base, 3, 4, 4), &faults);
    assert!(after(&log, " c1 on", " c1 in ").len() > 10);
}

#[test]
fn a_gang_finds_a_new_leader_when_its_own_goes_off_line() {
    let (_, log) = run(&plan(Mode::Gang, 3, 4, 4), &[fault(40 * MS, FaultKind::CpuOffline(0))]);
    assert!(!events(&log, " c0 send c1 gang ").is_empty(), "CPU 0 leads");
    assert!(after(&log, " c0 off", " c1 send c2 gang ").len() > 3, "then CPU 1 leads");
}

#[test]
fn the_last_cpu_stays_and_a_fault_that_cannot_be_is_refused() {
    let faults = [
        fault(10 * MS, FaultKind::CpuOffline(0)),
        fault(11 * MS, FaultKind::CpuOffline(1)),
        fault(12 * MS, FaultKind::CpuOnline(1)),
        fault(13 * MS, FaultKind::CpuOnline(3)),
        fault(14 * MS, FaultKind::GroupRemoved { vm: 1 }),
        fault(15 * MS, FaultKind::GroupRemoved { vm: 1 }),
        fault(16 * MS, FaultKind::VcpuKilled { vm: 0, vcpu: 1 }),
        fault(17 * MS, FaultKind::VcpuKilled { vm: 0, vcpu: 1 }),
    ];
    // CPU 3 is on the machine and not in the plan.
    let (record, _) = run(&plan(Mode::Base, 2, 2, 2), &faults);
    let refused = record.notices.iter().filter(|notice| notice.starts_with("refused fault: "));
    let refused: Vec<_> = refused.map(|notice| &notice["refused fault: ".len()..]).collect();
    let (on, group, vcpu) = ("CPU 1 on line at 12ms", "group of VM 1 removed at 15ms", "vCPU 1 of VM 0 killed at 17ms");
    assert_eq!(refused, ["CPU 1 off line at 11ms", on, "CPU 3 on line at 13ms", group, vcpu]);
}

#[test]
fn a_fault_of_something_that_does_not_exist_is_no_plan() {
    for (kind, want) in [
        (FaultKind::CpuOffline(4), "cpu-off=4 happens to nothing: there is no CPU 4 among 4, from 0"),
        (FaultKind::CpuOnline(9), "cpu-on=9 happens to nothing: there is no CPU 9 among 4, from 0"),
        (FaultKind::GroupRemoved { vm: 2 }, "group-gone=2 happens to nothing: there is no VM 2 among 2, from 0"),
        (FaultKind::VcpuKilled { vm: 2, vcpu: 0 }, "killed=2.0 happens to nothing: there is no VM 2 among 2, from 0"),
        (FaultKind::VcpuKilled { vm: 0, vcpu: 3 }, "killed=0.3 happens to nothing: there is no vCPU 3 among 3, from 0"),
    ] {
        let sim = Sim::new(host("2s:2c"), Options::default()).with_faults(vec![fault(MS, kind)]);
        let error = sim.run(&plan(Mode::Base, 2, 3, 2), &Control::default()).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn a_group_may_vanish_while_its_gang_interrupt_is_under_way() {
    // An interrupt that takes 2 ms to arrive is nearly always under way.
    let mut machine = host("2s:2c");
    machine.costs.ipi_deliver = 2 * MS;
    let mut stale = 0;
    for at in 0..20 {
        let faults = vec![fault((40 + at) * MS + at * 77_777, FaultKind::GroupRemoved { vm: 1 })];
        let sim = Sim::new(machine.clone(), Options::default()).with_faults(faults);
        let record = sim.run(&plan(Mode::Gang, 3, 4, 4), &Control::default()).unwrap();
        assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
        assert!(record.vms[1].records > 0);
        stale += record.counters["gang_ipis_stale"];
    }
    assert!(stale > 0, "no request was under way when its group vanished");
}

#[test]
fn a_killed_vcpu_ends_its_vm_and_nobody_else() {
    for mode in Mode::ALL.iter().copied() {
        let (record, log) = run(&plan(mode, 3, 4, 4), &[fault(60 * MS, FaultKind::VcpuKilled { vm: 1, vcpu: 2 })]);
        assert!(!events(&log, " in 1.").is_empty());
        assert_eq!(after(&log, " kill 1.2", " in 1."), Vec::<&str>::new(), "{mode}");
        let [a, dead, b] = [0, 1, 2].map(|vm| record.vms[vm].records);
        assert!(dead < a && dead < b, "{mode}: {a}, {dead}, {b}");
        for vm in ["0.", "2."] {
            assert!(after(&log, " kill 1.2", &format!(" in {vm}")).len() > 3, "{mode}: VM {vm} goes on");
        }
    }
}
