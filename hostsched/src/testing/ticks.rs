//! When CPUs tick: CPU c at every tick length plus c times the skew, idle or not; at one instant the lowest first.

/// The order in which CPUs tick: a ring sorted by the offset of the tick within a tick length.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    /// (offset, CPU, first tick).
    ring: Vec<(u64, usize, u64)>,
    at: usize,
    /// Start of the current round.
    round: u64,
    length: u64,
}

impl Ticks {
    pub(super) fn new(cpus: usize, length: u64, skew: u64) -> Self {
        let entry = |c: usize| {
            let shift = skew * c as u64;
            (shift % length, c, length + shift)
        };
        let mut ring: Vec<_> = (0..cpus).map(entry).collect();
        ring.sort_unstable();
        let mut ticks = Self { ring, at: 0, round: length, length };
        ticks.skip_absent();
        ticks
    }

    #[inline]
    pub(super) fn time(&self) -> u64 {
        self.round + self.ring[self.at].0
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.at += 1;
        if self.at == self.ring.len() {
            self.at = 0;
            self.round += self.length;
        }
        self.skip_absent();
    }

    /// The CPU that ticks next.
    #[inline]
    pub(super) fn cpu(&self) -> usize {
        self.ring[self.at].1
    }

    /// Skips CPUs whose first tick, a large skew, is still to come.
    #[inline]
    fn skip_absent(&mut self) {
        while self.time() < self.ring[self.at].2 {
            self.at += 1;
            if self.at == self.ring.len() {
                self.at = 0;
                self.round += self.length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(n: usize, mut ticks: Ticks) -> Vec<(u64, usize)> {
        let mut next = || {
            let tick = (ticks.time(), ticks.cpu());
            ticks.advance();
            tick
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn without_skew_all_tick_together_in_order() {
        assert_eq!(first(4, Ticks::new(2, 10, 0)), [(10, 0), (10, 1), (20, 0), (20, 1)]);
    }

    #[test]
    fn a_skew_beyond_a_tick_length_delays_the_first_tick() {
        assert_eq!(first(5, Ticks::new(3, 10, 6)), [(10, 0), (16, 1), (20, 0), (22, 2), (26, 1)]);
    }
}
