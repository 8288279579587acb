//! Idle states: how long a CPU needs to come back, by how long it expects to be away.
//!
//! Units: nanoseconds. Problem: a deep state saves power and takes long to leave; the governor must guess the length of an
//! idle period when it begins. Approach (`menu`, Linux 3.4, reduced to its detector of repeating intervals): the mean of
//! the last [`INTERVALS`] idle periods, none counted longer than the next timer, a tick away; the deepest state whose
//! residency is not above that.
//!
//! ```text
//!   predicted    0 ........ c3_residency ........ c6_residency ........
//!   state        C1          C3                    C6
//! ```
//! Worked example, why bouncing is bistable: one task chain walks round n cores, each visit costs `h`. A core is then idle
//! for about (n - 1) h. If h is 7 us, ten cores are each idle for 60 us: C1, and the walk stays fast. If every visit must
//! first leave C6 (h = 110 us), each is idle for 1 ms: C6 again, and the walk stays slow. With four cores the slow walk
//! would need h above 270 us and cannot last.

use crate::tasks::machine::HostCosts;

/// Idle periods remembered (`INTERVALS` of the menu governor).
const INTERVALS: usize = 8;

/// An idle state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdleState {
    C1,
    C3,
    C6,
}

impl IdleState {
    pub(crate) const COUNT: usize = 3;

    /// How long leaving it takes.
    pub(crate) fn exit(self, costs: &HostCosts) -> u64 {
        match self {
            Self::C1 => costs.c1_exit,
            Self::C3 => costs.c3_exit,
            Self::C6 => costs.c6_exit,
        }
    }
}

/// What the governor remembers of one CPU.
#[derive(Debug, Clone)]
pub(crate) struct Menu {
    periods: [u64; INTERVALS],
    next: usize,
    longest: u64,
}

impl Menu {
    /// A CPU that has been idle for long. `longest` is the time between two timers.
    pub(crate) fn new(longest: u64) -> Self {
        Self { periods: [longest; INTERVALS], next: 0, longest }
    }

    /// The state for an idle period that begins now.
    pub(crate) fn select(&self, costs: &HostCosts) -> IdleState {
        let predicted = self.periods.iter().sum::<u64>() / INTERVALS as u64;
        let deep = |residency: u64| residency != 0 && predicted >= residency;
        if deep(costs.c6_residency) {
            IdleState::C6
        } else if deep(costs.c3_residency) {
            IdleState::C3
        } else {
            IdleState::C1
        }
    }

    /// An idle period of that length has ended.
    pub(crate) fn reflect(&mut self, period: u64) {
        self.periods[self.next] = period.min(self.longest);
        self.next = (self.next + 1) % INTERVALS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> HostCosts {
        HostCosts { c1_exit: 1, c3_residency: 80_000, c6_residency: 800_000, c6_exit: 100_000, ..HostCosts::default() }
    }

    #[test]
    fn the_state_follows_the_periods_and_a_rested_cpu_is_deep() {
        let mut menu = Menu::new(4_000_000);
        assert_eq!(menu.select(&costs()), IdleState::C6);
        let mut after = |period| {
            (0..INTERVALS).for_each(|_| menu.reflect(period));
            menu.select(&costs())
        };
        assert_eq!(after(60_000), IdleState::C1);
        assert_eq!(after(80_000), IdleState::C3);
        assert_eq!(after(900_000), IdleState::C6);
        assert_eq!(after(u64::MAX / 16), IdleState::C6);
    }

    #[test]
    fn a_state_that_is_not_there_is_not_used() {
        let costs = HostCosts { c3_residency: 0, c6_residency: 0, ..costs() };
        assert_eq!(Menu::new(1 << 40).select(&costs), IdleState::C1);
    }
}
