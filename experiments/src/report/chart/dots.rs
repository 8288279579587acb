//! Published and ours: two dots a row, joined by a line that is the difference. A hollow dot is what was published, a
//! filled one what we found.

use super::super::svg::{Anchor, Svg};
use super::{LINE, Scale, WIDTH, count, short};
use crate::table::figure;

const LEFT: f64 = 14.0;
const RIGHT: f64 = WIDTH - 14.0;
const ROW: f64 = 40.0;
const TOP: f64 = 8.0;

/// One row; at least one of the two is there.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Pair {
    pub(in super::super) label: String,
    pub(in super::super) text: String,
    pub(in super::super) published: Option<f64>,
    pub(in super::super) ours: Option<f64>,
}

/// The plot; `None` without a value. Positive values that span more than a factor of 20 get a logarithmic axis, others a plain
/// one with zero on it.
pub(in super::super) fn draw(id: &str, title: &str, pairs: &[Pair]) -> Option<String> {
    let values: Vec<f64> =
        pairs.iter().flat_map(|p| [p.published, p.ours]).flatten().filter(|value| value.is_finite()).collect();
    let (low, high) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    let logarithmic = low > 0.0 && high / low > 20.0;
    let on_axis = |value: f64| if logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
    let ends = if logarithmic { [low.log10().floor(), high.log10().ceil()] } else { [low.min(0.0), high.max(0.0)] };
    let room = ((ends[1] - ends[0]) * 0.02).max(1e-9);
    let x = Scale::new([ends[0] - room, ends[1] + room], [LEFT, RIGHT]);
    let bottom = TOP + ROW * count(pairs.len());
    let desc = "Each row: the published value (hollow) and ours (filled). The table below has the figures.";
    let mut svg = Svg::new(id, [WIDTH, bottom + 2.6 * LINE], title, desc);
    // The lines stop short of the words above each row.
    for value in ticks(logarithmic, ends) {
        let at = x.at(on_axis(value));
        let class = if value == 0.0 { "zero" } else { "grid" };
        for row in 0..pairs.len() {
            let top = TOP + ROW * count(row);
            svg.line(class, [at, top + 18.0], [at, top + ROW]);
        }
        svg.text("tick", [at, bottom + LINE], Anchor::Middle, &name(value));
    }
    for (row, pair) in pairs.iter().enumerate() {
        let top = TOP + ROW * count(row);
        let middle = top + 27.0;
        svg.text("name halo", [LEFT, top + 14.0], Anchor::Start, &short(&pair.label, 34));
        svg.text("value halo", [RIGHT, top + 14.0], Anchor::End, &pair.text);
        if let (Some(a), Some(b)) = (pair.published, pair.ours) {
            svg.line("whisker s1", [x.at(on_axis(a)), middle], [x.at(on_axis(b)), middle]);
        }
        if let Some(value) = pair.ours {
            svg.circle("fill s1", [x.at(on_axis(value)), middle], 5.5);
        }
        if let Some(value) = pair.published {
            svg.circle("hollow s0", [x.at(on_axis(value)), middle], 5.5);
        }
    }
    let axis =
        if logarithmic { "hollow: published, filled: ours; logarithmic" } else { "hollow: published, filled: ours" };
    svg.text("axis-name", [(LEFT + RIGHT) / 2.0, bottom + 2.2 * LINE], Anchor::Middle, axis);
    Some(svg.finish())
}

/// `10,000`, `0.5`.
fn name(value: f64) -> String {
    if value.fract() == 0.0 { figure::grouped(&format!("{value:.0}")) } else { value.to_string() }
}

/// Powers of ten, or about five round values.
fn ticks(logarithmic: bool, [low, high]: [f64; 2]) -> Vec<f64> {
    if logarithmic {
        let powers = (-12..=18_i32).filter(|power| (low..=high).contains(&f64::from(*power)));
        let powers: Vec<i32> = powers.collect();
        let every = powers.len().div_ceil(7).max(1);
        return powers.into_iter().step_by(every).map(|power| 10_f64.powi(power)).collect();
    }
    let steps = (-6..=15).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    let Some(step) = steps.into_iter().find(|step| (high - low) / step <= 6.0) else { return vec![0.0] };
    let round = |value: f64| (value * 1e6).round() / 1e6 + 0.0;
    (-6..=6).map(|n| round(f64::from(n) * step)).filter(|value| (low..=high).contains(value)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(false, [-2.0, 366.0]), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(ticks(false, [0.0, 0.0]), [0.0]);
        assert_eq!(ticks(true, [2.0, 5.0]), [100.0, 1000.0, 10_000.0, 100_000.0]);
    }

    proptest! {
        #[test]
        fn any_values_are_drawn(a in any::<f64>(), b in prop::option::of(-1e9..1e9_f64)) {
            let pair = Pair { label: "8 VMs".into(), text: "1".into(), published: Some(a), ours: b };
            if let Some(drawn) = draw("c", "t", &[pair]) {
                prop_assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
            }
        }
    }
}
