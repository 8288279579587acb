//! `vmmlab reproduce gang-cfs`: a published set of tables beside what the simulator makes of the same question.
//!
//! ```text
//!   published/gang-cfs.toml ─┐
//!   gang-cfs.toml (protocol) ├─► tables: which runs each cell needs ─► runs, all cores ─► cells ─► page or JSON
//!   machines/*.toml (costs) ─┘
//! ```
//! Only the nine numbers of `pvflush-nonple` were fitted. Every other cell is a prediction of the same machine description,
//! and the page says which of them miss.
mod checks;
mod page;
mod published;
mod runs;
mod tables;

use std::collections::BTreeMap;

use plan::EngineError;
use serde::Serialize;

pub use page::{json, text};
pub use runs::Protocol;

use published::Published;
use runs::{Asked, Plans};

/// One number of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// What was published, if anything was.
    pub published: Option<f64>,
    /// What the simulator says; absent if it cannot say anything.
    pub ours: Option<f64>,
    /// Ours over published; absent where one is missing, and for gains in per cent, whose ratio means nothing.
    pub ratio: Option<f64>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The published table's name.
    pub id: String,
    /// What the numbers are.
    pub title: String,
    /// What they rest on.
    pub notes: Vec<String>,
    /// Row by row.
    pub cells: Vec<Cell>,
}

/// A demand on the numbers, and whether they meet it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What is demanded.
    pub demand: String,
    /// What was found.
    pub found: String,
    /// Whether it is met.
    pub met: bool,
    /// The numbers that it is about were fitted.
    pub fitted: bool,
}

/// Signs of the published gains of 10 points and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Those that ours share.
    pub signs_right: u32,
    /// All that the simulator has a workload and a mode for.
    pub signs_all: u32,
}

/// Everything that was reproduced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// Schema of the JSON form.
    pub schema: &'static str,
    /// Seed of all runs.
    pub seed: u64,
    /// `quick` or `full`.
    pub protocol: &'static str,
    /// The tables.
    pub tables: Vec<Table>,
    /// The demands.
    pub checks: Vec<Check>,
    /// Signs of the ebizzy gains.
    pub score: Score,
    /// What is not reproduced, and why.
    pub missing: Vec<String>,
}

/// Reproduces the tables of "Gang scheduling in CFS".
///
/// # Errors
/// A data file of the program that cannot be read, or a run that the simulator refuses.
pub fn gang_cfs(protocol: Protocol, seed: u64) -> Result<Reproduction, EngineError> {
    let published = Published::read()?;
    let plans = Plans::read(protocol, seed)?;
    // The tables are made twice: first to learn which runs they need, then with the answers.
    let mut asked = Asked::Collecting(Vec::new());
    tables::all(&published, &mut asked);
    let Asked::Collecting(questions) = asked else { return Err(broken("the questions were answered too early")) };
    let answers: BTreeMap<_, _> = runs::answer(&plans, questions)?;
    let mut asked = Asked::Answered(answers);
    let tables = tables::all(&published, &mut asked);
    let checks = checks::all(&tables);
    let score = checks::score(&tables);
    let missing = page::MISSING.iter().map(|text| (*text).to_owned()).collect();
    Ok(Reproduction { schema: "vmmlab.reproduce/1", seed, protocol: protocol.name(), tables, checks, score, missing })
}

fn broken(what: &str) -> EngineError {
    EngineError::Internal { what: what.into(), source: None }
}
