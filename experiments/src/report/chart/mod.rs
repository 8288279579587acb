//! The charts of the page, one file a kind; what they share: sizes, axes, labels that do not cover each other.
//!
//! Every chart is drawn at about the width of a phone and never enlarged by more than a tenth: on a wide page two or
//! three stand side by side. Colours say nothing alone: each series also has its own dash, and its name beside it.

pub(super) mod dots;
pub(super) mod ecdf;
pub(super) mod forest;
pub(super) mod percentiles;
pub(super) mod profile;
pub(super) mod timeline;

use super::svg::{Anchor, Svg};
use crate::table::figure;

/// Width of a chart.
const WIDTH: f64 = 460.0;
/// Height of a line of text.
const LINE: f64 = 16.0;
/// Colours and dashes before they repeat.
const SERIES: usize = 8;

/// The class of series `index`.
fn series(index: usize) -> String {
    format!("s{}", index % SERIES)
}

/// A name that fits `columns` characters.
fn short(name: &str, columns: usize) -> String {
    if name.chars().count() <= columns {
        return name.to_owned();
    }
    name.chars().take(columns.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// From values to places on the page.
#[derive(Debug, Clone, Copy)]
struct Scale {
    values: [f64; 2],
    pixels: [f64; 2],
}

impl Scale {
    fn new(values: [f64; 2], pixels: [f64; 2]) -> Self {
        Self { values, pixels }
    }

    /// Values outside are put on the edge.
    fn at(&self, value: f64) -> f64 {
        let ([v0, v1], [p0, p1]) = (self.values, self.pixels);
        let share = if v1 > v0 { ((value - v0) / (v1 - v0)).clamp(0.0, 1.0) } else { 0.5 };
        p0 + share * (p1 - p0)
    }
}

/// The longest time of an axis: some thirty years.
const NS_MAX: u64 = 1_000_000_000_000_000_000;

/// A logarithmic axis of times from 1 ns.
#[derive(Debug)]
struct TimeAxis {
    /// log10 of both ends.
    ends: [f64; 2],
    /// Ticks in ns, with their names.
    ticks: Vec<(f64, String)>,
}

impl TimeAxis {
    /// Covers `from_ns..=to_ns`; ends and ticks are 1, 2 or 5 times a power of ten.
    fn new(from_ns: u64, to_ns: u64) -> Self {
        let [from, to] = [from_ns, to_ns.max(from_ns)].map(|ns| ns.clamp(1, NS_MAX));
        let steps: Vec<u64> =
            (0..19).flat_map(|power| [1, 2, 5].map(|digit: u64| digit.saturating_mul(10_u64.pow(power)))).collect();
        let low = steps.iter().copied().rfind(|step| *step <= from).unwrap_or(1);
        let high = steps.iter().copied().find(|step| *step >= to && *step > low).unwrap_or(u64::MAX);
        let inside = steps.into_iter().filter(|step| (low..=high).contains(step));
        let decades: Vec<u64> = inside
            .clone()
            .filter(|step| step.ilog10() != step.saturating_sub(1).max(1).ilog10() || *step == 1)
            .collect();
        let ticks = if decades.len() > 2 { decades } else { inside.collect() };
        let ticks = ticks.into_iter().map(|ns| (float(ns), figure::setting(ns))).collect();
        Self { ends: [float(low).log10(), float(high).log10()], ticks }
    }
}

/// Exact up to 2^53, far above what a chart shows.
#[expect(clippy::cast_precision_loss, reason = "a pixel is coarser than 2^-53")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// A count as a float.
fn count(value: usize) -> f64 {
    float(value as u64)
}

/// Moves labels so that none covers another: at least a line apart, inside `from..=to`, in the order of their wishes.
fn spread(wishes: &[f64], [from, to]: [f64; 2]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    let mut places = wishes.to_vec();
    let mut least = from;
    for index in &order {
        places[*index] = places[*index].max(least);
        least = places[*index] + LINE;
    }
    let mut most = to;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(most);
        most = places[*index] - LINE;
    }
    places
}

/// The frame that latency charts share: grid, ticks, names of the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn across(&self, svg: &mut Svg, x: f64, name: &str) {
        svg.line("grid", [x, self.top], [x, self.bottom]);
        svg.text("tick", [x, self.bottom + LINE], Anchor::Middle, name);
    }

    fn along(&self, svg: &mut Svg, y: f64, name: &str) {
        svg.line("grid", [self.left, y], [self.right, y]);
        svg.text("tick", [self.left - 6.0, y + 4.0], Anchor::End, name);
    }

    fn name_x(&self, svg: &mut Svg, name: &str) {
        svg.text("axis-name", [(self.left + self.right) / 2.0, self.bottom + 2.3 * LINE], Anchor::Middle, name);
    }
}

/// Leaves out points that are closer than half a pixel to the one before; the last one stays.
fn thinned(points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let mut kept: Vec<[f64; 2]> = Vec::new();
    let last = points.last().copied();
    for [x, y] in points {
        if kept.last().is_none_or(|[px, py]| (x - px).abs() >= 0.5 || (y - py).abs() >= 0.5) {
            kept.push([x, y]);
        }
    }
    kept.extend(last.filter(|last| kept.last() != Some(last)));
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_axis_of_times_ends_on_round_ones() {
        let names = |from, to| TimeAxis::new(from, to).ticks.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(900, 48_000_000), ["1 us", "10 us", "100 us", "1 ms", "10 ms"]);
        assert_eq!(names(30, 80), ["20 ns", "50 ns", "100 ns"]);
        assert_eq!(names(0, 0), ["1 ns", "2 ns"]);
    }

    #[test]
    fn labels_are_a_line_apart_and_inside() {
        assert_eq!(spread(&[10.0, 10.0, 90.0], [0.0, 100.0]), [10.0, 26.0, 90.0]);
        assert_eq!(spread(&[99.0, 100.0], [0.0, 100.0]), [84.0, 100.0]);
    }

    proptest! {
        #[test]
        fn any_span_of_time_has_an_axis_with_few_ticks(a in any::<u64>(), b in any::<u64>()) {
            let axis = TimeAxis::new(a.min(b), a.max(b));
            prop_assert!((2..=20).contains(&axis.ticks.len()), "{:?}", axis);
            prop_assert!(axis.ends[0] < axis.ends[1]);
        }

        #[test]
        fn thinning_keeps_both_ends(points in prop::collection::vec([0.0..9.0, 0.0..9.0], 1..50)) {
            let kept = thinned(points.clone());
            prop_assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        }
    }
}
