//! Rank statistics of paired blocks: how much faster is one mode than another, and how sure is that?
//!
//! *Units.* Differences of natural logarithms: `ln(x / y)` of one metric, of two modes in the same block. A value of
//! 0.0953 is +10 %; [`percent`] converts.
//!
//! *Problem.* Blocks on a shared machine are noisy, their errors are neither normal nor equal, and there are 6 to 20 of
//! them. A mean follows the one block in which a neighbour woke up; an interval made of a standard deviation
//! presumes a distribution that nobody has checked.
//!
//! *Approach* (Hodges and Lehmann 1963, Tukey 1949). The n differences d1..dn have n(n+1)/2 *Walsh averages*
//! (di + dj)/2, i <= j. Their median is the estimate of the centre (Hodges-Lehmann). Their order statistics bound it:
//! the Wilcoxon signed-rank test refuses a centre c exactly if at most k of the Walsh averages lie on one side of c, so
//! what it does not refuse reaches from the k+1st smallest to the k+1st largest Walsh average.
//!
//! ```text
//!   d  = -1 2 4            Walsh: -1  .5  1.5  2  3  4        centre (1.5 + 2)/2
//!                                  |________________|          k = 0: from the smallest to the largest, confidence
//!                                                              1 - 2 P(T <= 0) = 1 - 2/8 = 75 %
//! ```
//!
//! *Properties.* Exact for every n: the distribution of T is counted, nothing is drawn at random, so equal data give
//! equal bits. The confidence stated is the one reached, at least the one asked for; with ties it is a lower bound.
//! Below [`BLOCKS_MIN`] blocks no interval can reach 95 % (1 - 2/2^5 = 93.75 %), and none is given.

/// The fewest blocks whose signed-rank interval can reach 95 % confidence.
pub const BLOCKS_MIN: usize = 6;

/// The centre of paired differences, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Hodges-Lehmann centre.
    pub centre: f64,
    /// Exact signed-rank interval, where there are enough differences for the confidence asked for.
    pub interval: Option<Interval>,
    /// Number of differences.
    pub n: usize,
}

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence reached, 0..1.
    pub confidence: f64,
}

/// Estimates the centre of `differences` with an interval of at least `confidence`; `None` for no differences.
#[must_use]
pub fn estimate(differences: &[f64], confidence: f64) -> Option<Estimate> {
    let walsh = walsh_averages(differences);
    let centre = median_of_sorted(&walsh)?;
    let interval = critical_value(differences.len(), confidence).map(|(k, confidence)| Interval {
        low: walsh[k],
        high: walsh[walsh.len() - 1 - k],
        confidence,
    });
    Some(Estimate { centre, interval, n: differences.len() })
}

/// The natural logarithms of the ratios `of[i] / to[i]`; `None` where a value is not positive, and has no logarithm.
#[must_use]
pub fn log_ratios(of: &[f64], to: &[f64]) -> Option<Vec<f64>> {
    of.iter().zip(to).map(|(a, b)| (*a > 0.0 && *b > 0.0).then(|| (a / b).ln())).collect()
}

/// A log ratio as a change in percent.
#[must_use]
pub fn percent(log_ratio: f64) -> f64 {
    log_ratio.exp_m1() * 100.0
}

/// The median; `None` for no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[middle - 1], *upper) })
}

/// All (di + dj)/2 with i <= j, ascending.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut walsh: Vec<f64> = differences
        .iter()
        .enumerate()
        .flat_map(|(i, a)| differences[i..].iter().map(|b| f64::midpoint(*a, *b)))
        .collect();
    walsh.sort_by(f64::total_cmp);
    walsh
}

/// The largest k with 1 - 2 P(T <= k) >= `confidence`, and the confidence that it reaches; `None` if even k = 0 does
/// not reach it.
fn critical_value(n: usize, confidence: f64) -> Option<(usize, f64)> {
    let mut tail = 0.0;
    let mut best = None;
    for (k, p) in signed_rank_distribution(n).into_iter().enumerate() {
        tail += p;
        // Half of the distribution is the end of every lower tail: beyond it the two ends would cross.
        let reached = 1.0 - 2.0 * tail;
        if reached < confidence || reached <= 0.0 {
            break;
        }
        best = Some((k, reached));
    }
    best
}

/// P(T = t) of the signed-rank statistic of n differences without a centre: T is the sum of those ranks of 1..n whose
/// coin shows heads.
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let mut p = vec![0.0; n * (n + 1) / 2 + 1];
    p[0] = 1.0;
    let mut reach = 0;
    for rank in 1..=n {
        reach += rank;
        for t in (0..=reach).rev() {
            let with_rank = if t >= rank { p[t - rank] } else { 0.0 };
            p[t] = 0.5 * (p[t] + with_rank);
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Doubled midranks of |d - c| and the doubled rank sum of the positive ones: the test from its definition.
    fn doubled_ranks(differences: &[f64], centre: f64) -> (Vec<u64>, u64) {
        let shifted: Vec<f64> = differences.iter().map(|d| d - centre).collect();
        let rank = |x: f64| {
            let below = shifted.iter().filter(|y| y.abs() < x.abs()).count();
            let equal = shifted.iter().filter(|y| y.abs() == x.abs()).count();
            u64::try_from(2 * below + equal + 1).unwrap()
        };
        let ranks: Vec<u64> = shifted.iter().map(|x| rank(*x)).collect();
        let positive = shifted.iter().zip(&ranks).filter(|(x, _)| **x > 0.0).map(|(_, r)| r).sum();
        (ranks, positive)
    }

    /// Two-sided p-value by going through all 2^n signs.
    fn p_by_enumeration(ranks: &[u64], positive: u64) -> f64 {
        let sums: Vec<u64> = (0u32..1 << ranks.len())
            .map(|signs| ranks.iter().enumerate().filter(|(i, _)| signs >> i & 1 == 1).map(|(_, r)| r).sum())
            .collect();
        let share = |count: usize| f64::from(u32::try_from(count).unwrap()) / f64::from(1u32 << ranks.len());
        let low = share(sums.iter().filter(|s| **s <= positive).count());
        let high = share(sums.iter().filter(|s| **s >= positive).count());
        (2.0 * low.min(high)).min(1.0)
    }

    /// Centres strictly between neighbouring Walsh averages, and beyond both ends.
    fn probes(walsh: &[f64]) -> Vec<f64> {
        let between = walsh.windows(2).filter(|w| w[1] - w[0] > 1e-9).map(|w| f64::midpoint(w[0], w[1]));
        [walsh[0] - 1.0].into_iter().chain(between).chain([walsh[walsh.len() - 1] + 1.0]).collect()
    }

    #[test]
    fn the_distribution_is_that_of_all_sign_patterns() {
        for n in 1..=12usize {
            let mut counts = vec![0u32; n * (n + 1) / 2 + 1];
            for signs in 0u32..1 << n {
                counts[(1..=n).filter(|r| signs >> (r - 1) & 1 == 1).sum::<usize>()] += 1;
            }
            let exact: Vec<f64> = counts.iter().map(|c| f64::from(*c) / f64::from(1u32 << n)).collect();
            assert_eq!(signed_rank_distribution(n), exact, "n = {n}");
        }
    }

    #[test]
    fn critical_values_are_the_published_ones() {
        // Two-sided 0.05, n from 5 (none exists) to 25 and 50: Wilcoxon's table.
        let table = [0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89];
        assert_eq!(critical_value(5, 0.95), None);
        for (n, k) in (BLOCKS_MIN..).zip(table) {
            assert_eq!(critical_value(n, 0.95).map(|(k, _)| k), Some(k), "n = {n}");
        }
        assert_eq!(critical_value(50, 0.95).map(|(k, _)| k), Some(434));
    }

    #[test]
    fn the_depression_scores_give_the_published_figures() {
        // Hollander and Wolfe, Nonparametric Statistical Methods, table 3.1: nine patients under a tranquilizer.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        #[allow(clippy::approx_constant)]
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = before.iter().zip(after).map(|(b, a)| b - a).collect();
        let found = estimate(&d, 0.95).unwrap();
        let interval = found.interval.unwrap();
        assert!((found.centre - 0.46).abs() < 1e-9, "{found:?}");
        assert!((interval.low - 0.01).abs() < 1e-9 && (interval.high - 0.786).abs() < 1e-9, "{interval:?}");
        assert!((interval.confidence - (1.0 - 20.0 / 512.0)).abs() < 1e-12, "{interval:?}");
        let (ranks, positive) = doubled_ranks(&d, 0.0);
        assert_eq!((positive / 2, p_by_enumeration(&ranks, positive)), (40, 20.0 / 512.0));
    }

    #[test]
    fn six_blocks_reach_96_9_percent_with_their_extremes_and_five_reach_none() {
        let six = [0.3, -0.1, 0.2, 0.5, 0.4, 0.0];
        let interval = estimate(&six, 0.95).unwrap().interval.unwrap();
        assert_eq!((interval.low, interval.high, interval.confidence), (-0.1, 0.5, 0.96875));
        assert_eq!(estimate(&six[..5], 0.95).unwrap().interval, None);
        assert_eq!(estimate(&[], 0.95), None);
    }

    #[test]
    fn only_positive_values_have_log_ratios() {
        assert_eq!(log_ratios(&[2.0, 0.0], &[1.0, 1.0]), None);
        assert!((percent(log_ratios(&[3.0], &[2.0]).unwrap()[0]) - 50.0).abs() < 1e-9);
    }

    proptest! {
        /// Without ties the interval is exactly the set of centres that the enumerated test does not refuse.
        #[test]
        fn the_interval_inverts_the_enumerated_test(
            d in prop::collection::vec(-1.0f64..1.0, 1..=8),
            confidence in prop::sample::select(vec![0.5, 0.75, 0.9, 0.95]),
        ) {
            let walsh = walsh_averages(&d);
            let interval = estimate(&d, confidence).unwrap().interval;
            for c in probes(&walsh) {
                let (ranks, positive) = doubled_ranks(&d, c);
                prop_assume!(ranks.iter().all(|r| ranks.iter().filter(|s| *s == r).count() == 1));
                let kept = p_by_enumeration(&ranks, positive) > 1.0 - confidence + 1e-12;
                let inside = interval.is_none_or(|i| i.low < c && c < i.high);
                prop_assert_eq!(kept, inside, "centre {} of {:?}", c, d);
            }
        }

        /// With ties and zeros: of all sign patterns of the same magnitudes, at least the stated share has an interval
        /// that holds the true centre 0 (Noether 1967: the closed interval errs on the safe side).
        #[test]
        fn ties_never_make_the_interval_too_narrow(magnitudes in prop::collection::vec(0u8..=3, 6..=8)) {
            let patterns = 1u32 << magnitudes.len();
            let intervals: Vec<Interval> = (0..patterns)
                .map(|signs| {
                    let signed = |(i, m): (usize, &u8)| f64::from(*m) * if signs >> i & 1 == 1 { 1.0 } else { -1.0 };
                    let d: Vec<f64> = magnitudes.iter().enumerate().map(signed).collect();
                    estimate(&d, 0.95).unwrap().interval.unwrap()
                })
                .collect();
            let holding = u32::try_from(intervals.iter().filter(|i| i.low <= 0.0 && 0.0 <= i.high).count()).unwrap();
            prop_assert!(f64::from(holding) / f64::from(patterns) >= intervals[0].confidence, "{:?}", magnitudes);
        }

        #[test]
        fn the_estimate_moves_and_flips_with_the_data(d in prop::collection::vec(-1.0f64..1.0, 6..40)) {
            let here = estimate(&d, 0.95).unwrap();
            let there = estimate(&d.iter().map(|x| 1.0 - x).collect::<Vec<_>>(), 0.95).unwrap();
            prop_assert!((here.centre + there.centre - 1.0).abs() < 1e-9);
            let (a, b) = (here.interval.unwrap(), there.interval.unwrap());
            prop_assert!((a.low + b.high - 1.0).abs() < 1e-9 && a.low <= here.centre && here.centre <= a.high);
        }
    }
}
