//! What the KVM tests share: a small plan, and the gate that skips them by name where KVM cannot be used.

use std::time::Duration;

use plan::{Control, Engine, Mode, RunPlan, RunRecord, Sched};
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
        vms,
        pcpus: plan::CpuList::new(vmm::probe::allowed_cpus()).expect("this thread runs somewhere"),
        sched,
        gang_cpus: 8,
        duration_ns: 300_000_000,
        warmup_ns: 100_000_000,
        seed: 1,
        ..RunPlan::sample(mode)
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
