//! Random cases under all checkers.
use plan::Inject;
use sim::swarm::Case;

use crate::host::host;

/// Cases of an ordinary test run.
const CASES: u64 = 60;

#[test]
fn random_worlds_keep_every_invariant() {
    let (base, mut faults) = (host("1s:2c"), 0);
    for seed in 0..CASES {
        match Case::draw(seed, &base).run(None) {
            Ok(summary) => faults += summary.faults,
            Err(broken) => panic!("seed {seed} on the tests' host: {}", broken.what),
        }
    }
    assert!(faults > CASES / 2, "only {faults} faults came up");
}

#[test]
fn a_case_is_a_function_of_its_seed() {
    let base = host("1s:2c");
    for seed in 100..110 {
        let run = || Case::draw(seed, &base).run(None).map_err(|broken| broken.what);
        assert_eq!(run(), run(), "{seed}");
    }
}

#[test]
fn a_lost_flush_is_caught_and_the_command_names_its_case() {
    let base = host("1s:2c");
    let broken = (0..120).filter_map(|seed| {
        let mut case = Case::draw(seed, &base);
        case.plan.inject = Some(Inject::LostFlush);
        case.run(None).err()
    });
    let broken: Vec<_> = broken.collect();
    assert!(broken.len() > 3, "{broken:?}");
    for failure in broken {
        assert!(failure.what.starts_with("stale-read: "), "{failure}");
        assert_eq!(failure.replay(), format!("vmmlab swarm --seed {} --cases 1 --inject lost-flush", failure.seed));
    }
}
