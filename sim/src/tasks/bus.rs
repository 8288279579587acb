//! The ways to memory and to other caches, and the queues before them.
//!
//! Units: nanoseconds, bytes, ns per KiB. A last-level cache fetches what it lacks over the bus of its package, from
//! memory or from another cache. Every bus and every memory takes one transfer after the other:
//!
//! ```text
//!   cores ─ last-level cache ┬─ bus of package 0 ─┐                  a machine without front-side buses has the links
//!   cores ─ last-level cache ┘                    ├─ memory          of each package in their place, and a memory a node
//!   cores ─ last-level cache ── bus of package 1 ─┘
//!
//!   fetched from                 its own bus        the owner's bus        memory
//!   memory                       once + once back   -                      read once, written once
//!   a cache on another bus       once               once                   written once
//!   a cache on the same bus      once               -                      written once
//! ```
//! Writing back is *posted*: nobody waits for it, but it takes its turn, and who comes next waits.
//!
//! What comes from memory pushes out what it replaces, and that is modified and goes back. A modified line that another
//! cache asks for is written to memory on the way (*implicit write-back* of the front-side bus; QPI without directory).
//!
//! Lines are fetched one behind the other, so the queue hides behind the latency: a fetch takes what it takes alone, or
//! until the last of its lines has got through, whichever is longer. So a machine whose cores together ask for less than
//! its buses carry behaves as if there were none, and one whose cores ask for more is as fast as its buses.
use hostsched::topology::Machine as Topology;

use super::machine::HostCosts;

/// One thing at a time, in the order of asking.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    free_at: u64,
    /// Time for which it had something to do, what is still queued included.
    busy: u64,
}

impl Queue {
    /// Takes a transfer of `wanted` ns that somebody waits for, and one of `posted` ns behind it that nobody does, at
    /// `now`; how long until the first is through.
    fn take(&mut self, now: u64, wanted: u64, posted: u64) -> u64 {
        let through = self.free_at.max(now) + wanted;
        self.free_at = through + posted;
        self.busy += wanted + posted;
        through - now
    }
}

/// Where the last-level cache is.
#[derive(Debug, Clone, Copy, Default)]
struct Home {
    package: usize,
    node: usize,
}

/// All buses and memories of a machine.
#[derive(Debug)]
pub(crate) struct Buses {
    homes: Vec<Home>,
    buses: Vec<Queue>,
    memories: Vec<Queue>,
    /// Every package has a memory of its own and reaches it without its bus.
    own_memory: bool,
}

impl Buses {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut homes = Vec::new();
        for cpu in topology.cpus() {
            let llc = cpu.llc as usize;
            homes.resize(homes.len().max(llc + 1), Home::default());
            homes[llc] = Home { package: cpu.package as usize, node: cpu.node as usize };
        }
        let count = |of: fn(&Home) -> usize| homes.iter().map(of).max().map_or(0, |last| last + 1);
        let (buses, memories) = (count(|home| home.package), count(|home| home.node));
        let own_memory = buses == memories;
        Self { buses: vec![Queue::default(); buses], memories: vec![Queue::default(); memories], homes, own_memory }
    }

    /// True if two last-level caches are in one package.
    pub(crate) fn same_package(&self, a: u32, b: u32) -> bool {
        self.homes[a as usize].package == self.homes[b as usize].package
    }

    /// A last-level cache fetches from memory; alone on the machine that takes `alone`. Returns how long it takes.
    pub(crate) fn read_memory(&mut self, now: u64, to: u32, bytes: u64, alone: u64, costs: &HostCosts) -> u64 {
        let home = self.homes[to as usize];
        let over_bus = if self.own_memory { 0 } else { bytes * costs.kb_bus / 1024 };
        let bus = self.buses[home.package].take(now, over_bus, over_bus);
        let (read, written) = (bytes * costs.kb_memory / 1024, bytes * costs.kb_write_back / 1024);
        let memory = self.memories[home.node].take(now, read, written);
        alone.max(bus).max(memory)
    }

    /// As [`Self::read_memory`], from another last-level cache.
    pub(crate) fn read_cache(
        &mut self,
        now: u64,
        (from, to): (u32, u32),
        bytes: u64,
        alone: u64,
        costs: &HostCosts,
    ) -> u64 {
        let (owner, home) = (self.homes[from as usize], self.homes[to as usize]);
        let over_bus = bytes * costs.kb_bus / 1024;
        let mut longest = self.buses[home.package].take(now, over_bus, 0);
        if owner.package != home.package {
            longest = longest.max(self.buses[owner.package].take(now, over_bus, 0));
        }
        let memory = self.memories[owner.node].take(now, 0, bytes * costs.kb_write_back / 1024);
        alone.max(longest).max(memory)
    }

    /// Time for which the buses, and the memories, were busy since the start.
    pub(crate) fn busy(&self) -> [u64; 2] {
        [&self.buses, &self.memories].map(|queues| queues.iter().map(|queue| queue.busy).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1024;

    fn costs() -> HostCosts {
        HostCosts { kb_bus: 10, kb_memory: 20, kb_write_back: 40, ..HostCosts::default() }
    }

    fn buses(topology: &str) -> Buses {
        Buses::new(&topology.parse().unwrap())
    }

    #[test]
    fn one_alone_does_not_wait_and_two_within_what_it_carries_do_not_either() {
        let mut buses = buses("2s:2l:2c");
        assert_eq!(buses.read_memory(0, 0, KB, 100, &costs()), 100);
        assert_eq!(buses.read_memory(0, 2, KB, 100, &costs()), 100, "read by 80, after the first was read and written");
        assert_eq!(buses.read_memory(0, 1, KB, 100, &costs()), 140, "a third is too much");
        assert_eq!(buses.read_memory(1000, 0, KB, 100, &costs()), 100, "the queue has run empty");
    }

    #[test]
    fn a_bus_is_waited_for_by_those_behind_it_only() {
        let slow = HostCosts { kb_bus: 1000, ..costs() };
        let mut buses = buses("2s:2l:2c");
        assert_eq!(buses.read_cache(0, (0, 1), KB, 100, &slow), 1000);
        assert_eq!(buses.read_cache(0, (1, 0), KB, 100, &slow), 2000, "the same bus");
        assert_eq!(buses.read_cache(0, (2, 3), KB, 100, &slow), 1000, "the other bus");
        assert_eq!(buses.read_cache(0, (2, 0), KB, 100, &slow), 3000, "both");
    }

    #[test]
    fn every_byte_is_counted_where_it_passes() {
        let mut buses = buses("2s:2l:2c");
        buses.read_memory(0, 0, KB, 0, &costs());
        assert_eq!(buses.busy(), [2 * 10, 20 + 40]);
        buses.read_cache(0, (0, 1), KB, 0, &costs());
        assert_eq!(buses.busy(), [3 * 10, 20 + 2 * 40], "on one bus once");
        buses.read_cache(0, (0, 2), KB, 0, &costs());
        assert_eq!(buses.busy(), [5 * 10, 20 + 3 * 40], "over two buses");
    }

    #[test]
    fn a_package_with_a_memory_of_its_own_reaches_it_without_the_bus() {
        let mut buses = buses("2n:1s:2c");
        buses.read_memory(0, 0, KB, 0, &costs());
        assert_eq!(buses.busy(), [0, 20 + 40]);
        assert_eq!(buses.read_memory(0, 1, KB, 0, &costs()), 20, "the other memory is free");
    }
}
