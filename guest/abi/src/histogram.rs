//! Log-linear histogram in shared memory: written by one vCPU, read by the host at any time.
//!
//! Values are TSC cycles. Values below 32 have a bucket each; above, every power of two has 32 buckets, so a bucket is
//! at most 1/32 (3.1 %) wide, relative to its lower bound. The last bucket takes everything from 2^35 - 2^30 cycles up
//! (about 14 s at 2.4 GHz). Worked: 1000 = 0b1111101000 has its top bit at 9, the next five bits are 11110b = 30, so
//! its bucket is (9 - 4) * 32 + 30 = 190, from 992 to 1007.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Buckets of one histogram.
pub const BUCKETS: usize = 31 * 32;

const SUB_BITS: u32 = 5;

/// The bucket of a value.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // Both results are below BUCKETS.
pub const fn bucket(cycles: u64) -> usize {
    if cycles < 1 << SUB_BITS {
        return cycles as usize;
    }
    let top = 63 - cycles.leading_zeros();
    let sub = (cycles >> (top - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    let index = (((top - SUB_BITS + 1) as usize) << SUB_BITS) + sub as usize;
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// The smallest value of a bucket.
#[must_use]
pub const fn bucket_low(bucket: usize) -> u64 {
    let (octave, sub) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    if octave == 0 { sub } else { (sub + (1 << SUB_BITS)) << (octave - 1) }
}

/// The histogram. `Default`-like state is all zero memory.
///
/// Untrusted: counts are any `u32` and need not add up; `max` is any `u64`. The host copies the buckets once, and adds
/// with saturation. The difference of two copies (end of warm-up, end of run) is what a run measured; `max` cannot be
/// subtracted and covers the whole life of the guest.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Histogram {
    buckets: [AtomicU32; BUCKETS],
    max: AtomicU64,
}

impl Histogram {
    /// Guest: counts one value. One writer only, so plain load and store; wraps after 2^32 values of one bucket.
    #[inline]
    pub fn record(&self, cycles: u64) {
        let slot = &self.buckets[bucket(cycles)];
        slot.store(slot.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if cycles > self.max.load(Ordering::Relaxed) {
            self.max.store(cycles, Ordering::Relaxed);
        }
    }

    /// Host: the non-empty buckets as (index, count).
    pub fn counts(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).enumerate().filter(|(_, count)| *count != 0)
    }

    /// Host: the largest value since the start, in cycles.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Histogram>() == 4096);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_holds() {
        assert_eq!(bucket(1000), 190);
        assert_eq!((bucket_low(190), bucket_low(191)), (992, 1008));
    }

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for index in 0..BUCKETS - 1 {
            let (low, next) = (bucket_low(index), bucket_low(index + 1));
            assert!(low < next && (next - low) * 32 <= low.max(32));
            assert_eq!((bucket(low), bucket(next - 1), bucket(next)), (index, index, index + 1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
