//! Fairness bounds, under requests from an adversary.
//!
//! Stated bound, for entities of one queue that always want to run. Let `W` be the sum of their weights `w`, and
//! `slice = period * w / W`. Whoever is picked stands at most `g` before the leftmost, where g = 0 in CFS (hogs set no
//! buddies) and g = `wakeup_granularity * 1024 / w(leftmost)` in V1; it runs for at most slice + tick. So in virtual time
//! no two ever stand further apart than
//!
//!     D = max g + max over all of (slice + tick) * 1024 / w
//!
//! and over any stretch of time a group gets its weight's share of the CPU to within `2 * D * w / 1024`.
use hostsched::policy::{GangSettings, PolicyKind, PolicySettings};
use hostsched::testing::{GroupSpec, Scenario, Step, TaskPlan};
use hostsched::{GroupId, Ipi, Switches};
use proptest::prelude::*;
use proptest::sample::select;

use super::run::{self, Run};
use super::world::{Act, MS, World};

/// Groups of hogs on one CPU, all of them gangs, and requests for them.
fn adversary(kinds: &'static [PolicyKind]) -> impl Strategy<Value = World> {
    let shares = prop_oneof![2 => Just(1024_u64), 1 => 128..8192_u64];
    let group = (shares, 1..4_usize);
    let requests = prop::collection::vec((0..2000 * MS, 1..7_u32), 0..300);
    (select(kinds), prop::collection::vec(group, 2..7), requests, select(vec![250_u64, 1000])).prop_map(
        |(kind, groups, mut requests, hz)| {
            requests.sort_unstable();
            let tasks = groups.iter().enumerate().flat_map(|(g, (_, n))| vec![TaskPlan::hog().in_group(g); *n]);
            let specs = groups.iter().map(|(shares, _)| GroupSpec { parent: None, shares: *shares });
            let act = |(at, group)| (at, Act::Request(0, group, false));
            World {
                scenario: Scenario {
                    hz,
                    groups: specs.collect(),
                    tasks: tasks.collect(),
                    ..Scenario::on("1s:1c", 2000 * MS)
                },
                switches: Switches::default(),
                kind,
                settings: PolicySettings::default(),
                gangs: vec![true; groups.len()],
                acts: requests.into_iter().map(act).collect(),
            }
        },
    )
}

fn group_runtimes(world: &World, engine: &Run<'_>) -> Vec<u64> {
    let mut sums = vec![0; world.scenario.groups.len()];
    for (i, plan) in world.scenario.tasks.iter().enumerate() {
        sums[plan.group.unwrap()] += engine.task(i).map_or(0, |(_, t)| t.sum_exec_runtime.0);
    }
    sums
}

/// 2 * D * w / 1024 for each group, in ns, plus a rounding error of 1 virtual ns for each charge (a few a tick).
fn bounds(world: &World, v1: bool) -> Vec<u64> {
    let host = world.scenario.host().unwrap();
    let sysctls = &host.config().sysctls;
    let tick = host.config().tick.0;
    let weights: Vec<u64> = world.scenario.groups.iter().map(|g| g.shares).collect();
    let sum: u64 = weights.iter().sum();
    let period = hostsched::sched_period(sysctls, weights.len() as u64);
    let turn = |w: &u64| (period * w / sum + tick) * 1024 / w;
    let lead = if v1 { sysctls.wakeup_granularity.0 * 1024 / weights.iter().min().unwrap() } else { 0 };
    let d = lead + weights.iter().map(turn).max().unwrap();
    let rounding = 10 * world.scenario.duration_ns / tick;
    weights.iter().map(|w| (2 * d + rounding) * w / 1024).collect()
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let bounds = bounds(world, world.kind == PolicyKind::GangNext);
    let weights: Vec<u64> = world.scenario.groups.iter().map(|g| g.shares).collect();
    let sum: u64 = weights.iter().sum();
    let mut engine = run::start(world, Vec::new());
    let mut acts = world.acts.iter().peekable();
    // All pairs of these instants are stretches of time.
    let mut seen: Vec<(u64, Vec<u64>)> = Vec::new();
    for now in (0..=world.scenario.duration_ns).step_by(100_000_000 - 77_777) {
        while let Some((at, what)) = acts.next_if(|(at, _)| *at <= now) {
            run::run_until(&mut engine, *at)?;
            run::act(&mut engine, what);
        }
        run::run_until(&mut engine, now)?;
        let ran = group_runtimes(world, &engine);
        for (then, had) in &seen {
            for g in 0..weights.len() {
                let (got, due) = (ran[g] - had[g], (now - then) * weights[g] / sum);
                prop_assert!(got.abs_diff(due) <= bounds[g], "group {g} got {got} of {due} ns from {then} to {now} ns");
            }
        }
        seen.push((now, ran));
    }
    Ok(())
}

proptest! {
    #![proptest_config(super::config(80))]

    #[test]
    fn no_group_strays_from_its_share_by_more_than_the_bound(
        world in adversary(&[PolicyKind::Cfs, PolicyKind::GangNext])
    ) {
        check(&world)?;
    }

    /// `(n - 1) * 2 * (wakeup_granularity + period / n + tick)`: see `policy/gang.rs`.
    #[test]
    fn under_v1_nobody_waits_longer_than_stated(mut world in adversary(&[PolicyKind::GangNext])) {
        let n = world.scenario.groups.len();
        world.scenario.groups.iter_mut().for_each(|g| g.shares = 1024);
        world.scenario.tasks = (0..n).map(|g| TaskPlan::hog().in_group(g)).collect();
        let mut engine = run::start(&world, Vec::new());
        for (at, what) in &world.acts {
            run::run_until(&mut engine, *at)?;
            run::act(&mut engine, what);
        }
        run::run_until(&mut engine, world.scenario.duration_ns)?;
        let config = engine.host().config();
        let n = n as u64;
        let period = hostsched::sched_period(&config.sysctls, n);
        let bound = (n - 1) * 2 * (config.sysctls.wakeup_granularity.0 + period / n + config.tick.0);
        for task in 0..engine.task_count() {
            let wait = engine.task(task).unwrap().1.stats.wait_max.0;
            prop_assert!(wait <= bound, "task {task} waited {wait} ns, bound {bound} ns");
        }
    }
}

/// Three groups on one CPU; requests for the first come every 500 us.
fn share_of_the_favoured(kind: PolicyKind) -> u64 {
    let world = World {
        scenario: Scenario {
            groups: vec![GroupSpec { parent: None, shares: 1024 }; 3],
            tasks: (0..3).map(|g| TaskPlan::hog().in_group(g)).collect(),
            ..Scenario::on("1s:1c", 1000 * MS)
        },
        switches: Switches::default(),
        kind,
        settings: PolicySettings::default(),
        gangs: vec![true; 3],
        acts: Vec::new(),
    };
    let mut engine = run::start(&world, Vec::new());
    for at in (0..world.scenario.duration_ns).step_by(500_000) {
        engine.run_until(at).unwrap();
        let request = Ipi::Gang { group: GroupId(1), generation: 0 };
        engine.act(|s| s.ipi_received(hostsched::CpuId(0), request)).unwrap();
    }
    group_runtimes(&world, &engine)[0] / 10_000_000
}

#[test]
fn an_adversary_gets_the_whole_cpu_from_v2_and_its_share_from_v1() {
    let percent = |kind| share_of_the_favoured(kind);
    assert_eq!(percent(PolicyKind::Cfs), 33);
    assert!((32..=35).contains(&percent(PolicyKind::GangNext)), "V1: {} %", percent(PolicyKind::GangNext));
    assert!(percent(PolicyKind::Gang) >= 99, "V2: {} %", percent(PolicyKind::Gang));
}

/// A gang with one member on each of two CPUs, and a group on the second only. The member on the leader runs and sleeps for
/// 50 us each, so a request comes every 100 us. What the group gets of its CPU, in percent.
fn share_beside_a_restless_gang(kind: PolicyKind) -> u64 {
    let restless = TaskPlan::repeat([Step::Run(50_000), Step::Sleep(50_000)]);
    let world = World {
        scenario: Scenario {
            groups: vec![GroupSpec { parent: None, shares: 1024 }; 2],
            tasks: vec![
                restless.in_group(0).pinned(0),
                TaskPlan::hog().in_group(0).pinned(1),
                TaskPlan::hog().in_group(1).pinned(1),
            ],
            ..Scenario::on("1s:2c", 2000 * MS)
        },
        switches: Switches::default(),
        kind,
        settings: PolicySettings {
            gang: GangSettings { gang_cpus: 2, ..GangSettings::default() },
            ..PolicySettings::default()
        },
        gangs: vec![true, false],
        acts: Vec::new(),
    };
    let mut engine = run::start(&world, Vec::new());
    engine.run_until(world.scenario.duration_ns).unwrap();
    group_runtimes(&world, &engine)[1] / (world.scenario.duration_ns / 100)
}

/// The figures of `policy/gang.rs`.
#[test]
fn beside_a_restless_gang_a_group_keeps_its_share_in_v1_and_starves_in_v2() {
    let shares = [PolicyKind::Cfs, PolicyKind::GangNext, PolicyKind::Gang].map(share_beside_a_restless_gang);
    assert_eq!(shares, [60, 60, 0]);
}
