//! An experiment: what is run, in which order, with which seeds. Pure; nothing here looks at the host.
//!
//! The unit of analysis is the *block*: every mode is booted and measured once in it, so that what drifts slowly (a
//! neighbour, the clock frequency) meets all modes alike, and they are compared inside the block only. Block k runs
//! the modes in listed order if k is even and reversed if it is odd, which cancels a linear drift inside the blocks.
//!
//! ```text
//!   block 0   base gang pvflush ple   seed s0
//!   block 1   ple pvflush gang base   seed s1      s0, s1, ... = xoshiro256++ started from --seed
//!   block 2   base gang pvflush ple   seed s2      (all modes of a block share its seed)
//! ```

use std::time::Duration;

use plan::RunPlan;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::units::Seed;

/// What a run takes beyond its warm-up and its measured time: boot, tear-down and files. Only for estimates.
const OVERHEAD: Duration = Duration::from_millis(300);

/// Modes and blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Its name: the directory below `vmmlab-runs`.
    pub name: String,
    /// One plan a mode in the order of the list; block and seed are filled in by [`Experiment::block`].
    pub plans: Vec<RunPlan>,
    /// Number of blocks, fixed before the first one.
    pub blocks: u32,
    /// The seed from which those of the blocks are drawn.
    pub seed: u64,
}

impl Experiment {
    /// The largest number of blocks.
    pub const BLOCKS_MAX: u32 = 1000;

    /// The runs of block `block` in their order.
    #[must_use]
    pub fn block(&self, block: u32) -> Vec<RunPlan> {
        let seed = self.block_seed(block);
        let mut runs: Vec<_> = self.plans.iter().map(|plan| RunPlan { block, seed, ..plan.clone() }).collect();
        if block % 2 == 1 {
            runs.reverse();
        }
        runs
    }

    fn block_seed(&self, block: u32) -> u64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let drawn = (0..=block).map(|_| rng.next_u64()).last().unwrap_or_default();
        drawn >> (u64::BITS - Seed::CHOSEN_BITS)
    }

    /// The mode that the others are compared with: `base` if it is there, else the first.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        let modes = || self.plans.iter().map(|plan| plan.mode.as_str());
        modes().find(|mode| *mode == "base").or_else(|| modes().next())
    }

    /// What all runs together will take, roughly.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        let block: Duration =
            self.plans.iter().map(|p| Duration::from_nanos(p.warmup_ns.saturating_add(p.duration_ns)) + OVERHEAD).sum();
        block.saturating_mul(self.blocks)
    }

    /// SHA-256 of what is run, without the seed and the place of the cgroups: equal digests ask the same question.
    #[must_use]
    pub fn digest(&self) -> String {
        let plans = self.plans.iter().map(|plan| RunPlan { cgroup: None, seed: 0, block: 0, ..plan.clone() }).collect();
        let question = Self { seed: 0, plans, ..self.clone() };
        // Plain data with string keys: it cannot fail to serialize.
        hex(&Sha256::digest(serde_json::to_vec(&question).unwrap_or_default()))
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use plan::{CpuList, Lock, Mode, Sched, Workload, WorkloadParams};

    use super::*;

    /// A small experiment of the named modes.
    pub(crate) fn sample(modes: &[Mode], blocks: u32) -> Experiment {
        let plan = |mode: &Mode| RunPlan {
            mode: mode.to_string(),
            axes: mode.axes(),
            vms: 2,
            vcpus: 8,
            pcpus: CpuList::new(vec![0, 1]).unwrap(),
            sched: Sched::Lab,
            gang_cpus: 2,
            hz: 1000,
            sched_latency_ns: None,
            sched_min_granularity_ns: None,
            sched_wakeup_granularity_ns: None,
            ple_window_cycles: 4096,
            spin_budget: 1024,
            duration_ns: 3_000_000_000,
            warmup_ns: 500_000_000,
            workload: Workload::Ebizzy,
            params: WorkloadParams::default(),
            lock: Lock::Ticket,
            inject: None,
            seed: 0,
            block: 0,
            cgroup: None,
        };
        Experiment { name: "run".into(), plans: modes.iter().map(plan).collect(), blocks, seed: 42 }
    }

    #[test]
    fn odd_blocks_are_reversed_and_modes_of_a_block_share_its_seed() {
        let experiment = sample(&[Mode::Base, Mode::Gang, Mode::Ple], 2);
        let names = |block| experiment.block(block).iter().map(|p| p.mode.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(0), names(1)),
            (vec!["base".into(), "gang".into(), "ple".into()], { vec!["ple".into(), "gang".into(), "base".into()] })
        );
        for block in 0..2 {
            assert!(
                experiment.block(block).iter().all(|p| p.block == block && p.seed == experiment.block(block)[0].seed)
            );
        }
        assert_ne!(experiment.block(0)[0].seed, experiment.block(1)[0].seed);
    }

    #[test]
    fn block_seeds_are_the_recorded_ones() {
        let seeds: Vec<_> = (0..3).map(|block| sample(&[Mode::Base], 3).block_seed(block)).collect();
        // By an independent SplitMix64 and xoshiro256++ (Blackman and Vigna).
        assert_eq!(seeds, [7334608696282829, 2871684634439142, 8862130818352285]);
    }

    #[test]
    fn the_digest_asks_for_the_question_not_for_the_seed() {
        let one = sample(&[Mode::Base], 6);
        assert_eq!(one.digest(), Experiment { seed: 1, ..one.clone() }.digest());
        assert_ne!(one.digest(), Experiment { blocks: 7, ..one.clone() }.digest());
    }

    #[test]
    fn base_is_the_reference_wherever_it_stands() {
        assert_eq!(sample(&[Mode::Gang, Mode::Base], 1).reference(), Some("base"));
        assert_eq!(sample(&[Mode::Gang, Mode::Ple], 1).reference(), Some("gang"));
    }
}
