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
//!
//! With several numbers of VMs every mode stands in the list once for each, named after it: `base+vms=1 gang+vms=1 base+vms=4
//! gang+vms=4`. The modes of one number are a *band*: they are compared with each other, and a table of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{RunPlan, Spin};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::units::Seed;

/// What a run takes beyond its warm-up and its measured time: boot, tear-down and files. Only for estimates.
const OVERHEAD: Duration = Duration::from_millis(300);

/// What is asked of the simulator beyond the plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Simulated {
    /// The machine: the name of one that the program carries, or the file that describes it.
    pub machine: String,
    /// SHA-256 of its description.
    pub machine_digest: String,
    /// Its topology in normal form.
    pub topology: String,
    /// Each VM starts so much after the one before and is measured over its own run; 0 is the steady state.
    pub stagger_ns: u64,
    /// `ple_gap` in cycles.
    pub ple_gap_cycles: u64,
    /// False: HLT keeps the CPU (`kvm-intel.yield_on_hlt=0`).
    pub yield_on_hlt: bool,
    /// halt-kick as it was posted: unsafe, its stale reads are counted.
    pub halt_once: bool,
    /// What breaks on the host, and when, in each run: `100ms:cpu-off=3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// Which figures decide, and what difference is worth talking about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Metrics that decide a comparison; empty: `records_per_s`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primary: Vec<String>,
    /// Differences below this do not matter, in percent, for every metric without a margin of its own; `null`: what each
    /// metric has by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_percent: Option<f64>,
    /// Margins of single metrics, in percent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub margins: BTreeMap<String, f64>,
}

impl Metrics {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Modes and blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Its name: the directory below `vmmlab-runs`.
    pub name: String,
    /// One plan a mode in the order of the list; block and seed are filled in by [`Experiment::block`].
    pub plans: Vec<RunPlan>,
    /// Number of blocks, fixed before the first one.
    pub blocks: u32,
    /// The seed from which those of the blocks are drawn.
    pub seed: u64,
    /// What is simulated; absent on KVM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// What decides; absent where nobody said.
    #[serde(default, skip_serializing_if = "Metrics::is_default")]
    pub metrics: Metrics,
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

    /// The numbers of VMs in the order of the list, each once.
    #[must_use]
    pub fn bands(&self) -> Vec<u32> {
        let mut bands = Vec::new();
        for plan in &self.plans {
            if !bands.contains(&plan.vms) {
                bands.push(plan.vms);
            }
        }
        bands
    }

    /// The mode that those with as many VMs as `mode` are compared with: `base` if it is there, else the first. `None`: there
    /// is no such mode.
    #[must_use]
    pub fn reference(&self, mode: &str) -> Option<&str> {
        let vms = self.plans.iter().find(|plan| plan.mode == mode)?.vms;
        let band = || self.plans.iter().filter(|plan| plan.vms == vms);
        let reference = band().find(|plan| in_band(&plan.mode, vms) == "base").or_else(|| band().next());
        reference.map(|plan| plan.mode.as_str())
    }

    /// What all runs together will take on one core, roughly.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        self.estimate_block().saturating_mul(self.blocks)
    }

    /// What the runs of one block will take, roughly.
    #[must_use]
    pub fn estimate_block(&self) -> Duration {
        self.plans
            .iter()
            .map(|plan| if self.simulated.is_some() { simulated_time(plan) } else { real_time(plan) })
            .sum()
    }

    /// SHA-256 of what is run: equal digests ask the same question. Name, seed, the place of the cgroups and what is made of
    /// the figures afterwards are no part of it.
    #[must_use]
    pub fn digest(&self) -> String {
        let plans = self.plans.iter().map(|plan| RunPlan { cgroup: None, seed: 0, block: 0, ..plan.clone() }).collect();
        let question = Self { name: String::new(), seed: 0, plans, metrics: Metrics::default(), ..self.clone() };
        // Plain data with string keys: it cannot fail to serialize.
        hex(&Sha256::digest(serde_json::to_vec(&question).unwrap_or_default()))
    }
}

/// A mode's name inside the band of `vms`, where nobody needs to be told the number of VMs: `gang` of `gang+vms=4`.
#[must_use]
pub fn in_band(mode: &str, vms: u32) -> &str {
    mode.strip_suffix(&format!("+vms={vms}")).unwrap_or(mode)
}

/// What a real run takes.
fn real_time(plan: &RunPlan) -> Duration {
    Duration::from_nanos(plan.warmup_ns.saturating_add(plan.duration_ns)) + OVERHEAD
}

/// What a simulated run takes: the time that it simulates, by how many CPUs, by how much happens in the mode.
fn simulated_time(plan: &RunPlan) -> Duration {
    // Simulated seconds on eight CPUs in a second of one core of the 2020s, release build.
    let speed = match (plan.axes.spin, plan.axes.host_policy.is_gang()) {
        (Spin::Ple, _) => 20,
        (Spin::Halt, _) | (_, true) => 60,
        (Spin::Busy, false) => 200,
    };
    let cpus = u64::try_from(plan.pcpus.as_slice().len()).unwrap_or(u64::MAX);
    Duration::from_nanos(plan.warmup_ns.saturating_add(plan.duration_ns).saturating_mul(cpus) / (8 * speed))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use plan::Mode;

    use super::*;

    /// A small experiment of the named modes.
    pub(crate) fn sample(modes: &[Mode], blocks: u32) -> Experiment {
        let plans = modes.iter().map(|mode| RunPlan::sample(*mode)).collect();
        Experiment { name: "run".into(), plans, blocks, seed: 42, simulated: None, metrics: Metrics::default() }
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
        assert_eq!(one.digest(), Experiment { name: "other".into(), ..one.clone() }.digest());
        assert_ne!(one.digest(), Experiment { blocks: 7, ..one.clone() }.digest());
    }

    #[test]
    fn base_is_the_reference_wherever_it_stands() {
        assert_eq!(sample(&[Mode::Gang, Mode::Base], 1).reference("gang"), Some("base"));
        assert_eq!(sample(&[Mode::Gang, Mode::Ple], 1).reference("ple"), Some("gang"));
        assert_eq!(sample(&[Mode::Gang, Mode::Ple], 1).reference("base"), None);
    }

    #[test]
    fn each_band_has_a_reference_of_its_own() {
        let mut experiment = sample(&[Mode::Gang, Mode::Base, Mode::Gang, Mode::Base], 1);
        for (plan, vms) in experiment.plans.iter_mut().zip([1, 1, 4, 4]) {
            plan.vms = vms;
            plan.mode = format!("{}+vms={vms}", plan.mode);
        }
        assert_eq!(experiment.bands(), [1, 4]);
        assert_eq!(experiment.reference("gang+vms=4"), Some("base+vms=4"));
        assert_eq!(in_band("gang+vms=4", 4), "gang");
        assert_eq!(in_band("gang+vms=4", 1), "gang+vms=4");
    }
}
