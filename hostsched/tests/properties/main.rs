//! Properties of the scheduler and its policies, over random worlds, checked from outside.
//!
//! | file | property |
//! |---|---|
//! | `run.rs` | runtime to the ns, nobody lost or twice queued, affinity, `min_vruntime`, leaders; with `Host::check` |
//! | `fairness.rs` | a bound for each group in CFS and V1; V2's unfairness measured |
//! | `costart.rs` | a gang starts on its whole span at once |
//! | `coverage.rs` | coverage is what a reference says |
//! | `yields.rs` | a yield touches two queues |
//! | `conserve.rs` | work conservation where 3.4 has it |
//! | `same.rs` | determinism; a policy with nothing to do |
mod conserve;
mod costart;
mod coverage;
mod fairness;
mod observer;
mod run;
mod same;
mod world;
mod yields;

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
