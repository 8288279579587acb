//! The empirical distribution function of a latency: which share of the waits took at most so long. What a percentile
//! curve hides, two heaps of waits (some answered at once, some after a time slice), is a flat stretch here.

use super::super::histograms::Latency;
use super::super::svg::{Anchor, Svg};
use super::{Frame, Scale, TimeAxis, WIDTH, count, float, series, short, thinned};

const HEIGHT: f64 = 300.0;
const FRAME: Frame = Frame { left: 50.0, right: WIDTH - 28.0, top: 12.0, bottom: HEIGHT - 46.0 };

/// Curves of one kind of latency, one a mode; `None` if there is nothing to draw.
pub(in super::super) fn draw(id: &str, title: &str, modes: &[(usize, &str, &Latency)]) -> Option<String> {
    // One wait in a thousand that was over at once must not take half of the axis: it is put on the edge.
    let least = modes.iter().map(|(_, _, l)| l.at(0.001)).min()?;
    let axis = TimeAxis::new(least, modes.iter().map(|(_, _, l)| l.max_ns()).max()?);
    let x = Scale::new(axis.ends, [FRAME.left, FRAME.right]);
    let y = Scale::new([0.0, 1.0], [FRAME.bottom, FRAME.top]);
    let desc = "Share of waits that took at most the time on the logarithmic axis below; one curve a mode. The table below \
                has the figures.";
    let mut svg = Svg::new(id, [WIDTH, HEIGHT], title, desc);
    for (ns, name) in &axis.ticks {
        FRAME.across(&mut svg, x.at(ns.log10()), name);
    }
    for percent in [0, 25, 50, 75, 100] {
        FRAME.along(&mut svg, y.at(f64::from(percent) / 100.0), &format!("{percent} %"));
    }
    FRAME.name_x(&mut svg, "time, logarithmic");
    for (index, _, latency) in modes {
        let mut points = vec![[x.at(float(latency.min_ns().max(1)).log10()), FRAME.bottom]];
        points.extend(latency.steps().flat_map(|step| {
            let right = x.at(float(step.ns.max(1)).log10());
            [[right, y.at(step.below)], [right, y.at(step.upto)]]
        }));
        let end = points.last().map_or(FRAME.top, |point| point[1]);
        points.push([FRAME.right, end]);
        svg.polyline(&format!("curve {}", series(*index)), &thinned(points));
    }
    // Each name stands beside its curve, all at heights of their own.
    for (nth, (index, name, latency)) in modes.iter().enumerate() {
        let level = 0.9 - 0.8 * (count(nth) + 0.5) / count(modes.len());
        let right = x.at(float(latency.at(level).max(1)).log10());
        let (to_left, text) = (right > WIDTH * 0.7, short(name, 12));
        let (place, anchor) = if to_left { (right - 8.0, Anchor::End) } else { (right + 8.0, Anchor::Start) };
        let class = series(*index);
        svg.circle(&format!("dot {class}"), [right, y.at(level)], 3.0);
        svg.text(&format!("name halo {class}"), [place, y.at(level) + 4.0], anchor, &text);
    }
    Some(svg.finish())
}
