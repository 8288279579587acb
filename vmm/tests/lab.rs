//! The lab's scheduler on real guests: that it decides, that it keeps its rules, that it leaves nothing behind.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use plan::{Mode, RunPlan, RunRecord, RunStatus, Sched, metric};
use support::{kvm_usable, plan, run};
use vmm::Options;
use vmm::cgroup::RunCgroup;

fn lab(mode: Mode, vms: u32, vcpus: u32) -> RunPlan {
    RunPlan { vcpus, ..plan(mode, vms, Sched::Lab) }
}

fn assert_ok(record: &RunRecord) {
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!(record.counters[metric::IN_RUN_MAX], 1);
}

/// The runs of this process that have cgroups below `home`.
fn runs_in(home: &Path) -> usize {
    let own = format!("vmmlab-{}-", std::process::id());
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries.filter(|e| e.file_name().to_str().is_some_and(|name| name.starts_with(&own))).count()
}

/// The directory in which runs make their cgroups, or `None` with a word on what is skipped.
fn home(test: &str) -> Option<std::path::PathBuf> {
    match RunCgroup::create(None, 1, 0, false) {
        Ok(run) => run.path().parent().map(Path::to_owned),
        Err(error) => {
            eprintln!("skipped {test}: {error}");
            None
        }
    }
}

#[test]
fn a_live_run_replays_through_hostsched_alone() {
    if !kvm_usable("a_live_run_replays_through_hostsched_alone") {
        return;
    }
    for mode in [Mode::Base, Mode::GangPle, Mode::PvFlush] {
        let record = run(&lab(mode, 2, 4), Options { replay: true, ..Options::default() });
        assert_ok(&record);
        let count = |name: &str| record.counters[name];
        assert!(count("replayed_picks") > 8 && count("replayed_steps") > 50, "{mode}: {:?}", record.counters);
        assert!(mode != Mode::PvFlush || count("replayed_wakes") > 0, "{mode}: {:?}", record.counters);
    }
}

#[test]
fn no_cgroup_is_left_whatever_the_end() {
    let test = "no_cgroup_is_left_whatever_the_end";
    if !kvm_usable(test) {
        return;
    }
    let Some(home) = home(test) else { return };
    let fault = vmm::run_shared::Fault::Panic;
    let hook = vmm::run_shared::FaultHook { vcpu: vmm::sched::VcpuIndex(1), after_exits: 5, fault };
    let failed = run(&lab(Mode::PvFlush, 2, 2), Options { fault_hook: Some(hook), ..Options::default() });
    assert_eq!(failed.status, RunStatus::Failed);
    let gang = run(&lab(Mode::Gang, 2, 2), Options::default());
    assert_ok(&gang);
    assert!(!gang.notices.iter().any(|notice| notice.contains("not cgroups")), "{:?}", gang.notices);
    // Other tests of this process may be running: theirs go too.
    let gone = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        runs_in(&home) == 0
    });
    assert!(gone, "cgroups were left in {}", home.display());
}

#[test]
fn a_gang_that_cannot_fit_is_told_so() {
    if !kvm_usable("a_gang_that_cannot_fit_is_told_so") {
        return;
    }
    let plan = lab(Mode::Gang, 1, 8);
    let cpus = plan.pcpus.as_slice().len();
    if cpus >= 8 {
        eprintln!("skipped a_gang_that_cannot_fit_is_told_so: 8 vCPUs fit {cpus} CPUs");
        return;
    }
    let record = run(&plan, Options::default());
    assert_ok(&record);
    let told = record.notices.iter().find(|n| n.contains("does not fit")).expect("a notice");
    assert!(told.contains("coverage 0.") && told.contains(&format!("--vcpus {cpus} would fit")), "{told}");
}
