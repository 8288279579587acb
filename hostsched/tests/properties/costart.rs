//! V2: when the leader starts a gang, all fellows run it at that instant.
use std::collections::BTreeMap;

use hostsched::policy::{GangSettings, PolicyKind, PolicySettings, elect};
use hostsched::testing::{GroupSpec, Scenario, Step, TaskPlan};
use hostsched::{CpuId, Nanos, Running, Switches};
use proptest::prelude::*;
use proptest::sample::select;

use super::run;
use super::world::{MS, World};

/// Gangs of hogs with a member on each CPU, and noise that is in no gang, on random CPUs.
fn gangs_and_noise() -> impl Strategy<Value = World> {
    let machine = select(vec![("1s:2c", 2), ("1s:4c", 4), ("2s:4c", 8)]);
    let noise = (0..8_u32, 100_000..5 * MS, 50_000..9 * MS, any::<bool>());
    (machine, 1..4_usize, prop::collection::vec(noise, 0..8), select(vec![2, 4, 8]), 0..200_000_u64).prop_map(
        |((machine, cpus), gangs, noise, gang_cpus, tick_skew_ns)| {
            let members = (0..gangs).flat_map(|g| (0..cpus).map(move |c| TaskPlan::hog().in_group(g).pinned(c)));
            let noise = noise.into_iter().map(|(cpu, run, sleep, grouped)| {
                let task = TaskPlan::repeat([Step::Run(run), Step::Sleep(sleep)]).pinned(cpu % cpus);
                if grouped { task.in_group(gangs) } else { task }
            });
            let groups = vec![GroupSpec { parent: None, shares: 1024 }; gangs + 1];
            let tasks = members.chain(noise).collect();
            let scenario = Scenario { groups, tasks, tick_skew_ns, ..Scenario::on(machine, 400 * MS) };
            let gang = GangSettings { gang_cpus, ..GangSettings::default() };
            World {
                scenario,
                switches: Switches::default(),
                kind: PolicyKind::Gang,
                settings: PolicySettings { gang, ..PolicySettings::default() },
                gangs: (0..=gangs).map(|g| g < gangs).collect(),
                acts: Vec::new(),
            }
        },
    )
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let mut engine = run::start(world, Vec::new());
    engine.run_until(world.scenario.duration_ns).unwrap();
    let spans = elect(engine.host().domains(), world.settings.gang.gang_cpus);
    let gangs = world.gangs.iter().filter(|g| **g).count();
    let gang_of = |running: Option<&Running>| {
        let group = world.scenario.tasks[running?.task()?.index()].group?;
        (group < gangs).then_some(group)
    };
    let mut on: BTreeMap<CpuId, Running> = BTreeMap::new();
    let mut starts = 0;
    for instant in engine.trace().switches.chunk_by(|a, b| a.0 == b.0) {
        on.extend(instant.iter().map(|(_, cpu, next)| (*cpu, *next)));
        for span in &spans {
            let switched = instant.iter().any(|(_, cpu, _)| *cpu == span.leader);
            let Some(gang) = gang_of(on.get(&span.leader)).filter(|_| switched) else { continue };
            starts += 1;
            for cpu in span.cpus.iter() {
                let at: Nanos = instant[0].0;
                prop_assert_eq!(gang_of(on.get(&cpu)), Some(gang), "CPU {} at {}", cpu, at);
            }
        }
    }
    prop_assert!(starts > 0, "no gang ever started");
    Ok(())
}

proptest! {
    #![proptest_config(super::config(60))]

    #[test]
    fn a_gang_starts_on_all_cpus_of_its_span_at_once(world in gangs_and_noise()) {
        check(&world)?;
    }
}
