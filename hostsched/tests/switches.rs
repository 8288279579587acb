//! What earlier and later kernels did differently: each switch changes what its documentation says, and nothing at its
//! default (the golden schedules prove that).
#![forbid(unsafe_code)]
use hostsched::config::{BusiestPick, IdleImbalance, IdleSibling, LbBias, LoadIdx, LoadTracking, Switches};
use hostsched::testing::{Engine, GroupSpec, Scenario, Step, TaskPlan};
use hostsched::{CpuId, CpuSet, Nanos, NoTrace, TaskId, Waker};

const MS: u64 = 1_000_000;

/// An engine with these switches, after `ms`.
fn after(scenario: &Scenario, switches: Switches, ms: u64) -> Engine<'_, NoTrace> {
    let mut host = scenario.host().expect("host");
    host.config_mut().switches = switches;
    let mut engine = Engine::new(scenario, host, NoTrace).expect("engine");
    engine.run_until(ms * MS).expect("run");
    engine
}

fn cpu_of(engine: &Engine<'_, NoTrace>, task: usize) -> u32 {
    engine.task(task).expect("started").0.0
}

/// A task that blocks at once, on a host where the CPUs in `busy` run hogs.
fn sleeper_beside_hogs(machine: &str, sleeper: u32, busy: &[u32]) -> Scenario {
    let mut s = Scenario::on(machine, 1000 * MS);
    s.tasks.push(TaskPlan::repeat([Step::Run(1000), Step::Wait]).on_cpu(sleeper));
    s.tasks.extend(busy.iter().map(|c| TaskPlan { start_ns: MS, ..TaskPlan::hog().pinned(*c) }));
    s
}

/// Where the sleeper is woken to, by an interrupt on its own CPU.
fn woken_to(s: &Scenario, idle_sibling: IdleSibling) -> u32 {
    let mut engine = after(s, Switches { idle_sibling, ..Switches::default() }, 20);
    let from = CpuId(cpu_of(&engine, 0));
    engine.act(|s| s.wake(TaskId(0), Waker::on(from))).expect("settles").expect("it was blocked").0
}

#[test]
fn traverse_takes_any_idle_cpu_of_the_cache_buddy_only_its_partner_off_none() {
    // CPU 0 and its partner 1 are busy, 2 and 3 are idle.
    let partner_busy = sleeper_beside_hogs("1s:4c", 0, &[0, 1]);
    assert_eq!(woken_to(&partner_busy, IdleSibling::Traverse), 2);
    assert_eq!(woken_to(&partner_busy, IdleSibling::Buddy), 0);
    assert_eq!(woken_to(&partner_busy, IdleSibling::Off), 0);
    let partner_idle = sleeper_beside_hogs("1s:4c", 0, &[0, 2]);
    assert_eq!(woken_to(&partner_idle, IdleSibling::Buddy), 1);
}

#[test]
fn an_idle_core_goes_before_an_idle_thread_of_a_busy_core() {
    // Cores {0, 1}, {2, 3}, {4, 5}: 0 and 2 are busy, so core {4, 5} is the only idle one.
    let s = sleeper_beside_hogs("1s:3c:2t", 0, &[0, 2]);
    assert_eq!(woken_to(&s, IdleSibling::Traverse), 4);
    // 3.0 looks at the lowest domain first, and no further than the one that spans the waker and the task.
    assert_eq!(woken_to(&s, IdleSibling::FirstIdle), 1);
}

#[test]
fn the_history_indices_of_another_kernel_reach_the_domains() {
    let s = Scenario::on("2s:2c", MS);
    let mut config = s.host().expect("host").config().clone();
    config.switches.load_idx = LoadIdx { wake: Some(1), ..LoadIdx::default() };
    let host = hostsched::Host::new(
        config,
        "2s:2c".parse().expect("machine"),
        Default::default(),
        hostsched::Limits { tasks: 1, groups: 1 },
    )
    .expect("host");
    assert!(host.domains().of(CpuId(0)).iter().all(|sd| sd.params.wake_idx == 1));
}

/// Where a task of one group is woken to by one of another that runs on CPU 0 and is said to be about to block, after both
/// have been there for `ms`: the waker running all along, the other asleep on CPU 1, which shares no cache.
fn drawn_across_groups(load_tracking: LoadTracking, ms: u64) -> u32 {
    let mut s = Scenario::on("2s:1c", 1000 * MS);
    s.groups = vec![GroupSpec { parent: None, shares: 1024 }; 2];
    let sleeper = TaskPlan::repeat([Step::Run(1000), Step::Wait]).in_group(1).on_cpu(1);
    s.tasks = vec![TaskPlan::hog().in_group(0).on_cpu(0), sleeper];
    let mut engine = after(&s, Switches { load_tracking, ..Switches::default() }, ms);
    let sync = Waker { cpu: CpuId(0), sync: true };
    engine.act(|s| s.wake(TaskId(1), sync)).expect("settles").expect("it was blocked").0
}

#[test]
fn with_tracked_load_a_waker_that_has_only_begun_to_run_draws_a_task_of_another_group() {
    // The weights say the same whatever has been: the waker leaves, and its group's shares come back to its CPU.
    assert_eq!([1, 200].map(|ms| drawn_across_groups(LoadTracking::PerQueue, ms)), [1, 1]);
    // Tracked, the waker's CPU has next to no load after 1 ms, and all of it after 200 ms.
    assert_eq!([1, 200].map(|ms| drawn_across_groups(LoadTracking::PerEntity, ms)), [0, 1]);
}

/// Two packages of four: four hogs pinned in the first, one free task beside them; the second package is idle.
fn free_task_in_a_full_package() -> Scenario {
    let mut s = Scenario::on("2s:4c", 1000 * MS);
    s.tasks = (0..4).map(|c| TaskPlan::hog().pinned(c)).collect();
    s.tasks.push(TaskPlan::hog().on_cpu(0));
    s
}

#[test]
fn every_load_bias_and_busiest_pick_finds_the_idle_package() {
    for lb_bias in [LbBias::MinMax, LbBias::Averaged, LbBias::Off] {
        for busiest_pick in [BusiestPick::V3_4, BusiestPick::V3_18] {
            let s = free_task_in_a_full_package();
            let engine = after(&s, Switches { lb_bias, busiest_pick, ..Switches::default() }, 200);
            assert!(cpu_of(&engine, 4) >= 4, "{lb_bias:?} {busiest_pick:?}: the free task stayed");
        }
    }
}

#[test]
fn a_two_cpu_cache_can_ask_for_a_larger_imbalance() {
    // Two packages of two CPUs; three free tasks against one: one idle CPU more is not enough with the threshold of two.
    let mut s = Scenario::on("2s:2c", 1000 * MS);
    s.tasks = vec![TaskPlan::hog().on_cpu(0), TaskPlan::hog().on_cpu(1)];
    let spread = |idle_imbalance| {
        let engine = after(&s, Switches { idle_imbalance, ..Switches::default() }, 300);
        (0..2).filter(|t| cpu_of(&engine, *t) >= 2).count()
    };
    assert_eq!(spread(IdleImbalance::One), 1);
    assert_eq!(spread(IdleImbalance::TwoOnTwoCpuLlc), 0);
}

#[test]
fn a_running_task_is_moved_when_it_may_no_longer_stay() {
    let mut s = Scenario::on("4s:1c", 1000 * MS);
    s.tasks = vec![TaskPlan::hog().on_cpu(0)];
    let mut engine = after(&s, Switches::default(), 10);
    engine.act(|s| s.task_set_affinity(TaskId(0), &CpuSet::of(CpuId(3)))).expect("settles").expect("CPU 3 is there");
    let (cpu, task) = engine.task(0).expect("it lives");
    assert_eq!((cpu.0, task.running, task.stats.nr_migrations), (3, true, 1));
}

#[test]
fn stolen_time_is_charged_to_nobody() {
    let mut s = Scenario::on("1s:1c", 1000 * MS);
    s.tasks = vec![TaskPlan::hog()];
    let mut engine = after(&s, Switches::default(), 10);
    engine.act(|s| s.account_steal(CpuId(0), Nanos(3 * MS))).expect("settles");
    engine.run_until(20 * MS).expect("run");
    let (_, task) = engine.task(0).expect("it lives");
    assert_eq!(task.sum_exec_runtime.0, 17 * MS);
    assert_eq!(engine.rqs()[0].stats().steal.0, 3 * MS);
}

#[test]
fn granularities_follow_the_cpus_that_are_on_line() {
    let s = Scenario::on("8s:1c", 1000 * MS);
    let mut engine = after(&s, Switches::default(), 1);
    assert_eq!(engine.host().config().sysctls.latency.0, 24 * MS);
    for cpu in 1..8 {
        engine.hotplug(CpuId(cpu), false).expect("settles").expect("it was on line");
    }
    assert_eq!(engine.host().config().sysctls.latency.0, 6 * MS);
}
