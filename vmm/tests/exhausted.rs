//! A process that runs out of descriptors: whichever step does not get one, the run ends with its name, and no thread stays.
//!
//! The limit is the process's own, so this test has a process for itself.

mod support;

use std::time::{Duration, Instant};

use plan::{Control, Engine, EngineError, Mode, RunPlan, RunStatus, Sched};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{kvm_usable, plan};
use vmm::Kvm;

/// Threads of this process with a vCPU's name, once those that were joined are gone from /proc.
fn vcpu_threads() -> usize {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        let left = names.filter(|name| name.starts_with("vcpu")).count();
        if left == 0 || Instant::now() > limit {
            return left;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn without_descriptors_every_step_fails_by_name_and_no_thread_stays() {
    if !kvm_usable("without_descriptors_every_step_fails_by_name_and_no_thread_stays") {
        return;
    }
    let whole = getrlimit(Resource::Nofile);
    let mut said = Vec::new();
    for descriptors in 3..200 {
        let plan = RunPlan { vcpus: 2, duration_ns: 20_000_000, warmup_ns: 0, ..plan(Mode::Base, 1, Sched::Host) };
        setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), ..whole }).expect("a lower limit");
        let result = Kvm::default().run(&plan, &Control::default());
        setrlimit(Resource::Nofile, whole).expect("the old limit");
        match result {
            Err(EngineError::Unsupported(why)) => said.push(why),
            Err(error @ EngineError::Internal { .. }) => said.push(error.to_string()),
            Err(error) => panic!("{descriptors}: {error}"),
            Ok(record) => {
                assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
                break;
            }
        }
        assert_eq!(vcpu_threads(), 0, "threads stay after: {}", said[said.len() - 1]);
    }
    said.dedup();
    for step in ["/dev/kvm", "booting VM 0", "control loop"] {
        assert!(said.iter().any(|text| text.contains(step)), "no run failed at {step}: {said:#?}");
    }
    assert!(said.iter().any(|text| text.contains("running the control loop")), "{said:#?}");
}
