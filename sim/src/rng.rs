//! Randomness: named streams of one seed.
//!
//! Each guest thread, and the host, draws from a stream of its own. So what one of them draws does not depend on how the
//! others are scheduled, and two modes with the same seed meet the same records: common random numbers, which is what
//! pairs them inside a block. xoshiro256++ (Blackman and Vigna), a fixed algorithm: the same bytes on every machine.
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream `number` of `seed`.
    #[must_use]
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        // An odd multiplier keeps the streams of one seed apart; the generator's own seeding (SplitMix64) spreads them.
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Uniform below `n` (0 if `n` is 0), by the high half of a product: bias below 2^-32 for the small `n` used here.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let high = (u128::from(self.0.next_u64()) * u128::from(n)) >> 64;
        u64::try_from(high).unwrap_or(0)
    }

    /// True `n` times in 1,000.
    #[inline]
    pub(crate) fn per_mille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    /// Uniform between `mean` - and + `percent` of it.
    #[inline]
    pub(crate) fn around(&mut self, mean: u64, percent: u64) -> u64 {
        let half = mean * percent / 100;
        mean - half + self.below(2 * half + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |number| {
            let mut s = Stream::new(7, number);
            [s.below(1 << 40), s.below(1 << 40)]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(draw(0)[0], Stream::new(8, 0).below(1 << 40));
    }

    #[test]
    fn a_range_is_kept_and_centred() {
        let mut s = Stream::new(1, 1);
        let drawn: Vec<_> = (0..10_000).map(|_| s.around(1000, 25)).collect();
        assert!(drawn.iter().all(|x| (750..=1250).contains(x)));
        let mean = drawn.iter().sum::<u64>() / 10_000;
        assert!((990..1010).contains(&mean), "{mean}");
    }
}
