//! Unpaired blocks: the Mann-Whitney test, its interval and the Hodges-Lehmann shift.
//!
//! *Approach.* Of the n1 n2 differences new - old, the median is the estimate of the shift, and their order statistics
//! bound it as the Walsh averages do for pairs. The statistic U counts the differences above zero, ties by half.
//!
//! *The p-value* is conditional on the values found: under "no change" every choice of n2 of the n1 + n2 values is equally
//! likely to be the new side. Those choices are not listed (50 of 100 are 10^29) but counted, value by value:
//!
//! ```text
//!   values in ascending order, equal ones in one group:      3   5 5   7 7 7   9
//!   ways[k][u]: choices among the values seen so far with k on the new side and 2 U = u
//!   a group of g values, j of them new:  ways[k + j][u + 2 j (old ones below) + j (g - j)] += C(g, j) ways[k][u]
//! ```
//! Counts up to 2^53 are exact, larger ones to 16 digits.

use std::collections::BTreeMap;

use crate::{
    BLOCKS_MIN, CONFIDENCE, CONFIDENCE_EQUIVALENCE, EXACT_BLOCKS_MAX, Interval, Test, critical_value,
    critical_value_normal, float, median_of_sorted, p_normal, sorted, standard_error,
};

/// The two-sided p-value of "both sides come from one distribution": twice the smaller tail. 1 if a side is empty.
#[must_use]
pub fn mann_whitney_p(old: &[f64], new: &[f64]) -> f64 {
    Tables::default().p(old, new)
}

/// What depends on the numbers of blocks only.
#[derive(Debug, Clone)]
struct Table {
    /// P(U = u) without ties.
    p: Vec<f64>,
    /// Critical values: for [`CONFIDENCE`], for [`CONFIDENCE_EQUIVALENCE`], and the widest.
    critical: [Option<(usize, f64)>; 3],
}

/// Tables by the numbers of blocks.
#[derive(Debug, Default)]
pub(crate) struct Tables(BTreeMap<[usize; 2], Table>);

impl Tables {
    fn get(&mut self, n: [usize; 2]) -> &Table {
        self.0.entry(n).or_insert_with(|| {
            if exact(n) {
                let doubled = doubled_u_distribution(n, &vec![1; n[0] + n[1]]);
                let p: Vec<f64> = doubled.into_iter().step_by(2).collect();
                let enough = |confidence| critical_value(&p, confidence).filter(|_| n[0].min(n[1]) >= BLOCKS_MIN);
                let widest = critical_value(&p[..1], 0.0);
                Table { critical: [enough(CONFIDENCE), enough(CONFIDENCE_EQUIVALENCE), widest], p }
            } else {
                let (mean, deviation) = normal(n, &[]);
                let of = |confidence| critical_value_normal(mean, deviation, confidence);
                Table { critical: [of(CONFIDENCE), of(CONFIDENCE_EQUIVALENCE), of(CONFIDENCE)], p: Vec::new() }
            }
        })
    }

    fn p(&mut self, old: &[f64], new: &[f64]) -> f64 {
        let n = [old.len(), new.len()];
        if n.contains(&0) {
            return 1.0;
        }
        let (groups, doubled_u) = groups(old, new);
        let tied = groups.iter().any(|g| *g > 1);
        if !exact(n) {
            let (mean, deviation) = normal(n, &groups);
            return p_normal(float(doubled_u) / 2.0, mean, deviation, 1.0);
        }
        if tied { tails(&doubled_u_distribution(n, &groups), doubled_u) } else { tails(&self.get(n).p, doubled_u / 2) }
    }
}

pub(crate) fn test(tables: &mut Tables, old: &[f64], new: &[f64]) -> Option<Test> {
    let shifts = sorted(new.iter().flat_map(|y| old.iter().map(move |x| y - x)).collect());
    let centre = median_of_sorted(&shifts)?;
    let interval = |(k, confidence): (usize, f64)| {
        let (low, high) = (shifts[k], shifts[shifts.len() - 1 - k]);
        Interval { low, high, confidence }
    };
    let blocks = [old.len(), new.len()];
    let [wide, narrow, widest] = tables.get(blocks).critical.map(|found| found.map(interval));
    let p = tables.p(old, new);
    Some(Test {
        centre,
        interval: wide,
        narrow,
        p,
        standard_error: wide.or(widest).map(standard_error),
        blocks,
        paired: false,
    })
}

fn exact(n: [usize; 2]) -> bool {
    n[0].max(n[1]) <= EXACT_BLOCKS_MAX
}

/// Sizes of the groups of equal values, ascending by value, and 2 U.
fn groups(old: &[f64], new: &[f64]) -> (Vec<usize>, usize) {
    let mut all: Vec<(f64, bool)> = old.iter().map(|x| (*x, false)).chain(new.iter().map(|y| (*y, true))).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sizes, mut doubled_u, mut old_below) = (Vec::new(), 0, 0);
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let new_here = group.iter().filter(|(_, is_new)| *is_new).count();
        let old_here = group.len() - new_here;
        doubled_u += new_here * (2 * old_below + old_here);
        old_below += old_here;
        sizes.push(group.len());
    }
    (sizes, doubled_u)
}

/// P(2 U = u) for u from 0 to 2 n1 n2, given the sizes of the groups of equal values.
fn doubled_u_distribution([old, new]: [usize; 2], groups: &[usize]) -> Vec<f64> {
    let length = 2 * old * new + 1;
    let mut ways = vec![Vec::new(); new + 1];
    ways[0] = vec![1.0];
    let mut seen = 0;
    for size in groups {
        let mut next = vec![Vec::new(); new + 1];
        for (k, row) in ways.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let old_below = seen - k;
            for j in (0..=*size.min(&(new - k))).filter(|j| old_below + size - j <= old) {
                let (shift, choices) = (2 * j * old_below + j * (size - j), binomial(*size, j));
                let into: &mut Vec<f64> = &mut next[k + j];
                if into.len() < row.len() + shift {
                    into.resize(row.len() + shift, 0.0);
                }
                for (u, count) in row.iter().enumerate() {
                    into[u + shift] += choices * count;
                }
            }
        }
        ways = next;
        seen += size;
    }
    let mut counts = ways.swap_remove(new);
    counts.resize(length, 0.0);
    let all: f64 = counts.iter().sum();
    counts.into_iter().map(|count| count / all).collect()
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |product, i| (product * float(n - i) / float(i + 1)).round())
}

/// Twice the smaller of both tails at `at`, each with `at` itself.
fn tails(p: &[f64], at: usize) -> f64 {
    let (low, high): (f64, f64) = (p[..=at].iter().sum(), p[at..].iter().sum());
    (2.0 * low.min(high)).min(1.0)
}

/// Mean and standard deviation of U, given the sizes of the groups of equal values.
fn normal([old, new]: [usize; 2], groups: &[usize]) -> (f64, f64) {
    let (pairs, all) = (float(old) * float(new), float(old + new));
    let ties: f64 = groups.iter().map(|g| float(*g).powi(3) - float(*g)).sum();
    (pairs / 2.0, (pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)))).sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two-sided p-value by going through all choices of the new side.
    fn p_by_enumeration(old: &[f64], new: &[f64]) -> f64 {
        let all: Vec<f64> = old.iter().chain(new).copied().collect();
        let doubled_u = |is_new: &dyn Fn(usize) -> bool| -> usize {
            let pairs = (0..all.len()).flat_map(|i| (0..all.len()).map(move |j| (i, j)));
            pairs
                .filter(|(i, j)| is_new(*i) && !is_new(*j))
                .map(|(i, j)| if all[i] > all[j] { 2 } else { usize::from(all[i] == all[j]) })
                .sum()
        };
        let found = doubled_u(&|i| i >= old.len());
        let (mut low, mut high, mut count) = (0, 0, 0);
        for choice in (0u32..1 << all.len()).filter(|c| c.count_ones() as usize == new.len()) {
            let u = doubled_u(&|i| choice >> i & 1 == 1);
            (low, high, count) = (low + usize::from(u <= found), high + usize::from(u >= found), count + 1);
        }
        (2.0 * float(low.min(high)) / float(count)).min(1.0)
    }

    fn test_of(old: &[f64], new: &[f64]) -> Test {
        test(&mut Tables::default(), old, new).unwrap()
    }

    /// A permutation of 0..n that mixes both sides.
    fn mixed(n: usize, factor: usize) -> impl Iterator<Item = f64> {
        (0..n).map(move |i| float(i * factor % 17))
    }

    #[test]
    fn p_is_that_of_all_choices_for_every_size_up_to_8() {
        for n1 in 1..=8 {
            for n2 in 1..=8 {
                // 17 is prime: the first 17 multiples are all different. Divided and rounded, they tie.
                for (factor, ties) in [(5, 1.0), (7, 4.0), (3, 9.0)] {
                    let values: Vec<f64> = mixed(n1 + n2, factor).map(|v| (v / ties).floor()).collect();
                    let (old, new) = values.split_at(n1);
                    let (ours, truth) = (mann_whitney_p(old, new), p_by_enumeration(old, new));
                    assert!((ours - truth).abs() < 1e-12, "{old:?} {new:?}: {ours} {truth}");
                }
            }
        }
    }

    #[test]
    fn separated_sides_have_the_smallest_p_whichever_is_larger() {
        // The case that a library's shortcut has got wrong: 2 / C(16, 8).
        let (low, high): (Vec<f64>, Vec<f64>) = ((0..8).map(float).collect(), (8..16).map(float).collect());
        for p in [mann_whitney_p(&low, &high), mann_whitney_p(&high, &low)] {
            assert!((p - 2.0 / 12870.0).abs() < 1e-15, "{p}");
        }
        assert_eq!(mann_whitney_p(&[1.0; 8], &[1.0; 8]), 1.0);
        assert_eq!(mann_whitney_p(&[], &[1.0]), 1.0);
    }

    #[test]
    fn critical_values_are_the_published_ones() {
        // Two-sided 0.05, n1 = n2: Mann and Whitney's table as in Siegel and Castellan.
        for (n, k) in [(6, 5), (7, 8), (8, 13), (9, 17), (10, 23), (12, 37), (15, 64), (20, 127)] {
            assert_eq!(Tables::default().get([n, n]).critical[0].map(|(k, _)| k), Some(k), "n = {n}");
        }
        assert_eq!(Tables::default().get([5, 40]).critical[0], None, "five blocks give no interval");
    }

    #[test]
    fn many_blocks_are_close_to_the_normal_distribution() {
        let old: Vec<f64> = (0..100).map(|i| float(i * 37 % 101)).collect();
        let new: Vec<f64> = (0..100).map(|i| float(i * 41 % 101) + 9.5).collect();
        let (groups, doubled_u) = groups(&old, &new);
        let (mean, deviation) = normal([100, 100], &groups);
        let (exact, near) = (mann_whitney_p(&old, &new), p_normal(float(doubled_u) / 2.0, mean, deviation, 1.0));
        assert!((exact - near).abs() < 1e-3 && exact < 0.2, "{exact} {near}");
        let exact = Tables::default().get([100, 100]).critical[0].unwrap();
        let near = critical_value_normal(mean, deviation, CONFIDENCE).unwrap();
        assert!(exact.0.abs_diff(near.0) <= 3, "{exact:?} {near:?}");
    }

    proptest! {
        /// Without ties the interval is exactly the set of shifts that the enumerated test does not refuse.
        #[test]
        fn the_interval_inverts_the_enumerated_test(
            old in prop::collection::vec(-1.0f64..1.0, 6..=7),
            new in prop::collection::vec(-1.0f64..1.0, 6..=7),
        ) {
            let interval = test_of(&old, &new).interval.unwrap();
            let shifts = sorted(new.iter().flat_map(|y| old.iter().map(move |x| y - x)).collect());
            // Every seventh gap, and both outsides: all of them take too long.
            let gaps = shifts.windows(2).step_by(7).filter(|w| w[1] - w[0] > 1e-9).map(|w| f64::midpoint(w[0], w[1]));
            for shift in gaps.chain([shifts[0] - 1.0, shifts[shifts.len() - 1] + 1.0]) {
                let moved: Vec<f64> = new.iter().map(|y| y - shift).collect();
                let kept = p_by_enumeration(&old, &moved) > 1.0 - CONFIDENCE + 1e-12;
                prop_assert_eq!(kept, interval.low < shift && shift < interval.high, "shift {}", shift);
            }
        }

        #[test]
        fn the_estimate_moves_and_flips_with_the_data(
            old in prop::collection::vec(-1.0f64..1.0, 6..20),
            new in prop::collection::vec(-1.0f64..1.0, 6..20),
        ) {
            let (here, there) = (test_of(&old, &new), test_of(&new, &old));
            prop_assert!((here.centre + there.centre).abs() < 1e-9 && (here.p - there.p).abs() < 1e-9);
            let (a, b) = (here.interval.unwrap(), there.interval.unwrap());
            prop_assert!((a.low + b.high).abs() < 1e-9 && a.low <= here.centre && here.centre <= a.high);
        }
    }
}
