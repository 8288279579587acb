//! What a sweep prints: every mode of every point, as a table or as `vmmlab.sweep/1`.

use std::collections::BTreeMap;
use std::fmt::Write;

use plan::RunStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shard, SweepManifest};
use crate::result::{ResultFile, RowSummary};
use crate::table::figure;
use crate::table::grid::{self, Column};

/// The schema of `sweep.json`.
pub const SWEEP_SCHEMA: &str = "vmmlab.sweep/1";

/// The page names so many seeds; `sweep.json` has all.
const SEEDS_SHOWN: usize = 8;

/// `sweep.json`: the summary of each point. The whole result of a point is in its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepFile {
    /// Always [`SWEEP_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// The question in words.
    pub title: String,
    /// What it does not measure.
    pub caveats: Vec<String>,
    /// `ok`, `failed` (a run failed its checks) or `partial` (blocks are missing).
    pub status: RunStatus,
    /// `kvm` or `sim`.
    pub engine: String,
    /// Which share of the blocks is here: `1/1` is all of them.
    pub shard: String,
    /// The command that asks for the whole sweep.
    pub command: String,
    /// When it began, UTC.
    pub started: String,
    /// Versions of what made it.
    pub versions: BTreeMap<String, String>,
    /// The points, in their order; those of which there is nothing are left out.
    pub points: Vec<SweepPoint>,
}

/// A point in `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Its run directory, below the sweep's.
    pub dir: String,
    /// Axis: value.
    pub axes: BTreeMap<String, String>,
    /// As in `vmmlab.result/1`.
    pub status: RunStatus,
    /// Runs that are there.
    pub runs: usize,
    /// Runs that were asked for.
    pub runs_planned: usize,
    /// The seed.
    pub seed: u64,
    /// The command that asks for this point alone.
    pub command: String,
    /// Each failed check: mode, block, check and sentence.
    pub failures: Vec<String>,
    /// As in `vmmlab.result/1`.
    pub summary: Vec<RowSummary>,
}

impl SweepPoint {
    /// Sums a point's result up.
    #[must_use]
    pub fn of(dir: &str, axes: &BTreeMap<String, String>, result: &ResultFile) -> Self {
        let failures = result.runs.iter().flat_map(|run| {
            run.failures.iter().map(|f| format!("{} block {}: {}: {}", run.mode, run.block, f.check, f.message))
        });
        Self {
            dir: dir.into(),
            axes: axes.clone(),
            status: result.status,
            runs: result.runs.len(),
            runs_planned: result.experiment.plans.len() * result.experiment.blocks as usize,
            seed: result.seed,
            command: result.command.clone(),
            failures: failures.collect(),
            summary: result.summary.clone(),
        }
    }
}

impl SweepFile {
    /// The summary of what there is.
    #[must_use]
    pub fn of(manifest: &SweepManifest, points: Vec<SweepPoint>) -> Self {
        let any = |status| points.iter().any(|point| point.status == status);
        let status = if any(RunStatus::Failed) {
            RunStatus::Failed
        } else if any(RunStatus::Partial) || points.len() < manifest.points.len() {
            RunStatus::Partial
        } else {
            RunStatus::Ok
        };
        Self {
            schema: SWEEP_SCHEMA.into(),
            name: manifest.name.clone(),
            title: manifest.title.clone(),
            caveats: manifest.caveats.clone(),
            status,
            engine: manifest.engine.clone(),
            shard: manifest.shard.to_string(),
            command: manifest.command.clone(),
            started: manifest.started.clone(),
            versions: manifest.versions.clone(),
            points,
        }
    }
}

/// The table: failures first, then the rows of each point, then how to ask again.
#[must_use]
pub fn render(sweep: &SweepFile, points_asked: usize, where_to: &str) -> String {
    let mut page = String::new();
    for point in &sweep.points {
        for failure in &point.failures {
            line(&mut page, "FAILED", &format!("{} {failure}", point.dir));
        }
    }
    let sum = |count: fn(&SweepPoint) -> usize| sweep.points.iter().map(count).sum::<usize>();
    let (runs, planned) = (sum(|point| point.runs), sum(|point| point.runs_planned));
    if sweep.status == RunStatus::Partial || sweep.points.len() < points_asked || runs < planned {
        let share = match sweep.shard == Shard::WHOLE.to_string() {
            true => "blocks are missing; --resume goes on".to_owned(),
            false => format!("this is share {}; `vmmlab merge` joins the shares", sweep.shard),
        };
        let points = sweep.points.len();
        line(&mut page, "PARTIAL", &format!("{runs} runs at {points} of {points_asked} points are here: {share}"));
    }
    if !page.is_empty() {
        page.push('\n');
    }
    let colon = if sweep.title.is_empty() { "" } else { ": " };
    line(&mut page, "sweep", &format!("{}{colon}{}", sweep.name, sweep.title));
    for caveat in &sweep.caveats {
        line(&mut page, "caveat", caveat);
    }
    let mut seeds: Vec<String> = sweep.points.iter().map(|point| point.seed.to_string()).collect();
    seeds.dedup();
    let plural = if seeds.len() == 1 { "" } else { "s" };
    seeds.truncate(SEEDS_SHOWN);
    let seeds = seeds.join(", ");
    line(&mut page, "points", &format!("{points_asked}, {runs} runs, {}; seed{plural} {seeds}", sweep.engine));
    page.push('\n');
    rows(&mut page, &sweep.points);
    page.push('\n');
    line(&mut page, "result", where_to);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}", grid::wrap_command(&format!("{:<8} {}", "again", sweep.command), 9));
    page
}

/// One line, or more, behind a keyword.
fn line(page: &mut String, key: &str, text: &str) {
    let _ = writeln!(page, "{}", grid::wrap(&format!("{key:<8} {text}"), 9));
}

/// A heading, and the modes of each point below its axes.
fn rows(page: &mut String, points: &[SweepPoint]) {
    let all: Vec<&RowSummary> = points.iter().flat_map(|point| &point.summary).collect();
    let labels: Vec<&str> = all.iter().map(|row| row.mode.as_str()).collect();
    let references: Vec<&str> =
        all.iter().filter_map(|row| row.change.as_ref()).map(|change| change.against.as_str()).collect();
    let change = |row: &&RowSummary| match &row.change {
        Some(change) => Some(format!("{} %", figure::signed(change.percent))),
        None => references.contains(&row.mode.as_str()).then(|| "reference".to_owned()),
    };
    let interval = |row: &&RowSummary| {
        let [low, high] = row.change.as_ref()?.interval_percent?;
        Some(format!("[{}, {}] %", figure::signed(low), figure::signed(high)))
    };
    let columns = vec![
        Column::figures(["", "blocks"], all.iter().map(|row| Some(row.blocks.to_string()))),
        Column::figures(["", "records/s"], all.iter().map(|row| row.records_per_s.map(figure::rate))),
        Column::figures(["", "change"], all.iter().map(change)),
        Column::figures(["", "interval"], all.iter().map(interval)),
    ];
    let lines = grid::lines(["", "mode"], &labels, columns);
    let (head, body) = lines.split_at(2.min(lines.len()));
    for text in head.iter().filter(|text| !text.is_empty()) {
        let _ = writeln!(page, "{text}");
    }
    // A long label takes two lines of the grid.
    let mut body = body.iter();
    for point in points {
        let axes = point.axes.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ");
        if !axes.is_empty() {
            let _ = writeln!(page, "{}", grid::wrap(&axes, 2));
        }
        for row in &point.summary {
            let lines = if grid::is_long(&row.mode) { 2 } else { 1 };
            for text in body.by_ref().take(lines) {
                let _ = writeln!(page, "{text}");
            }
        }
    }
}
