//! `vmmlab reproduce`: published tables beside what the simulator makes of the same questions.
//!
//! ```text
//!   published figures ─┐
//!   protocol           ├─► one module an experiment ─► Reproduction: tables, demands, scores ─► text, Markdown, JSON
//!   machines (costs)  ─┘
//! ```
//! What was fitted to published numbers says so in the table that shows them; every other cell is a prediction of the same
//! machine description, and the page says which of them miss.
mod gang_cfs;
mod host_runs;
mod idle_buddy;
mod lb_bias;
mod llc_imbalance;
mod page;
mod parallel;

use std::collections::BTreeMap;

use plan::EngineError;
use schemars::JsonSchema;
use serde::Serialize;

pub use gang_cfs::{Committed, Fit, gang_cfs, sensitivity};
pub use idle_buddy::idle_buddy;
pub use lb_bias::lb_bias;
pub use llc_imbalance::llc_imbalance;
pub use page::{json, markdown, text};
pub(crate) use parallel::in_parallel;

/// How long and how often an experiment's runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Under two minutes on two cores.
    Quick,
    /// What the pages under `docs/` show.
    Full,
}

impl Protocol {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// One number of a table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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

impl Cell {
    /// A cell with its ratio.
    #[must_use]
    pub fn new(row: &str, column: &str, published: Option<f64>, ours: f64) -> Self {
        let ratio = published.filter(|p| *p != 0.0).map(|p| ours / p);
        Self { row: row.into(), column: column.into(), published, ours: Some(ours), ratio }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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

impl Table {
    /// A table with its notes.
    #[must_use]
    pub fn new(id: &str, title: &str, notes: &[&str], cells: Vec<Cell>) -> Self {
        Self { id: id.into(), title: title.into(), notes: notes.iter().map(|n| (*n).to_owned()).collect(), cells }
    }
}

/// A demand on the numbers, and whether they meet it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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

impl Check {
    /// A demand on numbers that were not fitted.
    #[must_use]
    pub fn new(demand: &str, found: String, met: bool) -> Self {
        Self { demand: demand.into(), found, met, fitted: false }
    }
}

/// How many published changes have the sign that ours have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Score {
    /// Those that ours share.
    pub signs_right: u32,
    /// All that are clear enough to count.
    pub signs_all: u32,
}

/// Everything that was reproduced of one publication.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reproduction {
    /// Schema of the JSON form.
    pub schema: &'static str,
    /// Name of the experiment on the command line.
    pub experiment: &'static str,
    /// What was published, and where.
    pub title: String,
    /// What all runs have in common, in one line.
    pub setup: String,
    /// Seed of all runs.
    pub seed: u64,
    /// `quick` or `full`.
    pub protocol: &'static str,
    /// The tables.
    pub tables: Vec<Table>,
    /// The demands.
    pub checks: Vec<Check>,
    /// The score of the experiment's main workload.
    pub score: Score,
    /// The scores of the others, by workload.
    pub scores: BTreeMap<String, Score>,
    /// What the score counts, in words.
    pub score_counts: String,
    /// What is not reproduced, and why.
    pub missing: Vec<String>,
}

/// Schema of [`Reproduction`].
pub const SCHEMA: &str = "vmmlab.reproduce/1";

/// What the simulator says in a cell; NaN, which meets no demand, if there is no such cell.
pub(crate) fn ours(tables: &[Table], id: &str, row: &str, column: &str) -> f64 {
    let table = tables.iter().find(|table| table.id == id);
    let cell = table.and_then(|table| table.cells.iter().find(|cell| cell.row == row && cell.column == column));
    cell.and_then(|cell| cell.ours).unwrap_or(f64::NAN)
}

/// A fault of the program's own data.
pub(crate) fn broken(what: &str) -> EngineError {
    EngineError::Internal { what: what.into(), source: None }
}
