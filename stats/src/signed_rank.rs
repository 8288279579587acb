//! Paired blocks: Wilcoxon's signed-rank test, its interval and the Hodges-Lehmann centre.
//!
//! *Approach* (Hodges and Lehmann 1963, Tukey 1949). The n differences d1..dn have n(n+1)/2 *Walsh averages*
//! (di + dj)/2, i <= j. Their median is the estimate of the centre. Their order statistics bound it: the signed-rank test
//! refuses a centre c exactly if at most k of the Walsh averages lie on one side of c, so what it does not refuse
//! reaches from the k+1st smallest to the k+1st largest Walsh average.
//!
//! ```text
//!   d  = -1 2 4            Walsh: -1  .5  1.5  2  3  4        centre (1.5 + 2)/2
//!                                  |________________|          k = 0: from the smallest to the largest, confidence
//!                                                              1 - 2 P(T <= 0) = 1 - 2/8 = 75 %
//! ```
//! *The p-value* is conditional on the magnitudes found: under "no change" each sign is a coin's. Equal magnitudes share
//! their mean rank; a difference of zero keeps its rank and has no sign (Pratt 1959). *The interval* with ties errs on
//! the safe side (Noether 1967).

use std::collections::BTreeMap;

use crate::{
    BLOCKS_MIN, CONFIDENCE, CONFIDENCE_EQUIVALENCE, EXACT_BLOCKS_MAX, Interval, Test, critical_value,
    critical_value_normal, doubled_ranks, float, median_of_sorted, p_normal, sorted, standard_error,
};

/// Natural logarithms of the ratios `of[i] / to[i]`; `None` where a value is not positive, and has no logarithm.
#[must_use]
pub fn log_ratios(of: &[f64], to: &[f64]) -> Option<Vec<f64>> {
    of.iter().zip(to).map(|(a, b)| (*a > 0.0 && *b > 0.0).then(|| (a / b).ln())).collect()
}

/// The two-sided p-value of "the differences lie evenly about 0": twice the smaller tail.
#[must_use]
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let magnitudes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&magnitudes);
    let signed = || ranks.iter().zip(differences).filter(|(_, d)| **d != 0.0);
    let positive: usize = signed().filter(|(_, d)| **d > 0.0).map(|(r, _)| r).sum();
    let coins: Vec<usize> = signed().map(|(r, _)| *r).collect();
    if coins.len() > EXACT_BLOCKS_MAX {
        let sum: usize = coins.iter().sum();
        let squares: f64 = coins.iter().map(|r| float(*r) * float(*r)).sum();
        return p_normal(float(positive), float(sum) / 2.0, squares.sqrt() / 2.0, 2.0);
    }
    let p = sums_of_coins(&coins);
    let (low, high): (f64, f64) = (p[..=positive].iter().sum(), p[positive..].iter().sum());
    (2.0 * low.min(high)).min(1.0)
}

/// Critical values by number of blocks: for [`CONFIDENCE`], for [`CONFIDENCE_EQUIVALENCE`], and the widest.
#[derive(Debug, Default)]
pub(crate) struct Tables(BTreeMap<usize, [Option<(usize, f64)>; 3]>);

impl Tables {
    fn get(&mut self, n: usize) -> [Option<(usize, f64)>; 3] {
        *self.0.entry(n).or_insert_with(|| {
            if n > EXACT_BLOCKS_MAX {
                let mean = float(n) * float(n + 1) / 4.0;
                let deviation = (mean * float(2 * n + 1) / 6.0).sqrt();
                let of = |confidence| critical_value_normal(mean, deviation, confidence);
                return [of(CONFIDENCE), of(CONFIDENCE_EQUIVALENCE), of(CONFIDENCE)];
            }
            let p = sums_of_coins(&(1..=n).collect::<Vec<_>>());
            let enough = |confidence| critical_value(&p, confidence).filter(|_| n >= BLOCKS_MIN);
            [enough(CONFIDENCE), enough(CONFIDENCE_EQUIVALENCE), critical_value(&p[..1], 0.0)]
        })
    }
}

pub(crate) fn test(tables: &mut Tables, differences: &[f64]) -> Option<Test> {
    let walsh = walsh_averages(differences);
    let centre = median_of_sorted(&walsh)?;
    let interval = |(k, confidence): (usize, f64)| {
        let (low, high) = (walsh[k], walsh[walsh.len() - 1 - k]);
        Interval { low, high, confidence }
    };
    let [wide, narrow, widest] = tables.get(differences.len()).map(|found| found.map(interval));
    Some(Test {
        centre,
        interval: wide,
        narrow,
        p: signed_rank_p(differences),
        standard_error: wide.or(widest).map(standard_error),
        blocks: [differences.len(); 2],
        paired: true,
    })
}

/// All (di + dj)/2 with i <= j, ascending.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let pairs = differences.iter().enumerate();
    sorted(pairs.flat_map(|(i, a)| differences[i..].iter().map(|b| f64::midpoint(*a, *b))).collect())
}

/// P(sum = s) for s from 0, where each of `values` counts if its coin shows heads.
fn sums_of_coins(values: &[usize]) -> Vec<f64> {
    let mut p = vec![0.0; values.iter().sum::<usize>() + 1];
    p[0] = 1.0;
    let mut reach = 0;
    for value in values {
        reach += value;
        for s in (0..=reach).rev() {
            let heads = if s >= *value { p[s - value] } else { 0.0 };
            p[s] = 0.5 * (p[s] + heads);
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two-sided p-value by going through all 2^n signs of the differences.
    fn p_by_enumeration(differences: &[f64]) -> f64 {
        let rank = |x: f64| {
            let below = differences.iter().filter(|y| y.abs() < x.abs()).count();
            let equal = differences.iter().filter(|y| y.abs() == x.abs()).count();
            2 * below + equal + 1
        };
        let sum = |is_positive: &dyn Fn(usize, f64) -> bool| -> usize {
            let kept = differences.iter().enumerate().filter(|(i, d)| **d != 0.0 && is_positive(*i, **d));
            kept.map(|(_, d)| rank(*d)).sum()
        };
        let found = sum(&|_, d| d > 0.0);
        let sums: Vec<usize> = (0u32..1 << differences.len()).map(|signs| sum(&|i, _| signs >> i & 1 == 1)).collect();
        let low = sums.iter().filter(|s| **s <= found).count();
        let high = sums.iter().filter(|s| **s >= found).count();
        (2.0 * float(low.min(high)) / float(sums.len())).min(1.0)
    }

    fn test_of(differences: &[f64]) -> Option<Test> {
        test(&mut Tables::default(), differences)
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
            assert_eq!(sums_of_coins(&(1..=n).collect::<Vec<_>>()), exact, "n = {n}");
        }
    }

    #[test]
    fn critical_values_are_the_published_ones() {
        // Two-sided 0.05, n from 5 (none exists) to 25 and 50: Wilcoxon's table.
        let table = [0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89];
        let k = |n| Tables::default().get(n)[0].map(|(k, _)| k);
        assert_eq!(k(5), None);
        for (n, want) in (BLOCKS_MIN..).zip(table) {
            assert_eq!(k(n), Some(want), "n = {n}");
        }
        assert_eq!(k(50), Some(434));
    }

    #[test]
    fn the_depression_scores_give_the_published_figures() {
        // Hollander and Wolfe, Nonparametric Statistical Methods, table 3.1: nine patients under a tranquilizer.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        #[allow(clippy::approx_constant)]
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = before.iter().zip(after).map(|(b, a)| b - a).collect();
        let found = test_of(&d).unwrap();
        let interval = found.interval.unwrap();
        assert!((found.centre - 0.46).abs() < 1e-9, "{found:?}");
        assert!((interval.low - 0.01).abs() < 1e-9 && (interval.high - 0.786).abs() < 1e-9, "{interval:?}");
        assert!((interval.confidence - (1.0 - 20.0 / 512.0)).abs() < 1e-12, "{interval:?}");
        assert!((found.p - 20.0 / 512.0).abs() < 1e-15, "{found:?}");
    }

    #[test]
    fn six_blocks_reach_96_9_percent_with_their_extremes_and_five_reach_none() {
        let six = [0.3, -0.1, 0.2, 0.5, 0.4, 0.0];
        let interval = test_of(&six).unwrap().interval.unwrap();
        assert_eq!((interval.low, interval.high, interval.confidence), (-0.1, 0.5, 0.96875));
        let five = test_of(&six[..5]).unwrap();
        assert!(five.interval.is_none() && five.narrow.is_none() && five.standard_error.is_some());
        assert_eq!(test_of(&six[..1]).unwrap().standard_error, None);
        assert_eq!(test_of(&[]), None);
    }

    #[test]
    fn only_positive_values_have_log_ratios() {
        assert_eq!(log_ratios(&[2.0, 0.0], &[1.0, 1.0]), None);
        assert!((crate::percent(log_ratios(&[3.0], &[2.0]).unwrap()[0]) - 50.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn p_is_that_of_all_signs(d in prop::collection::vec(-5i8..=5, 1..=10)) {
            let d: Vec<f64> = d.into_iter().map(f64::from).collect();
            prop_assert!((signed_rank_p(&d) - p_by_enumeration(&d)).abs() < 1e-12);
        }

        /// Without ties the intervals are exactly the set of centres that the enumerated test does not refuse.
        #[test]
        fn the_interval_inverts_the_enumerated_test(d in prop::collection::vec(-1.0f64..1.0, 6..=8)) {
            let found = test_of(&d).unwrap();
            for c in probes(&walsh_averages(&d)) {
                let moved: Vec<f64> = d.iter().map(|d| d - c).collect();
                for (interval, confidence) in [(found.interval, CONFIDENCE), (found.narrow, CONFIDENCE_EQUIVALENCE)] {
                    let kept = p_by_enumeration(&moved) > 1.0 - confidence + 1e-12;
                    let inside = interval.is_none_or(|i| i.low < c && c < i.high);
                    prop_assert_eq!(kept, inside, "centre {} of {:?}", c, d);
                }
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
                    test_of(&d).unwrap().interval.unwrap()
                })
                .collect();
            let holding = u32::try_from(intervals.iter().filter(|i| i.low <= 0.0 && 0.0 <= i.high).count()).unwrap();
            prop_assert!(f64::from(holding) / f64::from(patterns) >= intervals[0].confidence, "{:?}", magnitudes);
        }

        #[test]
        fn the_estimate_moves_and_flips_with_the_data(d in prop::collection::vec(-1.0f64..1.0, 6..40)) {
            let here = test_of(&d).unwrap();
            let there = test_of(&d.iter().map(|x| 1.0 - x).collect::<Vec<_>>()).unwrap();
            prop_assert!((here.centre + there.centre - 1.0).abs() < 1e-9);
            let (a, b) = (here.interval.unwrap(), there.interval.unwrap());
            prop_assert!((a.low + b.high - 1.0).abs() < 1e-9 && a.low <= here.centre && here.centre <= a.high);
        }
    }
}
