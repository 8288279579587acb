//! The pieces of a page that show a comparison: what failed, the verdicts in three bands, the forest plots.

use plan::metric::{Direction, Family};

use super::chart::forest::{self, Effect, Kind};
use super::page::{Block, Cell, Charts, Ids, Page, Section, Table};
use crate::compare::{Change, ChangeUnit, Comparison, Outcome, Pair, Row, Verdict};
use crate::table::figure;
use crate::table::words;

/// Instead of verdicts where there is nothing to judge.
pub(super) const NOTHING: &str = "Nothing is compared: it takes two modes with a good run in the same block.";
/// Rows of the mechanism that a pair shows, by effect; the rest is counted.
const WHY_ROWS: usize = 12;
/// Rows of one forest plot.
const FOREST_ROWS: usize = 12;

/// A page of nothing but a comparison.
pub(super) fn page(comparison: &Comparison) -> Page {
    let mut ids = Ids::default();
    let names: Vec<String> = comparison.pairs.iter().map(|pair| named(comparison, pair)).collect();
    let inputs = comparison.inputs.iter().map(|input| {
        [
            or(&input.path, "this run").to_owned(),
            format!(
                "{}, {} blocks, seed {}, begun {}, vmmlab {}",
                input.engine, input.blocks, input.seed, input.started, input.version
            ),
        ]
    });
    let ignored = comparison.ignored.iter().map(|d| {
        [
            format!("ignored: {}", d.what),
            format!("{}: {} before, {} now", d.field, or(&d.old, "none"), or(&d.new, "none")),
        ]
    });
    let mut compared = vec![Block::Facts(inputs.chain(ignored).collect())];
    compared.extend((!comparison.notices.is_empty()).then(|| Block::Notes(comparison.notices.clone())));
    let commands = comparison.inputs.iter().map(|input| Block::Command(input.command.clone()));
    Page {
        title: format!("Comparison: {}", names.join("; ")),
        lede: outcome(comparison),
        alarms: failed(comparison),
        sections: vec![
            Section { id: "verdict", heading: "Verdict", blocks: verdicts(comparison) },
            Section { id: "forest", heading: "Changes and their intervals", blocks: forests(comparison, &mut ids) },
            Section { id: "compared", heading: "What was compared", blocks: compared },
            Section { id: "again", heading: "How to reproduce it", blocks: commands.collect() },
        ],
    }
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The runs that failed their checks.
pub(super) fn failed(comparison: &Comparison) -> Vec<[String; 2]> {
    let sentence = |run: &crate::compare::FailedRun| {
        let found: Vec<String> = run.failures.iter().map(|f| format!("{}: {}", f.check, f.message)).collect();
        format!("{} block {}, seed {}: {}", run.mode, run.block, run.seed, found.join("; "))
    };
    comparison.failed.iter().map(|run| ["FAILED".into(), sentence(run)]).collect()
}

/// What it comes to, in one sentence.
pub(super) fn outcome(comparison: &Comparison) -> String {
    match comparison.outcome {
        Outcome::Ok => "No primary metric is worse.".into(),
        Outcome::Regression if comparison.failed.iter().any(|run| run.on_new_side) => {
            "A regression: a run failed its own checks.".into()
        }
        Outcome::Regression => "A regression: a primary metric is worse.".into(),
        Outcome::Inconclusive => "Inconclusive: a primary metric is unclear, or nothing could be compared.".into(),
    }
}

/// `gang against base`; with the inputs where there are two.
fn named(comparison: &Comparison, pair: &Pair) -> String {
    let (old, new) = (&pair.old, &pair.new);
    if old.input == new.input {
        return format!("{} against {}", new.mode, old.mode);
    }
    let input = |at: usize| comparison.inputs.get(at).map_or("?", |input| or(&input.path, "this run"));
    let modes = if old.mode == new.mode { old.mode.clone() } else { format!("{} against {}", new.mode, old.mode) };
    format!("{modes}, {} against {}", input(new.input), input(old.input))
}

/// What all pairs are compared with, if it is one mode of one result.
fn one_reference(comparison: &Comparison) -> Option<&str> {
    let first = &comparison.pairs.first()?.old;
    let same =
        |pair: &Pair| (pair.old.input, &pair.old.mode, pair.new.input) == (first.input, &first.mode, first.input);
    comparison.pairs.iter().all(same).then_some(first.mode.as_str())
}

/// One table a band; every pair in each.
pub(super) fn verdicts(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = Vec::new();
    let against = one_reference(comparison).map(|old| format!("; against {old}")).unwrap_or_default();
    for family in Family::ALL {
        let mut rows = Vec::new();
        let mut left_out = 0;
        for pair in &comparison.pairs {
            let band: Vec<&Row> = pair.band(family).filter(|row| words::says_something(row)).collect();
            let most = if family == Family::Why { WHY_ROWS } else { usize::MAX };
            left_out += band.len().saturating_sub(most);
            rows.extend(band.into_iter().take(most).map(|row| cells(comparison, pair, row)));
        }
        if rows.is_empty() {
            continue;
        }
        let words = ["metric", "verdict"].map(Cell::words).into_iter();
        let figures = ["change", "interval"].map(Cell::figure).into_iter();
        let details = ["old", "new", "margin", "corrected p"].map(Cell::figure);
        blocks.push(Block::Table(Table {
            caption: format!("{}: {}{against}", family.name(), about(family)),
            head: words.chain(figures).chain(details).collect(),
            rows,
        }));
        if family == Family::Primary {
            let note = "UNCLEAR (n): n blocks would settle it, if the change stays what it is. pt: percentage points.";
            blocks.push(Block::Text(note.into()));
        }
        if left_out > 0 {
            blocks.push(Block::Text(format!(
                "{left_out} rows with smaller effects are left out; --format json has them all."
            )));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text(NOTHING.into()));
    }
    blocks
}

fn about(family: Family) -> &'static str {
    match family {
        Family::Primary => "decides",
        Family::Cost => "what a mode pays for its gain",
        Family::Why => "the mechanism, by size of the change",
    }
}

fn cells(comparison: &Comparison, pair: &Pair, row: &Row) -> Vec<Cell> {
    let metric = comparison.metric(&row.metric);
    let direction = match metric.map(|metric| metric.direction) {
        Some(Direction::Higher) => ", more is better",
        Some(Direction::Lower) => ", less is better",
        _ => "",
    };
    let unit = metric.map_or("", |metric| &*metric.unit);
    let change = row.change.as_ref();
    let who = match (comparison.pairs.len(), one_reference(comparison)) {
        (0 | 1, _) => String::new(),
        (_, Some(_)) => format!("{}: ", pair.new.mode),
        (_, None) => format!("{}: ", named(comparison, pair)),
    };
    // What is read first stands first: on a phone the rest is scrolled to.
    vec![
        Cell { text: format!("{who}{}{direction}", words::title(comparison, row)), class: "wraps" },
        Cell { text: words::verdict_text(row, true), ..word(row.verdict) },
        Cell::maybe(change.map(|change| words::change_text(unit, change))),
        Cell::maybe(change.and_then(words::interval_text)),
        Cell::figure(words::value(unit, row.old.centre)),
        Cell::figure(words::value(unit, row.new.centre)),
        Cell::maybe(change.and_then(margin)),
        Cell::maybe(change.and_then(|change| change.p_corrected).map(probability)),
    ]
}

/// A verdict as a word.
pub(super) fn word(verdict: Option<Verdict>) -> Cell {
    let class = match verdict {
        Some(Verdict::Better) => "badge better",
        Some(Verdict::Worse) => "badge worse",
        Some(Verdict::Unclear) => "badge unclear",
        Some(Verdict::Same | Verdict::Identical | Verdict::Differs) => "badge",
        None => "",
    };
    Cell { text: verdict.map_or_else(|| figure::MISSING.into(), |verdict| verdict.to_string()), class }
}

fn margin(change: &Change) -> Option<String> {
    let [low, high] = change.margin;
    let unit = match change.unit {
        ChangeUnit::Percent => "%",
        ChangeUnit::Points => "pt",
        ChangeUnit::Unit => return None,
    };
    (low < 0.0 && high > 0.0).then(|| format!("\u{b1}{high:.1} {unit}"))
}

/// Two digits that matter, and no more below a thousandth.
fn probability(p: f64) -> String {
    if p < 0.001 { "<0.001".into() } else { format!("{p:.3}") }
}

/// One plot a band and a scale.
pub(super) fn forests(comparison: &Comparison, ids: &mut Ids) -> Vec<Block> {
    let mut blocks = Vec::new();
    for family in Family::ALL {
        let mut drawings = Vec::new();
        let mut left_out = 0;
        for (kind, unit) in [(Kind::Ratio, ChangeUnit::Percent), (Kind::Points, ChangeUnit::Points)] {
            let mut effects: Vec<(f64, Effect)> = Vec::new();
            for (at, pair) in comparison.pairs.iter().enumerate() {
                let of_unit = |row: &&Row| row.change.as_ref().is_some_and(|change| change.unit == unit);
                effects.extend(
                    pair.band(family).filter(|row| words::says_something(row)).filter(of_unit).filter_map(|row| {
                        Some((row.effect, effect(comparison, pair, row, row.change.as_ref()?, at + 1)))
                    }),
                );
            }
            if family == Family::Why {
                effects.sort_by(|a, b| b.0.total_cmp(&a.0));
            }
            left_out += effects.len().saturating_sub(FOREST_ROWS);
            let effects: Vec<Effect> = effects.into_iter().take(FOREST_ROWS).map(|(_, effect)| effect).collect();
            let title = format!("{}: {}", family.name(), about(family));
            drawings.extend(forest::draw(&ids.next(), &title, kind, &effects));
        }
        if !drawings.is_empty() {
            let more = if left_out > 0 { format!(" {left_out} smaller ones are left out.") } else { String::new() };
            blocks.push(Block::Heading(format!("{}: {}", family.name(), about(family))));
            blocks.push(Charts::narrow(format!("{HOW_TO_READ}{more}"), drawings));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("There is no change to draw.".into()));
    }
    blocks
}

const HOW_TO_READ: &str = "Square: the change. Line: its interval of at least 95 %; a hollow square has none, and is a figure and not a \
                           finding. Shaded: changes too small to matter. The word at the right is the verdict.";

fn effect(comparison: &Comparison, pair: &Pair, row: &Row, change: &Change, series: usize) -> Effect {
    let on_axis = |value: f64| match change.unit {
        ChangeUnit::Percent => (value / 100.0).max(-0.99999).ln_1p(),
        ChangeUnit::Points | ChangeUnit::Unit => value,
    };
    let who = if pair.old.input == pair.new.input { pair.new.mode.clone() } else { named(comparison, pair) };
    let unit = comparison.metric(&row.metric).map_or("", |metric| &*metric.unit);
    let verdict = row.verdict.map(|verdict| format!(" {verdict}")).unwrap_or_default();
    Effect {
        label: format!("{who}: {}", words::title(comparison, row)),
        series,
        centre: on_axis(change.centre),
        interval: change.interval.as_ref().map(|interval| [on_axis(interval.low), on_axis(interval.high)]),
        margin: on_axis(change.margin[1]).max(0.0),
        text: format!("{}{verdict}", words::change_text(unit, change)),
    }
}
