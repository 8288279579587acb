//! A forest plot: each row an effect with its interval, the line of no change, and the band in which a change is too small
//! to matter.
//!
//! Changes of positive quantities are ratios: half as fast and twice as fast are equally far from no change, so the
//! axis is logarithmic and its ticks are percentages. Changes of shares are differences in points on a plain axis.

use super::super::svg::{Anchor, Svg};
use super::{LINE, Scale, WIDTH, count, series, short};
use crate::table::figure;

const LEFT: f64 = 14.0;
const RIGHT: f64 = WIDTH - 14.0;
const ROW: f64 = 46.0;
const TOP: f64 = 8.0;
/// Half of what a letter of a tick takes at most.
const HALF_LETTER: f64 = 3.5;

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Effect {
    /// What changed: metric, mode.
    pub(in super::super) label: String,
    /// Place of the mode in the list: its colour.
    pub(in super::super) series: usize,
    /// Log ratio, or points.
    pub(in super::super) centre: f64,
    /// Both ends of its interval.
    pub(in super::super) interval: Option<[f64; 2]>,
    /// A change of at most this is too small to matter; 0 for none.
    pub(in super::super) margin: f64,
    /// The figures in words, with the verdict.
    pub(in super::super) text: String,
}

/// What the numbers of an [`Effect`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Kind {
    /// Natural logarithms of ratios.
    Ratio,
    /// Differences in percentage points.
    Points,
}

/// The plot; `None` without rows.
pub(in super::super) fn draw(id: &str, title: &str, kind: Kind, effects: &[Effect]) -> Option<String> {
    let finite = |value: &f64| value.is_finite();
    let values = || {
        let ends = effects.iter().flat_map(|e| e.interval.into_iter().flatten().chain([e.centre, e.margin, -e.margin]));
        ends.filter(finite)
    };
    effects.first()?;
    let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    // A little room on both sides, and never an axis of nothing.
    let room = ((high - low) * 0.06).max(0.01);
    let x = Scale::new([low - room, high + room], [LEFT, RIGHT]);
    let bottom = TOP + ROW * count(effects.len());
    let height = bottom + 2.6 * LINE;
    let desc = "Each row: the change (square), its interval (line), no change (vertical line) and the band of changes that are \
                too small to matter (shaded). The table has the same figures.";
    let mut svg = Svg::new(id, [WIDTH, height], title, desc);
    let ticks = ticks(kind, x);
    for (value, name) in &ticks {
        let value = *value;
        // A name at an end of the axis stays inside the picture.
        let half = HALF_LETTER * count(name.chars().count());
        svg.text("tick", [x.at(value).clamp(half, WIDTH - half), bottom + LINE], Anchor::Middle, name);
    }
    // The lines stop short of the words above each row.
    for (row, effect) in effects.iter().enumerate() {
        let [top, end] = [20.0, ROW].map(|below| TOP + ROW * count(row) + below);
        if effect.margin > 0.0 {
            let (from, to) = (x.at(-effect.margin), x.at(effect.margin));
            svg.rect("margin", [from, top + 1.0], [to - from, end - top - 2.0]);
        }
        for (value, _) in &ticks {
            let class = if *value == 0.0 { "zero" } else { "grid" };
            svg.line(class, [x.at(*value), top], [x.at(*value), end]);
        }
    }
    for (row, effect) in effects.iter().enumerate() {
        let (top, class) = (TOP + ROW * count(row), series(effect.series));
        let middle = top + 32.0;
        svg.text(&format!("name halo {class}"), [LEFT, top + 14.0], Anchor::Start, &short(&effect.label, 30));
        svg.text("value halo", [RIGHT, top + 14.0], Anchor::End, &effect.text);
        if let Some([from, to]) = effect.interval {
            svg.line(&format!("whisker {class}"), [x.at(from), middle], [x.at(to), middle]);
            for end in [from, to] {
                svg.line(&format!("whisker {class}"), [x.at(end), middle - 5.0], [x.at(end), middle + 5.0]);
            }
        }
        let shape = if effect.interval.is_some() { "fill" } else { "hollow" };
        svg.rect(&format!("{shape} {class}"), [x.at(effect.centre) - 4.5, middle - 4.5], [9.0, 9.0]);
    }
    let name = match kind {
        Kind::Ratio => "change, logarithmic",
        Kind::Points => "change in percentage points",
    };
    svg.text("axis-name", [(LEFT + RIGHT) / 2.0, bottom + 2.2 * LINE], Anchor::Middle, name);
    Some(svg.finish())
}

/// A handful of round values inside the scale; no change is one of them.
fn ticks(kind: Kind, x: Scale) -> Vec<(f64, String)> {
    let [low, high] = x.values;
    let nice: Vec<(f64, String)> = match kind {
        Kind::Ratio => {
            let steps: &[f64] = match high - low {
                wide if wide > 14.0 => &[0.0001, 0.01, 1.0, 100.0, 10_000.0],
                wide if wide > 6.0 => &[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0],
                wide if wide > 2.5 => &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
                wide if wide > 1.2 => &[0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0],
                wide if wide > 0.5 => &[0.5, 0.7, 1.0, 1.5, 2.0, 3.0],
                wide if wide > 0.2 => &[0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4],
                wide if wide > 0.08 => &[0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15],
                _ => &[0.96, 0.98, 0.99, 1.0, 1.01, 1.02, 1.04],
            };
            steps.iter().map(|ratio| (ratio.ln(), signed((ratio - 1.0) * 100.0, "%"))).collect()
        }
        Kind::Points => {
            let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0].into_iter().find(|s| (high - low) / s <= 6.0);
            let step = step.unwrap_or(100.0);
            (-6..=6).map(|n| f64::from(n) * step).map(|points| (points, signed(points, "pt"))).collect()
        }
    };
    nice.into_iter().filter(|(value, _)| (low..=high).contains(value)).collect()
}

/// `+100 %`, `-99.99 %`, `+5 pt`, `0`.
fn signed(value: f64, unit: &str) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    match rounded {
        0.0 => "0".into(),
        whole if whole.fract() == 0.0 => format!("{} {unit}", figure::grouped(&format!("{whole:+.0}"))),
        _ => format!("{rounded:+} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn effect(centre: f64, half: f64) -> Effect {
        Effect {
            label: "gang".into(),
            series: 1,
            centre,
            interval: Some([centre - half, centre + half]),
            margin: 0.02,
            text: "+1 %".into(),
        }
    }

    #[test]
    fn ticks_are_percentages_and_no_change_is_among_them() {
        let names = |low, high, kind| {
            let scale = Scale::new([low, high], [0.0, 100.0]);
            ticks(kind, scale).into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(-0.1, 1.5, Kind::Ratio), ["0", "+100 %", "+300 %"]);
        assert_eq!(names(-9.3, 9.3, Kind::Ratio), ["-99.99 %", "-99 %", "0", "+9,900 %", "+999,900 %"]);
        assert_eq!(names(-3.0, 12.0, Kind::Points), ["0", "+5 pt", "+10 pt"]);
    }

    proptest! {
        #[test]
        fn any_effect_is_drawn_with_its_zero(centre in -20.0..20.0_f64, half in 0.0..5.0_f64) {
            for kind in [Kind::Ratio, Kind::Points] {
                let drawn = draw("c", "t", kind, &[effect(centre, half)]).unwrap();
                prop_assert!(drawn.contains("class=\"zero\"") && !drawn.contains("NaN"));
            }
        }
    }
}
