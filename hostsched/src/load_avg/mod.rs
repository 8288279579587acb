//! How much load an entity has been lately: a running sum that halves every 32 ms (3.8 to 4.2, `struct sched_avg`).
//!
//! Units: 1024 ns for spans of runnable time, called us here; *periods* of 1024 us; weights for loads. Problem: 3.4 counts
//! a task that runs for 1 us a ms as a whole one while it runs and as nothing else. Approach: cut time into periods and
//! weight each by its age, `sum = u0 + u1 y + u2 y^2 + ...` with `y^32 = 1/2`, where `u` is how many us of the period the
//! entity was runnable. The same sum over *all* time is what it could have been; the quotient is its share of lately.
//!
//! ```text
//!     older  |  1024 us  |  1024 us  |  1024 us  | 300 us |        a task that has run all along:
//!      ...      x y^3       x y^2       x y          x 1  ^ now     sum = period sum, at most 47742 + 1023
//! ```
//! Worked example: an entity that has run all along has both sums at 47742 and, at nice 0, counts as
//! 1024 x 47742 / 47743 = 1023. It sleeps for 32 periods: its sum halves to 23870, the period sum comes to 47560, and it
//! counts as 1024 x 23870 / 47561 = 513.
//!
//! Glossary: *contribution*: weight x that quotient, as of the last period's end; *runnable load* of a queue: the
//! contributions of what is queued; *blocked load*: of what sleeps and would come back here, decaying. What a queue adds to
//! its group's total is both. See `queue.rs` for who updates what when.
//!
//! Two flaws are the kernel's and kept: how far the present period has got is read off the decayed period sum (its remainder by
//! 1024), so periods come early; and 344 periods sum up to 46714, 345 to 47742.
//!
//! Properties: the cost of an update does not depend on the time that it spans; a sum never exceeds its period sum.
mod queue;

pub(crate) use queue::QueueAvg;

/// Periods in which a load halves (`LOAD_AVG_PERIOD`).
const LOAD_AVG_PERIOD: u64 = 32;
/// The sum of an entity that has always been runnable, at a period's end (`LOAD_AVG_MAX`).
const LOAD_AVG_MAX: u64 = 47742;
/// Periods that it takes to get there (`LOAD_AVG_MAX_N`).
const LOAD_AVG_MAX_N: u64 = 345;
/// Length of a period, in us.
const PERIOD_US: u64 = 1024;

/// 2^32 y^n, rounded down (`runnable_avg_yN_inv`).
const Y_N: [u64; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];
/// The sum of 1024 y^k over k = 1 .. n, rounded down at each step (`runnable_avg_yN_sum`).
const Y_SUM: [u64; 33] = [
    0, 1002, 1982, 2941, 3880, 4798, 5697, 6576, 7437, 8279, 9103, 9909, 10698, 11470, 12226, 12966, 13690, 14398,
    15091, 15769, 16433, 17082, 17718, 18340, 18949, 19545, 20128, 20698, 21256, 21802, 22336, 22859, 23371,
];

/// What is left of a value after that many periods: `value x y^periods` (`decay_load`).
#[inline]
fn decay_load(value: u64, periods: u64) -> u64 {
    if periods == 0 {
        return value;
    }
    if periods > 63 * LOAD_AVG_PERIOD {
        return 0;
    }
    let (halvings, rest) = (periods / LOAD_AVG_PERIOD, periods % LOAD_AVG_PERIOD);
    // Values are sums and loads, below 2^32.
    (value >> halvings).wrapping_mul(Y_N[usize::try_from(rest).unwrap_or(0)]) >> 32
}

/// The sum of 1024 y^k over k = 1 .. periods (`__compute_runnable_contrib`).
#[inline]
fn sum_of_periods(periods: u64) -> u64 {
    let table = |n: u64| Y_SUM[usize::try_from(n).unwrap_or(0)];
    if periods <= LOAD_AVG_PERIOD {
        return table(periods);
    }
    if periods >= LOAD_AVG_MAX_N {
        return LOAD_AVG_MAX;
    }
    // Whole halvings first, at most ten; the rest, 1 .. 32, in front of them.
    let blocks = (periods - 1) / LOAD_AVG_PERIOD;
    let rest = periods - blocks * LOAD_AVG_PERIOD;
    let whole = (0..blocks).fold(0, |sum, _| sum / 2 + table(LOAD_AVG_PERIOD));
    decay_load(whole, rest) + table(rest)
}

/// An entity's average (`struct sched_avg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SchedAvg {
    /// Runnable time, decayed.
    runnable_avg_sum: u64,
    /// All time, decayed.
    runnable_avg_period: u64,
    last_runnable_update: u64,
    /// The queue's count of decays when the entity fell asleep there; below zero: decays that it slept through before it
    /// changed queues; 0: awake, or new to its queue.
    decay_count: i64,
    /// Its contribution to the load of its queue.
    load_avg_contrib: u64,
}

impl SchedAvg {
    /// A new task, runnable for as long as its first slice (`init_task_runnable_average`).
    fn new_task(slice_ns: u64, weight: u64) -> Self {
        let us = slice_ns >> 10;
        let mut avg = Self { runnable_avg_sum: us, runnable_avg_period: us, ..Self::default() };
        avg.load_avg_contrib = avg.of_weight(weight);
        avg
    }

    /// A task that has slept for long.
    fn rested() -> Self {
        Self { runnable_avg_period: LOAD_AVG_MAX, ..Self::default() }
    }

    /// Adds the time since the last update, with the entity runnable or not. True if a period ended in it
    /// (`__update_entity_runnable_avg`).
    #[inline]
    fn update(&mut self, now: u64, runnable: bool) -> bool {
        let Some(ns) = now.checked_sub(self.last_runnable_update) else {
            // It comes from a CPU whose clock is ahead.
            self.last_runnable_update = now;
            return false;
        };
        let mut us = ns >> 10;
        if us == 0 {
            return false;
        }
        self.last_runnable_update = now;
        let add = |avg: &mut Self, us| {
            avg.runnable_avg_period += us;
            avg.runnable_avg_sum += if runnable { us } else { 0 };
        };
        let left = PERIOD_US - self.runnable_avg_period % PERIOD_US;
        let ends = us >= left;
        if ends {
            add(self, left);
            us -= left;
            let whole = us / PERIOD_US;
            us %= PERIOD_US;
            self.runnable_avg_sum = decay_load(self.runnable_avg_sum, whole + 1);
            self.runnable_avg_period = decay_load(self.runnable_avg_period, whole + 1);
            add(self, sum_of_periods(whole));
        }
        add(self, us);
        ends
    }

    /// That part of `weight` for which the entity was runnable lately (`__update_task_entity_contrib`).
    #[inline]
    fn of_weight(&self, weight: u64) -> u64 {
        self.runnable_avg_sum * weight / (self.runnable_avg_period + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1 << 20;

    /// `2^(-n/32)` in 60 bits by a way of its own: the 32nd root of 1/2, found by bisection, multiplied out.
    fn y_to_the(n: usize) -> u128 {
        let one = 1_u128 << 60;
        let power = |y: u128, n: usize| (0..n).fold(one, |p, _| (p * y) >> 60);
        let (mut low, mut high) = (0, one);
        while high - low > 1 {
            let y = u128::midpoint(low, high);
            if power(y, 32) <= one / 2 { low = y } else { high = y }
        }
        power(low, n)
    }

    #[test]
    fn the_tables_are_the_powers_of_the_32nd_root_of_a_half() {
        for (n, value) in Y_N.into_iter().enumerate() {
            let exact = y_to_the(n) >> 28;
            assert!(exact.abs_diff(value.into()) <= 1, "{n}: {value:#x} and {exact:#x}");
        }
        let mut sum = 0_u128;
        for (n, value) in Y_SUM.into_iter().enumerate() {
            assert_eq!(u128::from(value), sum, "the sum of {n} periods");
            sum = ((sum + 1024) * y_to_the(1)) >> 60;
        }
    }

    #[test]
    fn the_largest_sum_is_where_adding_a_period_and_decaying_it_meet() {
        let next = |sum: u128| ((sum * y_to_the(1)) >> 60) + 1024;
        let limit = (0..1000).fold(0, |sum, _| next(sum));
        assert_eq!((limit, next(limit)), (LOAD_AVG_MAX.into(), LOAD_AVG_MAX.into()));
    }

    #[test]
    fn a_load_halves_in_32_periods_and_vanishes() {
        assert_eq!(decay_load(47742, 0), 47742);
        assert_eq!(decay_load(47742, 32), 23870, "rounded down, as y^0 is 2^32 - 1");
        assert_eq!(decay_load(1024, 1), 1002);
        assert_eq!((decay_load(u64::from(u32::MAX), 63 * 32 + 1), decay_load(1024, 320)), (0, 0));
    }

    #[test]
    fn many_periods_sum_up_in_blocks_of_32() {
        let sums = [33, 64, 65, 100, 344, 345, u64::MAX].map(sum_of_periods);
        assert_eq!(sums, [23872, 35055, 35306, 41384, 46714, 47742, 47742]);
    }

    /// From a transcription of `__update_entity_runnable_avg` in another language: after so many us, runnable or not, the two
    /// sums.
    const HISTORY: [(u64, bool, u64, u64); 8] = [
        (3000, true, 2863, 2863),
        (2500, false, 2682, 5044),
        (700, true, 3305, 5617),
        (40000, false, 1450, 29114),
        (100, true, 1547, 29211),
        (5, false, 1547, 29215),
        (400_000, true, 47742, 47749),
        (1500, false, 45717, 47150),
    ];

    #[test]
    fn a_history_adds_up_as_in_the_kernel() {
        let (mut avg, mut now) = (SchedAvg::default(), 0);
        for (us, runnable, sum, period) in HISTORY {
            now += us * 1000;
            avg.update(now, runnable);
            assert_eq!((avg.runnable_avg_sum, avg.runnable_avg_period), (sum, period), "after {now} ns");
        }
    }

    #[test]
    fn nothing_decays_before_the_period_is_full() {
        let mut avg = SchedAvg::default();
        assert!(!avg.update(PERIOD_NS - 1, true));
        assert_eq!((avg.runnable_avg_sum, avg.runnable_avg_period), (1023, 1023));
        // The rest of 1023 ns was dropped; 1 us more ends the period: 1024 x y = 1002.
        assert!(avg.update(PERIOD_NS - 1 + 1024, false));
        assert_eq!((avg.runnable_avg_sum, avg.runnable_avg_period), (1001, 1002));
        assert!(!avg.update(PERIOD_NS - 1 + 1024 + 1023, true), "less than 1 us is left for later");
    }

    #[test]
    fn the_worked_example_is_right() {
        let mut avg = SchedAvg::default();
        assert!(avg.update(1000 * PERIOD_NS, true));
        assert_eq!((avg.runnable_avg_sum, avg.runnable_avg_period, avg.of_weight(1024)), (47742, 47742, 1023));
        avg.update(1032 * PERIOD_NS, false);
        assert_eq!((avg.runnable_avg_sum, avg.runnable_avg_period, avg.of_weight(1024)), (23870, 47560, 513));
    }

    #[test]
    fn a_new_task_counts_in_full_and_a_rested_one_not_at_all() {
        assert_eq!(SchedAvg::new_task(6_000_000, 1024).load_avg_contrib, 1023);
        assert_eq!(SchedAvg::new_task(6_000_000, 15).load_avg_contrib, 14);
        let mut rested = SchedAvg::rested();
        rested.update(2 * PERIOD_NS, true);
        assert!(rested.of_weight(1024) < 50, "{rested:?}");
    }

    #[test]
    fn a_clock_that_is_behind_changes_nothing_but_the_stamp() {
        let mut avg = SchedAvg { last_runnable_update: 5 << 20, ..SchedAvg::default() };
        assert!(!avg.update(4 << 20, true));
        assert_eq!(avg, SchedAvg { last_runnable_update: 4 << 20, ..SchedAvg::default() });
    }
}
