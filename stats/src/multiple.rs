//! Many metrics, one page: corrected p-values.
//!
//! Twenty metrics of two equal systems show one p below 0.05 on average. *Holm* (1979) keeps the chance of even one false
//! alarm among all below alpha: for the metrics that decide. *Benjamini and Hochberg* (1995) keep the share of false
//! alarms among the alarms below alpha: for the metrics that explain, where one miss in twenty does no harm.

/// Holm's corrected p-values, in the order of `p`.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut corrected = vec![0.0; p.len()];
    let mut most: f64 = 0.0;
    for (rank, i) in ascending(p).into_iter().enumerate() {
        most = most.max(crate::float(p.len() - rank) * p[i]).min(1.0);
        corrected[i] = most;
    }
    corrected
}

/// Benjamini and Hochberg's corrected p-values, in the order of `p`.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut corrected = vec![0.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, i) in ascending(p).into_iter().enumerate().rev() {
        least = least.min(p[i] * crate::float(p.len()) / crate::float(rank + 1));
        corrected[i] = least;
    }
    corrected
}

/// Indices in the order of their values.
fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], want: &[f64]) {
        assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12) && found.len() == want.len(), "{found:?}");
    }

    #[test]
    fn corrections_are_those_of_the_definitions_by_hand() {
        let p = [0.01, 0.04, 0.03, 0.005];
        near(&holm(&p), &[0.03, 0.06, 0.06, 0.02]);
        near(&benjamini_hochberg(&p), &[0.02, 0.04, 0.04, 0.02]);
        near(&holm(&[0.6, 0.9]), &[1.0, 1.0]);
        near(&benjamini_hochberg(&[0.6, 0.9]), &[0.9, 0.9]);
    }

    #[test]
    fn one_metric_is_not_corrected_and_none_is_no_error() {
        near(&holm(&[0.04]), &[0.04]);
        near(&benjamini_hochberg(&[0.04]), &[0.04]);
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    }
}
