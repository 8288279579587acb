//! p-values that other programs have computed: scipy 1.17.1, `wilcoxon` and `mannwhitneyu` with method "exact",
//! `permutation_test` over all resamples where there are ties, `false_discovery_control`.

use stats::{benjamini_hochberg, mann_whitney_p, signed_rank_p};

fn near(found: f64, want: f64) {
    assert!((found - want).abs() < 1e-12 * want.max(1e-3), "{found} instead of {want}");
}

fn floats(values: impl IntoIterator<Item = i32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

#[test]
fn signed_ranks() {
    near(signed_rank_p(&[0.95, -0.147, 1.02, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01]), 0.0390625);
    near(signed_rank_p(&floats([3, -1, 1, 4, 4, -2, 5, 2, 7, 0])), 0.04296875);
    let fifty: Vec<f64> = (0..50).map(|i| f64::from(i * 37 % 101 - 40) + 0.25).collect();
    near(signed_rank_p(&fifty), 0.029727315082014982);
}

#[test]
fn rank_sums() {
    let old = [1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7];
    near(mann_whitney_p(&old, &[2.5, 3.5, 4.6, 6.7, 8.8, 9.9, 10.1, 11.2]), 0.09386169386169387);
    let old = floats([12, 15, 11, 18, 14, 15, 13, 19, 10, 16]);
    near(mann_whitney_p(&old, &floats([17, 21, 15, 22, 19, 18, 25, 15, 20, 23])), 0.002608846262097036);
    let (old, new): (Vec<f64>, Vec<f64>) = (0..50).map(|i| (f64::from(i), f64::from(i) + 7.5)).unzip();
    near(mann_whitney_p(&old, &new), 0.016450137297189936);
}

#[test]
fn false_discoveries() {
    // The p-values of Benjamini and Hochberg 1995, table 1.
    let p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590,
        1.0,
    ];
    let want = [0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.06385714285714286, 0.06385714285714286, 0.0645, 0.0765];
    for (found, want) in benjamini_hochberg(&p).into_iter().zip(want) {
        near(found, want);
    }
}
