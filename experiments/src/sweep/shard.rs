//! Shares of a sweep: `--shard K/N` takes every N-th block from the K-th.
//!
//! The list of blocks is the same in every process: blocks 0 of all points, then blocks 1, and so on. So a share has
//! some blocks of most points, and the shares take about the same time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::driver::Job;
use crate::experiment::Experiment;

/// Most shares of a sweep.
const SHARES_MAX: u32 = 100_000;

/// Share K of N, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    k: u32,
    n: u32,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { k: 1, n: 1 };

    /// True if this share has the block at that index of the list.
    #[must_use]
    pub fn has(self, index: usize) -> bool {
        // A usize holds a u32 on every host that has KVM.
        index % self.n as usize == self.k as usize - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((k, n)) if (1..=n).contains(&k) && n <= SHARES_MAX => Ok(Self { k, n }),
            _ => Err(format!("a share is K/N with K from 1 to N and N up to {SHARES_MAX}, as in 2/8")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.k, self.n)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

/// The blocks of that share, in their order.
pub fn jobs<'a>(experiments: impl IntoIterator<Item = &'a Experiment>, shard: Shard) -> Vec<Job> {
    let blocks: Vec<u32> = experiments.into_iter().map(|experiment| experiment.blocks).collect();
    let most = blocks.iter().copied().max().unwrap_or(0);
    let at = |block: u32| {
        let has = move |(work, blocks): (usize, &u32)| (block < *blocks).then_some(Job { work, block });
        blocks.iter().enumerate().filter_map(has)
    };
    (0..most).flat_map(at).enumerate().filter(|(index, _)| shard.has(*index)).map(|(_, job)| job).collect()
}

#[cfg(test)]
mod tests {
    use plan::Mode;
    use proptest::prelude::*;

    use super::*;
    use crate::experiment::tests::sample;

    #[test]
    fn a_share_is_written_k_of_n() {
        assert_eq!("2/8".parse::<Shard>().unwrap().to_string(), "2/8");
        for wrong in ["", "2", "0/3", "4/3", "-1/3", "1/0", "1/1000000", "1/2/3"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("as in 2/8"), "{wrong}");
        }
    }

    #[test]
    fn blocks_of_all_points_are_interleaved() {
        let points = [sample(&[Mode::Base], 2), sample(&[Mode::Base], 1)];
        let found: Vec<_> = jobs(&points, Shard::WHOLE).iter().map(|job| (job.work, job.block)).collect();
        assert_eq!(found, [(0, 0), (1, 0), (0, 1)]);
    }

    proptest! {
        #[test]
        fn shares_have_every_block_once(blocks in prop::collection::vec(1u32..20, 1..6), n in 1u32..9) {
            let points: Vec<_> = blocks.iter().map(|blocks| sample(&[Mode::Base], *blocks)).collect();
            let key = |job: &Job| (job.block, job.work);
            let mut all: Vec<_> = (1..=n).flat_map(|k| jobs(&points, Shard { k, n })).map(|job| key(&job)).collect();
            all.sort_unstable();
            let whole: Vec<_> = jobs(&points, Shard::WHOLE).iter().map(key).collect();
            prop_assert_eq!(all, whole);
        }
    }
}
