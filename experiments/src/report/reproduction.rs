//! The page of a `vmmlab.reproduce/1`: published figures and ours, as dots and in tables, with what misses.

use serde::Deserialize;

use super::chart::dots::{self, Pair};
use super::page::{Block, Cell, Charts, Ids, Page, Section, Table};
use crate::table::figure;

/// What is read of the file; anything else in it is ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Reproduced {
    #[serde(default = "first_experiment")]
    experiment: String,
    title: Option<String>,
    #[serde(default)]
    setup: String,
    seed: u64,
    protocol: String,
    tables: Vec<Given>,
    #[serde(default)]
    checks: Vec<Check>,
    score: Option<Score>,
    #[serde(default)]
    score_counts: String,
    #[serde(default)]
    missing: Vec<String>,
}

/// The only one there was before files named theirs.
fn first_experiment() -> String {
    "gang-cfs".into()
}

#[derive(Debug, Deserialize)]
struct Given {
    id: String,
    title: String,
    #[serde(default)]
    notes: Vec<String>,
    cells: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Value {
    row: String,
    column: String,
    published: Option<f64>,
    ours: Option<f64>,
    ratio: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Check {
    demand: String,
    found: String,
    met: bool,
    #[serde(default)]
    fitted: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Score {
    signs_right: u32,
    signs_all: u32,
}

impl Reproduced {
    /// The schema.
    pub(super) const SCHEMA: &'static str = "vmmlab.reproduce/1";
}

/// The page.
pub(super) fn page(given: &Reproduced) -> Page {
    let mut ids = Ids::default();
    let missed = given.checks.iter().filter(|check| !check.met).count();
    let counted = if given.score_counts.is_empty() { "signs of clear gains" } else { &given.score_counts };
    let score = given.score.filter(|s| s.signs_all > 0);
    let score = score.map(|s| format!("; {counted}: {} of {} right", s.signs_right, s.signs_all));
    let lede = format!(
        "{} of {} demands are met{}. Seed {}, {} protocol. {}",
        given.checks.len() - missed,
        given.checks.len(),
        score.unwrap_or_default(),
        given.seed,
        given.protocol,
        given.setup
    );
    let tables = given.tables.iter().flat_map(|table| blocks(table, &mut ids)).collect();
    let quick = if given.protocol == "quick" { " --quick" } else { "" };
    // A command is pasted into a shell: no more of the file than a name.
    let name: String = given.experiment.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let again = format!("vmmlab reproduce {name}{quick} --seed {} --format json", given.seed);
    Page {
        title: given.title.clone().unwrap_or_else(|| "Published figures, and ours beside them".into()),
        lede,
        alarms: Vec::new(),
        sections: vec![
            Section { id: "demands", heading: "What the figures must show", blocks: vec![demands(&given.checks)] },
            Section { id: "tables", heading: "The tables", blocks: tables },
            Section {
                id: "missing",
                heading: "Not reproduced, or not well",
                blocks: vec![Block::Notes(given.missing.clone())],
            },
            Section { id: "again", heading: "How to reproduce it", blocks: vec![Block::Command(again)] },
        ],
    }
}

/// Missed ones first.
fn demands(checks: &[Check]) -> Block {
    let row = |check: &Check| {
        let class = if check.met { "badge" } else { "badge failed" };
        let fitted = if check.fitted { ", fitted" } else { "" };
        vec![
            Cell { text: check.demand.clone(), class: "wordy" },
            Cell { text: if check.met { "met" } else { "MISSED" }.into(), class },
            Cell { text: format!("{}{fitted}", check.found), class: "wordy" },
        ]
    };
    let ordered = checks.iter().filter(|check| !check.met).chain(checks.iter().filter(|check| check.met));
    Block::Table(Table {
        caption: "Demands that were written down before the figures were seen; missed ones first".into(),
        head: ["demand", "verdict", "found"].map(Cell::words).into(),
        rows: ordered.map(row).collect(),
    })
}

fn blocks(table: &Given, ids: &mut Ids) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(format!("{}: {}", table.id, table.title))];
    blocks.extend((!table.notes.is_empty()).then(|| Block::Notes(table.notes.clone())));
    // One plot a column: its values have one unit.
    let mut columns: Vec<&str> = Vec::new();
    for cell in &table.cells {
        if !columns.contains(&cell.column.as_str()) {
            columns.push(&cell.column);
        }
    }
    let mut drawings = Vec::new();
    for column in columns {
        let of_column = || table.cells.iter().filter(|cell| cell.column == column);
        if of_column().all(|cell| cell.published.is_some() && cell.ours.is_some()) {
            let pairs: Vec<Pair> = of_column().map(pair).collect();
            drawings.extend(dots::draw(&ids.next(), &format!("{}, {column}: published and ours", table.id), &pairs));
        }
    }
    if !drawings.is_empty() {
        let caption =
            "A hollow dot is the published value, a filled one ours; the line between them is the difference.";
        blocks.push(Charts::narrow(caption, drawings));
    }
    let row = |cell: &Value| {
        vec![
            Cell::words(&cell.row),
            Cell::words(&cell.column),
            Cell::maybe(cell.published.map(number)),
            Cell::maybe(cell.ours.map(number)),
            Cell::maybe(cell.ratio.map(figure::ratio)),
        ]
    };
    let figures = ["published", "ours", "ratio"].map(Cell::figure);
    blocks.push(Block::Table(Table {
        caption: format!("{}: {}", table.id, table.title),
        head: ["row", "column"].map(Cell::words).into_iter().chain(figures).collect(),
        rows: table.cells.iter().map(row).collect(),
    }));
    blocks
}

fn pair(cell: &Value) -> Pair {
    let show = |value: Option<f64>| value.map_or_else(|| figure::MISSING.into(), number);
    Pair {
        label: format!("{}, {}", cell.row, cell.column),
        text: format!("{} \u{2192} {}", show(cell.published), show(cell.ours)),
        published: cell.published,
        ours: cell.ours,
    }
}

/// Three digits, signed below zero.
fn number(value: f64) -> String {
    figure::rate(value)
}
