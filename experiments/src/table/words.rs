//! Values, changes and verdicts of a comparison in words: the same on a terminal, in a mail, in a wiki and on the page.

use plan::metric::Direction;

use super::figure;
use crate::compare::{Change, ChangeUnit, Comparison, Row, Verdict};

/// A row of zeros on both sides says nothing on a page.
pub(crate) fn says_something(row: &Row) -> bool {
    let zero = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
    let nothing_there = zero(row.old.centre) && zero(row.new.centre);
    let nothing_tested = row.change.as_ref().is_some_and(|change| change.p.is_none());
    match row.verdict {
        Some(Verdict::Worse) => true,
        Some(Verdict::Same) => !nothing_there && !nothing_tested,
        _ => !nothing_there,
    }
}

/// The metric's title.
pub(crate) fn title<'a>(comparison: &'a Comparison, row: &'a Row) -> &'a str {
    comparison.metric(&row.metric).map_or(&row.metric, |metric| &*metric.title)
}

/// Which way is better, in a word.
pub(crate) fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
        Direction::Neither => figure::MISSING,
    }
}

/// What stands for a value that is not there.
pub(super) fn missing() -> String {
    figure::MISSING.into()
}

/// A value in its unit.
pub(crate) fn value(unit: &str, value: Option<f64>) -> String {
    let Some(value) = value else { return missing() };
    match unit {
        "ns" => figure::time(value),
        "share" => figure::share(value),
        "index" => format!("{value:.3}"),
        _ => figure::rate(value),
    }
}

/// A change with its unit.
pub(crate) fn change_text(unit: &str, change: &Change) -> String {
    match change.unit {
        ChangeUnit::Percent => format!("{} %", figure::signed(change.centre)),
        ChangeUnit::Points => format!("{} pt", figure::signed(change.centre)),
        ChangeUnit::Unit if unit == "ns" && change.centre < 0.0 => format!("-{}", figure::time(-change.centre)),
        ChangeUnit::Unit if unit == "ns" => format!("+{}", figure::time(change.centre)),
        ChangeUnit::Unit => figure::signed(change.centre),
    }
}

/// An interval in the unit of its change.
pub(crate) fn interval_text(change: &Change) -> Option<String> {
    let interval = change.interval?;
    Some(format!("[{}, {}]", figure::signed(interval.low), figure::signed(interval.high)))
}

/// A verdict, where asked for with the blocks that would settle it.
pub(crate) fn verdict_text(row: &Row, with_blocks: bool) -> String {
    match (row.verdict, row.blocks_to_settle) {
        (None, _) => missing(),
        (Some(Verdict::Unclear), Some(blocks)) if with_blocks => format!("UNCLEAR ({blocks})"),
        (Some(verdict), _) => verdict.to_string(),
    }
}
