//! Where a guest's time went: the share of each guest function, one chart a mode, all to the same scale and in the same
//! order, so that the eye compares bars of one function across the charts.

use super::super::svg::{Anchor, Svg};
use super::{LINE, Scale, WIDTH, count, series, short};
use crate::table::figure;

const ROW: f64 = 24.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = WIDTH - 64.0;
const TOP: f64 = 30.0;

/// Bars of one mode: function and share 0..1, in the order of the list.
pub(in super::super) fn draw(id: &str, title: &str, index: usize, mode: &str, shares: &[(String, f64)]) -> String {
    let height = TOP + ROW * count(shares.len()) + 6.0;
    let desc =
        "Share of guest time in each guest function; the whole width is all of it. The table below has the figures.";
    let mut svg = Svg::new(id, [WIDTH, height], title, desc);
    let x = Scale::new([0.0, 1.0], [LEFT, RIGHT]);
    svg.text(&format!("name {}", series(index)), [0.0, LINE], Anchor::Start, &short(mode, 40));
    for (row, (function, share)) in shares.iter().enumerate() {
        let top = TOP + ROW * count(row);
        svg.text("tick", [LEFT - 8.0, top + LINE], Anchor::End, &short(function, 20));
        svg.rect("track", [LEFT, top + 3.0], [RIGHT - LEFT, ROW - 6.0]);
        svg.rect(&format!("fill {}", series(index)), [LEFT, top + 3.0], [x.at(*share) - LEFT, ROW - 6.0]);
        svg.text("value", [WIDTH, top + LINE], Anchor::End, &figure::share(*share));
    }
    svg.finish()
}
