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
//!   any other core       all of it                                           at kb_package or kb_far
//! ```
//! Data of a message or lines of a footprint that are on another last-level cache of the same package come at kb_package.
//! A modified line is in one last-level cache only: the one that takes it over leaves room in the other. A cache that is
//! full pushes out lines of everyone alike, and they have to come from memory. What fetching takes while others fetch too:
//! `bus.rs`.
//!
//! Threads of a core share its caches. What others push out of a private cache is not modelled: a task that waits while
//! its own core runs others pays only for the last-level cache. Nor is what tasks touch only once.
use crate::cache::{WARM, decayed};
use crate::tasks::machine::HostCosts;

/// A place in the cache hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) core: u32,
    pub(crate) llc: u32,
    pub(crate) package: u32,
}

/// What a last-level cache holds of tasks' footprints, in bytes. What does not fit pushes out something, whosoever it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastLevel {
    size: u64,
    held: u64,
    /// Pushed out so far.
    evicted: u64,
}

impl LastLevel {
    /// An empty cache.
    pub(crate) fn new(size: u64) -> Self {
        Self { size, held: 0, evicted: 0 }
    }

    fn fill(&mut self, bytes: u64) {
        let over = (self.held + bytes).saturating_sub(self.size);
        self.held = self.held + bytes - over;
        self.evicted += over;
    }

    /// Another cache takes them away, which leaves room.
    fn give(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// What is left of so many bytes that were there when `seen` had been pushed out. Victims are random, so when as much
    /// as the cache holds has been pushed out, 1/e is left: half of it after 0.69 of that.
    fn left(&self, bytes: u64, seen: u64) -> u64 {
        let half_life = (self.size * 69 / 100).max(1);
        bytes * decayed(WARM, self.evicted - seen, half_life) / WARM
    }
}

/// What a task has to fetch before it is as fast as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fetch {
    /// What lines of the same last-level cache take.
    pub(crate) near_ns: u64,
    /// Bytes that no cache has any more.
    pub(crate) from_memory: u64,
    /// Another last-level cache, and the bytes that it has.
    pub(crate) from_cache: Option<(u32, u64)>,
}

/// A task's lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Warmth {
    footprint_kb: u64,
    at: Option<Spot>,
    /// What that last-level cache had pushed out when the task left it.
    seen: u64,
}

impl Warmth {
    pub(crate) fn new(footprint_kb: u64) -> Self {
        Self { footprint_kb, at: None, seen: 0 }
    }

    /// The task begins to run there. Returns what it has to fetch.
    pub(crate) fn arrive(&mut self, to: Spot, llcs: &mut [LastLevel], costs: &HostCosts) -> Fetch {
        let bytes = self.footprint_kb * 1024;
        let there = to.llc as usize;
        let Some(from) = self.at.replace(to) else {
            llcs[there].fill(bytes);
            return Fetch { from_memory: bytes, ..Fetch::default() };
        };
        let from_memory = bytes - llcs[from.llc as usize].left(bytes, self.seen);
        if from.llc != to.llc {
            let moved = bytes - from_memory;
            llcs[from.llc as usize].give(moved);
            llcs[there].fill(bytes);
            return Fetch { from_memory, from_cache: Some((from.llc, moved)), ..Fetch::default() };
        }
        llcs[there].fill(from_memory);
        let near = self.footprint_kb.min(costs.private_cache) * costs.kb_llc;
        Fetch { from_memory, near_ns: if from.core == to.core { 0 } else { near }, from_cache: None }
    }

    /// The task stops running.
    pub(crate) fn leave(&mut self, llcs: &[LastLevel]) {
        if let Some(at) = self.at {
            self.seen = llcs[at.llc as usize].evicted;
        }
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
            ..HostCosts::default()
        }
    }
    const HERE: Spot = Spot { core: 0, llc: 0, package: 0 };
    const NEAR: Spot = Spot { core: 1, llc: 0, package: 0 };
    const BESIDE: Spot = Spot { core: 2, llc: 1, package: 0 };
    const FAR: Spot = Spot { core: 3, llc: 2, package: 1 };

    fn caches() -> [LastLevel; 3] {
        [LastLevel::new(40 * 1024); 3]
    }

    #[test]
    fn the_same_core_has_it_all_a_near_one_fetches_near_and_a_far_one_from_the_cache_that_has_it() {
        let (mut warmth, mut llcs) = (Warmth::new(16), caches());
        let mut go = |to| {
            let fetch = warmth.arrive(to, &mut llcs, &costs());
            warmth.leave(&llcs);
            (fetch.near_ns, fetch.from_memory, fetch.from_cache)
        };
        assert_eq!(go(HERE), (0, 16 * 1024, None), "the first time, everything comes from memory");
        assert_eq!(go(HERE), (0, 0, None));
        assert_eq!(go(NEAR), (80, 0, None));
        assert_eq!(go(FAR), (0, 0, Some((0, 16 * 1024))));
        assert_eq!([llcs[0].held, llcs[2].held], [0, 16 * 1024], "it is in one of them only");
    }

    #[test]
    fn a_full_cache_pushes_out_and_holds_no_more_than_its_size() {
        let mut llcs = caches();
        let mut tasks = [Warmth::new(16); 3];
        for task in &mut tasks {
            task.arrive(HERE, &mut llcs, &costs());
            task.leave(&llcs);
        }
        assert_eq!((llcs[0].held, llcs[0].evicted), (40 * 1024, 8 * 1024));
        let again = tasks[0].arrive(HERE, &mut llcs, &costs());
        assert!(again.from_memory > 1024 && again.from_memory < 4 * 1024, "8 of 40 KiB went: {again:?}");
        assert_eq!(llcs[0].held, 40 * 1024);
        let fits = tasks[2].arrive(HERE, &mut llcs, &costs());
        assert!(fits.from_memory < again.from_memory, "it came last, less has gone since");
    }

    #[test]
    fn a_message_costs_what_lies_between_the_two_cores() {
        assert_eq!(transfer(HERE, HERE, 1024, 4, &costs()), 0);
        assert_eq!(transfer(HERE, NEAR, 1024, 4, &costs()), 14);
        assert_eq!(transfer(HERE, BESIDE, 1024, 4, &costs()), 62);
        assert_eq!(transfer(HERE, FAR, 1024, 4, &costs()), 120);
    }
}
