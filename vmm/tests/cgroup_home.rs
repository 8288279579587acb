//! A delegated cgroup (`--cgroup`): the process goes there for the run and comes back. One test, because moving a process
//! moves all its threads.

mod support;

use std::fs;

use plan::{Mode, RunPlan, RunStatus, Sched};
use support::{kvm_usable, plan, run};
use vmm::Options;
use vmm::cgroup::RunCgroup;

fn own_cgroup() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap().lines().find(|line| line.starts_with("0::")).unwrap().to_owned()
}

#[test]
fn the_process_comes_back_from_a_delegated_cgroup() {
    let test = "the_process_comes_back_from_a_delegated_cgroup";
    if !kvm_usable(test) {
        return;
    }
    let home = match RunCgroup::create(None, 1, 0, false) {
        Ok(run) => run.path().parent().unwrap().to_owned(),
        Err(error) => return eprintln!("skipped {test}: {error}"),
    };
    let before = own_cgroup();
    let delegated = home.join(format!("delegated-{}", std::process::id()));
    fs::create_dir(&delegated).unwrap();
    let plan = RunPlan { vcpus: 2, cgroup: Some(delegated.clone()), ..plan(Mode::Gang, 1, Sched::Lab) };
    let record = run(&plan, Options::default());
    let after = own_cgroup();
    fs::remove_dir(&delegated).unwrap();
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    assert_eq!(after, before);
}
