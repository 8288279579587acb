//! Latency by percentile, as HdrHistogram plots it: the axis of percentiles is logarithmic towards 100 %, so that the
//! rare long waits, which decide how fast a machine with many waiters is, get as much room as the common short ones.
//!
//! A percentile p stands at -log10(1 - p): 0, 90 %, 99 %, 99.9 % are equally far apart. A curve ends where its data end:
//! of n values, at the one that n - 1 others are not above.

use super::super::histograms::Latency;
use super::super::svg::{Anchor, Svg};
use super::{Frame, LINE, Scale, TimeAxis, WIDTH, float, series, short, spread, thinned};

const HEIGHT: f64 = 300.0;
const FRAME: Frame = Frame { left: 62.0, right: 368.0, top: 12.0, bottom: HEIGHT - 46.0 };

/// Curves of one kind of latency, one a mode; `None` if there is nothing to draw.
pub(in super::super) fn draw(id: &str, title: &str, modes: &[(usize, &str, &Latency)]) -> Option<String> {
    // One wait in a thousand that was over at once must not take half of the axis: it is put on the edge.
    let least = modes.iter().map(|(_, _, l)| l.at(0.001)).min()?;
    let axis = TimeAxis::new(least, modes.iter().map(|(_, _, l)| l.max_ns()).max()?);
    let nines = modes.iter().map(|(_, _, l)| float(l.count()).log10()).fold(1.0, f64::max);
    let x = Scale::new([0.0, nines], [FRAME.left, FRAME.right]);
    let y = Scale::new(axis.ends, [FRAME.bottom, FRAME.top]);
    let desc = "Latency on a logarithmic axis over the percentile on an axis that is logarithmic towards 100 %; one curve a \
                mode. The table below has the figures.";
    let mut svg = Svg::new(id, [WIDTH, HEIGHT], title, desc);
    for (ns, name) in &axis.ticks {
        FRAME.along(&mut svg, y.at(ns.log10()), name);
    }
    for (at, name) in [(0.0, "0"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99"), (5.0, "99.999")] {
        if at <= nines {
            FRAME.across(&mut svg, x.at(at), name);
        }
    }
    FRAME.name_x(&mut svg, "share of waits that took no longer");
    let mut ends = Vec::new();
    for (index, _, latency) in modes {
        let most = float(latency.count()).log10();
        let place = |quantile: f64| x.at(if quantile < 1.0 { (-(1.0 - quantile).log10()).min(most) } else { most });
        let points = latency.steps().flat_map(|step| {
            let height = y.at(float(step.ns.max(1)).log10());
            [[place(step.below), height], [place(step.upto), height]]
        });
        let points = thinned(points.collect());
        svg.polyline(&format!("curve {}", series(*index)), &points);
        ends.push(points.last().map_or(FRAME.bottom, |point| point[1]));
    }
    let places = spread(&ends, [FRAME.top, FRAME.bottom]);
    for ((index, name, _), (place, end)) in modes.iter().zip(places.iter().zip(&ends)) {
        let class = series(*index);
        svg.line(&format!("leader {class}"), [FRAME.right + 2.0, *end], [FRAME.right + 10.0, *place]);
        svg.text(&format!("name {class}"), [FRAME.right + 12.0, place + LINE / 4.0], Anchor::Start, &short(name, 10));
    }
    Some(svg.finish())
}
