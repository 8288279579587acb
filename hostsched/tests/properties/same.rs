//! What must make no difference: a second run, and a policy with nothing to do.
use hostsched::policy::PolicyKind;
use hostsched::{CpuId, Nanos, Running};
use proptest::prelude::*;

use super::run;
use super::world::{Act, World, world};

fn switches(world: &World) -> Result<Vec<(Nanos, CpuId, Running)>, TestCaseError> {
    let mut engine = run::start(world, Vec::new());
    for (at, what) in &world.acts {
        run::run_until(&mut engine, *at)?;
        run::act(&mut engine, what);
    }
    run::run_until(&mut engine, world.scenario.duration_ns)?;
    Ok(engine.trace().switches.clone())
}

proptest! {
    #![proptest_config(super::config(100))]

    #[test]
    fn the_same_world_runs_the_same_way(world in world()) {
        prop_assert_eq!(switches(&world)?, switches(&world)?);
    }

    #[test]
    fn gang_scheduling_without_gangs_is_cfs(mut world in world()) {
        world.gangs.fill(false);
        world.acts.retain(|(_, act)| !matches!(act, Act::Gang(..) | Act::Renew(_) | Act::Request(..)));
        world.kind = PolicyKind::Cfs;
        let cfs = switches(&world)?;
        for kind in [PolicyKind::Gang, PolicyKind::GangNext] {
            world.kind = kind;
            prop_assert_eq!(&switches(&world)?, &cfs);
        }
    }
}
