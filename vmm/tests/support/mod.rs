//! What the KVM tests share: a small plan, and the gate that skips them by name where KVM cannot be used.

use std::time::Duration;

use plan::{Control, Engine, Lock, Mode, RunPlan, RunRecord, Sched, Workload, WorkloadParams};
use vmm::{Kvm, Options};

/// True if KVM can be used. If not: says which test is skipped and why, or panics where VMMLAB_REQUIRE_KVM=1 forbids it.
pub(crate) fn kvm_usable(test: &str) -> bool {
    match vmm::probe::probe().kvm {
        Ok(_) => true,
        Err(reason) => {
            assert!(std::env::var_os("VMMLAB_REQUIRE_KVM").is_none_or(|v| v != "1"), "{test} needs KVM: {reason}");
            eprintln!("skipped {test}: {reason}");
            false
        }
    }
}

/// A short run of `mode` with `vms` VMs of 8 vCPUs on all CPUs.
pub(crate) fn plan(mode: Mode, vms: u32, sched: Sched) -> RunPlan {
    RunPlan {
        mode: mode.name().into(),
        axes: mode.axes(),
        vms,
        vcpus: 8,
        pcpus: plan::CpuList::new(vmm::probe::allowed_cpus()).expect("this thread runs somewhere"),
        sched,
        gang_cpus: 8,
        hz: 1000,
        sched_latency_ns: None,
        sched_min_granularity_ns: None,
        sched_wakeup_granularity_ns: None,
        ple_window_cycles: 4096,
        spin_budget: 1024,
        duration_ns: 300_000_000,
        warmup_ns: 100_000_000,
        workload: Workload::Ebizzy,
        params: WorkloadParams::default(),
        lock: Lock::Ticket,
        inject: None,
        seed: 1,
        block: 0,
        cgroup: None,
    }
}

/// Runs with options, and with a limit on how long it may take: nothing may hang.
#[allow(dead_code, reason = "each file of tests takes what it needs")]
pub(crate) fn run(plan: &RunPlan, options: Options) -> RunRecord {
    let control = Control::default();
    let (plan, stop) = (plan.clone(), control.clone());
    let run = std::thread::spawn(move || Kvm::new(options).run(&plan, &control));
    for _ in 0..1200 {
        if run.is_finished() {
            return run.join().expect("the engine does not panic").expect("the engine gives a record");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.abort();
    panic!("the run hangs");
}
