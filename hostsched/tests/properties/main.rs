//! Properties of the scheduler and its policies, over random worlds, checked from outside.
mod observer;
mod run;
mod world;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same worlds in every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose others.
fn config(cases: u32) -> ProptestConfig {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(34);
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn nothing_breaks_the_invariants(world in world::world()) {
        run::run(&world)?;
    }
}
