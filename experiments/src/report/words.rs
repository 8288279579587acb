//! Values, changes and verdicts of a comparison in words.

use crate::compare::{Change, ChangeUnit, Comparison, Row, Verdict};
use crate::table::figure;

/// The metric's title.
pub(super) fn title<'a>(comparison: &'a Comparison, row: &'a Row) -> &'a str {
    comparison.metric(&row.metric).map_or(&row.metric, |metric| &*metric.title)
}

/// False for a row of nothing: no value on either side but zeros.
pub(super) fn says_something(row: &Row) -> bool {
    let nothing = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
    !(nothing(row.old.centre) && nothing(row.new.centre)) || row.verdict == Some(Verdict::Worse)
}

/// A value in the unit of its metric.
pub(super) fn value(unit: &str, value: Option<f64>) -> String {
    match (unit, value) {
        (_, None) => figure::MISSING.into(),
        ("ns", Some(value)) => figure::time(value),
        ("share", Some(value)) => figure::share(value),
        ("index", Some(value)) => format!("{value:.3}"),
        (_, Some(value)) => figure::rate(value),
    }
}

/// A change with its unit.
pub(super) fn change_text(change: &Change) -> String {
    let unit = match change.unit {
        ChangeUnit::Percent => " %",
        ChangeUnit::Points => " pt",
        ChangeUnit::Unit => "",
    };
    format!("{}{unit}", figure::signed(change.centre))
}

/// Its interval, in the same unit.
pub(super) fn interval_text(change: &Change) -> Option<String> {
    let interval = change.interval?;
    Some(format!("[{}, {}]", figure::signed(interval.low), figure::signed(interval.high)))
}

/// The verdict, and for UNCLEAR the blocks that would settle it.
pub(super) fn verdict_text(row: &Row) -> String {
    match (row.verdict, row.blocks_to_settle) {
        (None, _) => figure::MISSING.into(),
        (Some(Verdict::Unclear), Some(blocks)) => format!("UNCLEAR ({blocks})"),
        (Some(verdict), _) => verdict.to_string(),
    }
}
