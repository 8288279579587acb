//! Load weights and the kernel's division without a division.
//!
//! Units: a *weight* is a dimensionless share, 1024 for nice 0; one nice step is about 1.25x, that is 10 % of the CPU.
//!
//! Problem: CFS scales every length of time by `weight / total weight`, on every tick, for every level of groups.
//! Approach: multiply by the 32-bit fixed-point inverse of the divisor and shift. The rounding of that arithmetic shows
//! in the schedule (a slice may end one tick earlier or later), so it is reproduced exactly: the two multiplications,
//! the two roundings, and the *tabulated* inverses of the nice weights, which differ in the last digit from 2^32 / weight.
//!
//! Worked example: two nice-0 tasks, period 24 ms. Queue weight 2048, inverse 2^32 / 2048 = 2097152.
//! 24,000,000 x 1024 = 24,576,000,000 exceeds 2^32, so both steps shift by 16:
//! round(24,576,000,000 / 2^16) = 375,000; round(375,000 x 2,097,152 / 2^16) = 12,000,000: a slice of 12 ms.

/// The weight of a nice-0 task (`NICE_0_LOAD`, kernel 3.4 with `SCHED_LOAD_RESOLUTION` 0).
pub const NICE_0_LOAD: u64 = 1024;
/// The smallest share of a group on a CPU (`MIN_SHARES`).
pub const MIN_SHARES: u64 = 2;
/// The largest shares of a group (`MAX_SHARES`).
pub const MAX_SHARES: u64 = 1 << 18;
/// The weight of a `SCHED_IDLE` task (`WEIGHT_IDLEPRIO`).
pub const WEIGHT_IDLEPRIO: u64 = 3;
/// Its inverse (`WMULT_IDLEPRIO`).
const WMULT_IDLEPRIO: u64 = 1_431_655_765;
/// 2^32: the fixed-point one of an inverse weight (`WMULT_CONST` on 64-bit kernels).
const WMULT_CONST: u64 = 1 << 32;

/// Weights of nice -20 .. 19 (`prio_to_weight`).
pub const PRIO_TO_WEIGHT: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// Inverses of these weights (`prio_to_wmult`).
pub const PRIO_TO_WMULT: [u64; 40] = [
    48388,
    59856,
    76040,
    92818,
    118_348,
    147_320,
    184_698,
    229_616,
    287_308,
    360_437,
    449_829,
    563_644,
    704_093,
    875_809,
    1_099_582,
    1_376_151,
    1_717_300,
    2_157_191,
    2_708_050,
    3_363_326,
    4_194_304,
    5_237_765,
    6_557_202,
    8_165_337,
    10_153_587,
    12_820_798,
    15_790_321,
    19_976_592,
    24_970_740,
    31_350_126,
    39_045_157,
    49_367_440,
    61_356_676,
    76_695_844,
    95_443_717,
    119_304_647,
    148_102_320,
    186_737_708,
    238_609_294,
    286_331_153,
];

/// A nice value outside -20 .. 19.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("nice {0} is out of range: it must be from -20 to 19")]
pub struct NiceError(pub i32);

/// A nice level, -20 (heaviest) to 19 (lightest).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Nice(i8);

impl Nice {
    /// Checks the range.
    ///
    /// # Errors
    /// A value outside -20 .. 19.
    pub fn new(nice: i32) -> Result<Self, NiceError> {
        match i8::try_from(nice) {
            Ok(n) if (-20..=19).contains(&n) => Ok(Self(n)),
            _ => Err(NiceError(nice)),
        }
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> i8 {
        self.0
    }

    /// The weight and inverse weight of this level (`set_load_weight`).
    #[must_use]
    pub fn load(self) -> LoadWeight {
        let prio = usize::from((self.0 + 20).unsigned_abs());
        LoadWeight { weight: PRIO_TO_WEIGHT[prio], inv_weight: PRIO_TO_WMULT[prio] }
    }
}

/// A weight with its cached inverse (`struct load_weight`); 0 means the inverse is not computed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadWeight {
    /// The weight.
    pub weight: u64,
    /// 2^32 / weight, or 0.
    pub inv_weight: u64,
}

impl LoadWeight {
    /// A weight whose inverse is computed when first needed.
    #[must_use]
    pub const fn new(weight: u64) -> Self {
        Self { weight, inv_weight: 0 }
    }

    /// The weight of a `SCHED_IDLE` task.
    #[must_use]
    pub const fn idle_policy() -> Self {
        Self { weight: WEIGHT_IDLEPRIO, inv_weight: WMULT_IDLEPRIO }
    }

    /// Adds to the weight (`update_load_add`).
    #[inline]
    pub fn add(&mut self, weight: u64) {
        self.weight += weight;
        self.inv_weight = 0;
    }

    /// Takes from the weight (`update_load_sub`).
    #[inline]
    pub fn sub(&mut self, weight: u64) {
        self.weight -= weight;
        self.inv_weight = 0;
    }

    /// The inverse, computed if need be.
    #[inline]
    fn inverse(&mut self) -> u64 {
        if self.inv_weight == 0 {
            self.inv_weight = match self.weight {
                w if w >= WMULT_CONST => 1,
                0 => WMULT_CONST,
                w => WMULT_CONST / w,
            };
        }
        self.inv_weight
    }
}

/// Shift right, rounding half up (`SRR`).
#[inline]
const fn srr(x: u64, shift: u32) -> u64 {
    x.wrapping_add(1 << (shift - 1)) >> shift
}

/// `delta * weight / load` in the kernel's fixed point (`calc_delta_mine`, 3.4).
#[inline]
#[must_use]
pub fn calc_delta_mine(delta: u64, weight: u64, load: &mut LoadWeight) -> u64 {
    let inverse = load.inverse();
    let product = if weight > 1 { delta.wrapping_mul(weight) } else { delta };
    let scaled = if product > WMULT_CONST {
        srr(srr(product, 16).wrapping_mul(inverse), 16)
    } else {
        srr(product.wrapping_mul(inverse), 32)
    };
    scaled.min(u64::MAX >> 1)
}

/// `delta * 1024 / load`: a length of time in virtual nanoseconds of that weight (`calc_delta_fair`, 3.4).
#[inline]
#[must_use]
pub fn calc_delta_fair(delta: u64, load: &mut LoadWeight) -> u64 {
    if load.weight == NICE_0_LOAD { delta } else { calc_delta_mine(delta, NICE_0_LOAD, load) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_is_right() {
        assert_eq!(calc_delta_mine(24_000_000, 1024, &mut LoadWeight::new(2048)), 12_000_000);
    }

    #[test]
    fn nice_0_time_is_its_own_virtual_time() {
        assert_eq!(calc_delta_fair(123_456, &mut Nice::default().load()), 123_456);
    }

    #[test]
    fn a_weight_of_one_or_less_counts_as_one() {
        let mut load = LoadWeight::new(1);
        assert_eq!(calc_delta_mine(1000, 0, &mut load), calc_delta_mine(1000, 1, &mut load));
    }

    #[test]
    fn an_empty_load_does_not_divide_by_zero() {
        assert_eq!(calc_delta_mine(7, 1, &mut LoadWeight::new(0)), 7);
    }

    #[test]
    fn nice_is_checked() {
        assert!(Nice::new(19).is_ok() && Nice::new(-20).is_ok());
        assert_eq!(Nice::new(20), Err(NiceError(20)));
        assert_eq!(Nice::new(-300), Err(NiceError(-300)));
    }
}
