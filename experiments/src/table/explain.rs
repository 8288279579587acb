//! `--explain METRIC`: one metric, from its definition to its verdict, with every number on the way.

use std::fmt::Write;

use plan::metric::{Metric, Scale};

use super::words::{change_text, value};
use super::{figure, grid};
use crate::compare::{Change, ChangeUnit, Comparison, Design, Pair, Row, Verdict};

/// The explanation of a metric in this comparison; `None` if no pair has it.
#[must_use]
pub fn explain(comparison: &Comparison, id: &str) -> Option<String> {
    let metric = comparison.metric(id)?;
    let mut page = definition(metric);
    for pair in &comparison.pairs {
        for row in pair.rows.iter().filter(|row| row.metric == id) {
            page.push('\n');
            values(&mut page, comparison, metric, pair, row);
        }
    }
    Some(page)
}

/// What a metric is.
#[must_use]
pub fn definition(metric: &Metric) -> String {
    let scale = match metric.scale {
        Scale::Percent => "percent",
        Scale::Points => "points (hundredths)",
    };
    let rule = if metric.exact {
        "It is exact: equal systems give equal values, so any difference is one, and no statistics are made.".into()
    } else {
        format!("A change of up to {} {scale} does not matter.", metric.margin)
    };
    let text = format!(
        "{} ({}), {}, {}. {} {rule}",
        metric.id,
        metric.unit,
        metric.family.name(),
        metric.direction.words(),
        metric.text
    );
    format!("{}\n", grid::wrap(&text, 0))
}

fn values(page: &mut String, comparison: &Comparison, metric: &Metric, pair: &Pair, row: &Row) {
    let unit = &metric.unit;
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{} against {}", pair.new.label, pair.old.label);
    let shown = |value: &Option<f64>| value.map_or_else(|| figure::MISSING.into(), |value| value.to_string());
    match pair.design {
        Design::Paired => {
            let _ = writeln!(page, "  {:>5} {:>20} {:>24} {:>24}", "block", "seed", "old", "new");
            let blocks = pair.new.blocks.iter().zip(&pair.new.seeds);
            for ((block, seed), (old, new)) in blocks.zip(row.old.by_block.iter().zip(&row.new.by_block)) {
                let _ = writeln!(page, "  {block:>5} {seed:>20} {:>24} {:>24}", shown(old), shown(new));
            }
        }
        Design::Unpaired => {
            for (name, side, values) in [("old", &pair.old, &row.old), ("new", &pair.new, &row.new)] {
                let _ = writeln!(page, "  {:>5} {:>20} {name:>24}", "block", "seed");
                for ((block, seed), value) in side.blocks.iter().zip(&side.seeds).zip(&values.by_block) {
                    let _ = writeln!(page, "  {block:>5} {seed:>20} {:>24}", shown(value));
                }
            }
        }
    }
    let centres = format!("centres {} and {}", value(unit, row.old.centre), value(unit, row.new.centre));
    let mut say = |text: String| {
        let _ = writeln!(page, "{}", grid::wrap(&format!("  {text}"), 2));
    };
    say(centres);
    if let Some(change) = &row.change {
        say(format!("change {}: {}", change_text(unit, change), how(pair, change)));
        for (name, interval) in [("interval", change.interval), ("equivalence interval", change.narrow)] {
            if let Some(i) = interval {
                let (low, high, reached) = (figure::signed(i.low), figure::signed(i.high), i.confidence * 100.0);
                say(format!("{name} [{low}, {high}] at {reached:.2} %, exact"));
            }
        }
        if let (Some(p), Some(corrected)) = (change.p, change.p_corrected) {
            let (by, over) = match metric.family {
                plan::metric::Family::Primary => ("Holm", comparison.rules.holm_over),
                _ => ("Benjamini-Hochberg", comparison.rules.bh_over),
            };
            say(format!("p {p:.3e}, after {by}'s correction over {over} rows {corrected:.3e}"));
        }
    }
    say(verdict(comparison, row));
}

/// How the change was estimated.
fn how(pair: &Pair, change: &Change) -> String {
    let of = match change.unit {
        ChangeUnit::Percent => "log ratios",
        ChangeUnit::Points | ChangeUnit::Unit => "differences",
    };
    match (change.p, pair.design) {
        (None, _) => "the difference of the largest values".into(),
        (_, Design::Paired) => format!("Hodges-Lehmann centre of {} paired {of}", change.blocks[0]),
        (_, Design::Unpaired) => {
            format!("Hodges-Lehmann shift, median of {} {of}", change.blocks[0] * change.blocks[1])
        }
    }
}

fn verdict(comparison: &Comparison, row: &Row) -> String {
    let alpha = comparison.rules.alpha;
    match row.verdict {
        None => "no verdict: one side has no value".into(),
        Some(found) if row.change.as_ref().is_some_and(|change| change.p.is_none()) => {
            format!("{found}: the metric is exact, and its values were looked at")
        }
        Some(found @ (Verdict::Better | Verdict::Worse | Verdict::Differs)) => {
            format!("{found}: p is below {alpha} and the centre beyond the margin")
        }
        Some(Verdict::Same) => "SAME: the equivalence interval is inside the margin".into(),
        Some(Verdict::Identical) => "IDENTICAL: the same simulated runs to the bit".into(),
        Some(Verdict::Unclear) => {
            let blocks = row.blocks_to_settle.map_or_else(|| "more than 1,000".into(), |blocks| blocks.to_string());
            format!(
                "UNCLEAR: neither a change beyond the margin nor equality is shown; about {blocks} blocks a side would \
                 settle it"
            )
        }
    }
}
