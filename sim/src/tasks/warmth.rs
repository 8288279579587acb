//! Where a task's lines are, and what fetching them costs.
//!
//! Units: nanoseconds, KiB. A task has a *footprint*: the lines that it touches again and again and that its runs modify.
//! It leaves them in the caches of the core where it ran.
//!
//! ```text
//!   it runs next on      it fetches
//!   the same core        nothing
//!   a core of the same   min(footprint, private caches)                                 at kb_llc
//!   last-level cache     + what others have pushed out of the last-level cache since    at kb_far
//!   any other core       all of it                                                      at kb_far
//! ```
//! The data of a message that was written on another last-level cache of the same package comes at kb_package.
//! Threads of a core share its caches. What others push out of a private cache is not modelled: a task that waits while
//! its own core runs others pays only for the last-level cache.
use crate::cache::{WARM, decayed};
use crate::tasks::machine::HostCosts;

/// A place in the cache hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) core: u32,
    pub(crate) llc: u32,
    pub(crate) package: u32,
}

/// A task's lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Warmth {
    footprint_kb: u64,
    at: Option<Spot>,
    /// Work done on that last-level cache when the task left it.
    seen: u64,
}

impl Warmth {
    pub(crate) fn new(footprint_kb: u64) -> Self {
        Self { footprint_kb, at: None, seen: 0 }
    }

    /// The task begins to run there, where `work` has been done on the last-level cache so far. Returns what fetching its
    /// lines takes.
    pub(crate) fn arrive(&mut self, to: Spot, work: u64, costs: &HostCosts) -> u64 {
        let from = self.at.replace(to);
        match from {
            Some(from) if from.llc == to.llc => {
                let left = decayed(WARM, work - self.seen, costs.cache_half_life);
                let gone = self.footprint_kb * (WARM - left) * costs.kb_far / WARM;
                let near = self.footprint_kb.min(costs.private_cache) * costs.kb_llc;
                if from.core == to.core { gone } else { gone + near }
            }
            _ => self.footprint_kb * costs.kb_far,
        }
    }

    /// The task stops running; the last-level cache has seen `work` so far.
    pub(crate) fn leave(&mut self, work: u64) {
        self.seen = work;
    }
}

/// What fetching a message of `bytes` with `lines` lines around it takes at `to`, if it was written at `from`.
pub(crate) fn transfer(from: Spot, to: Spot, bytes: u64, lines: u64, costs: &HostCosts) -> u64 {
    if from.core == to.core {
        0
    } else if from.llc == to.llc {
        lines * costs.line_llc + bytes * costs.kb_llc / 1024
    } else if from.package == to.package {
        lines * costs.line_package + bytes * costs.kb_package / 1024
    } else {
        lines * costs.line_far + bytes * costs.kb_far / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> HostCosts {
        HostCosts {
            private_cache: 8,
            kb_llc: 10,
            kb_far: 100,
            line_llc: 1,
            line_package: 3,
            line_far: 5,
            kb_package: 50,
            cache_half_life: 1000,
            ..HostCosts::default()
        }
    }
    const HERE: Spot = Spot { core: 0, llc: 0, package: 0 };
    const NEAR: Spot = Spot { core: 1, llc: 0, package: 0 };
    const BESIDE: Spot = Spot { core: 2, llc: 1, package: 0 };
    const FAR: Spot = Spot { core: 3, llc: 2, package: 1 };

    #[test]
    fn the_same_core_is_free_a_near_one_cheap_a_far_one_dear() {
        let mut warmth = Warmth::new(16);
        assert_eq!(warmth.arrive(HERE, 0, &costs()), 1600, "the first time, everything comes from memory");
        assert_eq!(warmth.arrive(HERE, 0, &costs()), 0);
        assert_eq!(warmth.arrive(NEAR, 0, &costs()), 80);
        assert_eq!(warmth.arrive(FAR, 0, &costs()), 1600);
        warmth.leave(0);
        assert_eq!(warmth.arrive(FAR, 1000, &costs()), 800, "half of it was pushed out");
    }

    #[test]
    fn a_message_costs_what_lies_between_the_two_cores() {
        assert_eq!(transfer(HERE, HERE, 1024, 4, &costs()), 0);
        assert_eq!(transfer(HERE, NEAR, 1024, 4, &costs()), 14);
        assert_eq!(transfer(HERE, BESIDE, 1024, 4, &costs()), 62);
        assert_eq!(transfer(HERE, FAR, 1024, 4, &costs()), 120);
    }
}
