//! Directed yield: who is asked, in which order, and what the switches change.
mod rig;

use hostsched::policy::{PleSwitches, PolicyKind, PolicySettings, counter};
use hostsched::{CpuId, GroupId, TaskId, VmId};
use rig::Rig;

/// One VM: vCPU i on CPU i mod 2, each pair sharing its CPU; the first of each pair runs.
fn vm_of(vcpus: u32, ple: PleSwitches) -> (Rig, Vec<TaskId>) {
    let mut rig = Rig::new("1s:2c", PolicyKind::Ple, &PolicySettings { ple, ..PolicySettings::default() });
    let tasks = (0..vcpus).map(|i| rig.vcpu(GroupId::ROOT, Some(VmId(0)), i % 2)).collect();
    rig.schedule(0);
    rig.schedule(1);
    rig.fx.clear();
    (rig, tasks)
}

/// The task that runs on CPU 0 spins.
fn spin(rig: &mut Rig) -> bool {
    rig.at().spin_detected(CpuId(0))
}

#[test]
fn a_spinner_yields_to_a_sibling_that_waits_and_both_cpus_reschedule() {
    let (mut rig, tasks) = vm_of(4, PleSwitches::default());
    assert_eq!((rig.running(0), rig.running(1)), (Some(tasks[0]), Some(tasks[1])));
    assert!(spin(&mut rig));
    // Tasks 0 and 1 run; the first that waits is 2, on the spinner's own CPU.
    assert_eq!(rig.schedule(0), Some(tasks[2]));
    // From the last boosted on: 3, on the other CPU, which is told to reschedule.
    assert!(spin(&mut rig));
    assert_eq!(rig.fx.resched, [CpuId(1)]);
    assert_eq!(rig.schedule(1), Some(tasks[3]));
    assert_eq!(rig.counter(counter::SPIN_HINTS), 2);
    assert_eq!(rig.counter(counter::YIELD_TO_CALLS), 2);
    assert_eq!(rig.counter(counter::YIELDS), 2);
}

#[test]
fn nobody_receives_where_all_others_run_block_or_belong_to_another_vm() {
    let (mut rig, _) = vm_of(2, PleSwitches::default());
    rig.vcpu(GroupId::ROOT, Some(VmId(1)), 0);
    rig.task(GroupId::ROOT, 1);
    let sleeper = rig.vcpu(GroupId::ROOT, Some(VmId(0)), 1);
    while rig.running(1) != Some(sleeper) {
        rig.ticks(1);
    }
    rig.at().block_current(CpuId(1));
    rig.schedule(1);
    while rig.running(1).and_then(|t| rig.host.task_vm(t)) != Some(VmId(0)) {
        rig.ticks(1);
    }
    while rig.running(0).and_then(|t| rig.host.task_vm(t)) != Some(VmId(0)) {
        rig.ticks(1);
    }
    assert!(!spin(&mut rig));
    assert_eq!(rig.counter(counter::YIELD_TO_CALLS), 0);
}

/// One CPU: a vCPU that spins, and a sibling that has run `ms` longer and waits.
fn unfair(ms: u32, ple: PleSwitches) -> (Rig, Vec<TaskId>) {
    let mut rig = Rig::new("1s:1c", PolicyKind::Ple, &PolicySettings { ple, ..PolicySettings::default() });
    let ahead = rig.vcpu(GroupId::ROOT, Some(VmId(0)), 0);
    rig.schedule(0);
    rig.ticks(ms);
    // The spinner is far behind the receiver.
    let spinner = rig.vcpu(GroupId::ROOT, Some(VmId(0)), 0);
    rig.schedule(0);
    assert_eq!(rig.running(0), Some(spinner));
    (rig, vec![ahead, spinner])
}

#[test]
fn the_boost_is_refused_where_it_is_too_unfair_unless_it_is_strict() {
    for (ms, strict_boost, taken) in [(50, false, false), (0, false, true), (50, true, true)] {
        let (mut rig, tasks) = unfair(ms, PleSwitches { strict_boost, ..PleSwitches::default() });
        assert!(spin(&mut rig));
        assert_eq!(rig.schedule(0) == Some(tasks[0]), taken, "{ms} ms, strict {strict_boost}");
    }
}

#[test]
fn with_preempted_only_a_woken_vcpu_does_not_receive() {
    for preempted_only in [false, true] {
        let (mut rig, tasks) = vm_of(2, PleSwitches { preempted_only, ..PleSwitches::default() });
        rig.at().block_current(CpuId(1));
        rig.schedule(1);
        // Another VM's task has CPU 1 when the sibling is woken there.
        rig.task(GroupId::ROOT, 1);
        rig.schedule(1);
        rig.at().wake(tasks[1], hostsched::Waker::on(CpuId(1)));
        assert_ne!(rig.running(1), Some(tasks[1]));
        assert_eq!(spin(&mut rig), !preempted_only);
        // It runs, and loses the CPU: now it does.
        while rig.running(1) != Some(tasks[1]) {
            rig.ticks(1);
        }
        while rig.running(1) == Some(tasks[1]) {
            rig.ticks(1);
        }
        assert!(spin(&mut rig));
    }
}

#[test]
fn with_dy_eligible_a_spinner_receives_every_second_time() {
    let (mut rig, tasks) = vm_of(3, PleSwitches { dy_eligible: true, ..PleSwitches::default() });
    // 0 spins and yields to 2; then 2 spins, and 0 is passed over once.
    assert!(spin(&mut rig));
    assert_eq!(rig.schedule(0), Some(tasks[2]));
    assert!(!spin(&mut rig));
    assert!(spin(&mut rig));
}

#[test]
fn with_in_kernel_a_kernel_spinner_passes_over_user_mode() {
    for (in_kernel, spinner_kernel, taken) in [(false, true, true), (true, true, false), (true, false, true)] {
        let (mut rig, tasks) = vm_of(3, PleSwitches { in_kernel, ..PleSwitches::default() });
        rig.host.guest_ring(tasks[0], spinner_kernel);
        rig.host.guest_ring(tasks[2], false);
        assert_eq!(spin(&mut rig), taken, "switch {in_kernel}, spinner in its kernel {spinner_kernel}");
    }
}
