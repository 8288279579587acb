//! A cache line that many CPUs write: it goes from one to the other, one after the other.
//!
//! Units: nanoseconds. The one here is the reference count of the loopback route, which all connections over loopback
//! share. A packet takes a reference when it is sent and gives it back when its buffer is freed, after it was read
//! (`loopback_xmit` with `skb_dst_force`, `tcp_rcv_established` without `skb_dst_drop`, `sk_eat_skb`; Linux 3.4).
//!
//! The line *visits* last-level caches, in the order in which they asked. Cores of the cache where it is get it at once:
//! their cache answers them, while the other caches' requests wait at its door. So the more cores want it, the more of
//! them share a visit, and the line never stops serving: it becomes a brake, not a wall.
//!
//! ```text
//!   cores of cache 0   w  w     w           │  asked while the line is there, or on its way there: line_llc each
//!   cores of cache 1        w ───────► w w  │  asked elsewhere: the way, after all visits that were asked for before
//!                      └ visit 0 ┘└ visit 1 ┘
//! ```
use std::collections::VecDeque;

use super::machine::HostCosts;
use super::warmth::Spot;

/// The line is with this cache until then, as far as anybody has asked.
#[derive(Debug, Clone, Copy)]
struct Visit {
    last: Spot,
    until: u64,
}

/// The line.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedLine {
    /// The present visit and those to come. Never empty after the first write.
    visits: VecDeque<Visit>,
}

impl SharedLine {
    /// A core writes it at `now`; how long that takes.
    pub(crate) fn write(&mut self, now: u64, by: Spot, costs: &HostCosts) -> u64 {
        while self.visits.len() > 1 && self.visits[0].until < now {
            self.visits.pop_front();
        }
        if let Some(at) = self.visits.iter().position(|visit| visit.last.llc == by.llc) {
            let Visit { last, until } = self.visits[at];
            let begin = until.max(now);
            let end = begin + if last.core == by.core { 0 } else { costs.line_llc };
            self.visits[at] = Visit { last: by, until: end };
            self.visits.iter_mut().skip(at + 1).for_each(|later| later.until += end - begin);
            return end - now;
        }
        let way = |from: Spot| if from.package == by.package { costs.line_package } else { costs.line_far };
        let until = self.visits.back().map_or(now, |visit| visit.until.max(now) + way(visit.last));
        self.visits.push_back(Visit { last: by, until });
        until - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Spot = Spot { core: 0, llc: 0, package: 0 };
    const NEAR: Spot = Spot { core: 1, llc: 0, package: 0 };
    const FAR: Spot = Spot { core: 2, llc: 1, package: 1 };

    fn costs() -> HostCosts {
        HostCosts { line_llc: 10, line_far: 100, ..HostCosts::default() }
    }

    #[test]
    fn a_core_alone_writes_for_nothing() {
        let mut line = SharedLine::default();
        assert_eq!([0, 5, 900].map(|now| line.write(now, A, &costs())), [0; 3]);
        assert_eq!(line.write(1000, NEAR, &costs()), 10);
        assert_eq!(line.write(2000, FAR, &costs()), 100);
    }

    #[test]
    fn cores_of_the_cache_where_it_is_go_before_a_cache_that_asked_earlier() {
        let mut line = SharedLine::default();
        line.write(0, A, &costs());
        assert_eq!(line.write(0, NEAR, &costs()), 10);
        assert_eq!(line.write(0, FAR, &costs()), 110);
        assert_eq!(line.write(5, A, &costs()), 15, "it is still there");
        assert_eq!(line.write(50, FAR, &costs()), 70, "on its way, 10 later for the one that went before");
        assert_eq!(line.write(60, NEAR, &costs()), 160, "gone: back after the visit to the other cache");
    }

    #[test]
    fn the_more_ask_the_more_it_serves() {
        let served = |cores: u32| {
            let mut line = SharedLine::default();
            let spots = (0..cores).map(|core| Spot { core, llc: core % 4, package: core % 4 });
            spots.map(|spot| line.write(0, spot, &costs())).max()
        };
        assert_eq!([served(4), served(40)], [Some(300), Some(660)]);
    }
}
