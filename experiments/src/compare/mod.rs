//! `vmmlab compare`: two modes, two versions or two hosts, and what may be said about them.
//!
//! ```text
//!   result.json ─► ResultFile ─► gate      are they alike enough?            (else exit code 3)
//!                                 │
//!                              pairing     which mode against which, block by block
//!                                 │
//!                               judge      every metric: estimate, interval, p; Holm and BH; verdicts
//!                                 ▼
//!                             Comparison   vmmlab.compare/1 ─► table, lkml, markdown, csv, html
//! ```
//! Pure: files are read by [`crate::result::read`], and nothing is printed here.

mod data;
mod gate;
mod judge;
mod pairing;

use std::collections::BTreeSet;

use plan::RunStatus;
use plan::metric::Family;

pub use data::*;
pub use gate::Aspect;

use crate::experiment::Experiment;
use crate::result::ResultFile;
use pairing::Matched;

/// Most counters without a definition that are compared: what a damaged file may ask for is bounded.
const METRICS_MAX: usize = 2000;

/// What is to be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The mode to compare with; `None`: mode by mode, or the reference of a single result.
    pub base: Option<String>,
    /// The mode to compare; `None`: mode by mode, or every other one of a single result.
    pub new: Option<String>,
    /// What may differ between the results.
    pub ignore: BTreeSet<Aspect>,
    /// Split every mode against itself instead.
    pub aa: bool,
}

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The results are not alike: exit code 3.
    #[error("{}", not_alike(.0))]
    NotAlike(Vec<Difference>),
    /// No mode stands in both: exit code 3.
    #[error(
        "the results have no mode in common: one has {old}, the other {new}; name one of each with --base and --new"
    )]
    NothingInCommon {
        /// Modes of the old side.
        old: String,
        /// Modes of the new side.
        new: String,
    },
    /// A mode that was named is not there.
    #[error("mode '{mode}' is not in the result; it has {known}")]
    NoSuchMode {
        /// What was asked for.
        mode: String,
        /// What there is.
        known: String,
    },
    /// More than any experiment has.
    #[error("the result has {found} {what}, more than the {max} that are compared")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: usize,
        /// How much is taken.
        max: usize,
    },
}

fn not_alike(differences: &[Difference]) -> String {
    let mut whats: Vec<&str> = Vec::new();
    let mut lines = String::new();
    for Difference { what, field, old, new } in differences {
        if !whats.contains(&what.as_str()) {
            whats.push(what);
        }
        lines.push_str(&format!("\n  {what:<10} {field}: {old} / {new}"));
    }
    format!(
        "the results are not alike, so a change would not be the modes' or the version's alone; --ignore {} compares \
         them nevertheless{lines}",
        whats.join(",")
    )
}

/// Compares results: with one, its modes with each other; with several, each of the others with the first. Paths are for
/// the page.
///
/// # Errors
/// When they cannot, or should not, be compared.
pub fn compare(results: &[(&str, &ResultFile)], request: &Request) -> Result<Comparison, CompareError> {
    let files: Vec<&ResultFile> = results.iter().map(|(_, file)| *file).collect();
    files.iter().try_for_each(|file| bounded(file))?;
    let mut pairs = Vec::new();
    let mut ignored = Vec::new();
    let mut notices = Vec::new();
    if request.aa {
        for mode in modes_to_split(files[0], request)? {
            pairs.push(pairing::split(files[0], &mode));
        }
    } else {
        for new in if files.len() > 1 { 1..files.len() } else { 0..1 } {
            let modes = pairing::modes(&files, new, request)?;
            if new != 0 {
                let differences = gate::differences(files[0], files[new], &modes);
                let (skip, refuse): (Vec<_>, Vec<_>) =
                    differences.into_iter().partition(|d| request.ignore.iter().any(|aspect| aspect.name() == d.what));
                if !refuse.is_empty() {
                    return Err(CompareError::NotAlike(refuse));
                }
                ignored.extend(skip.into_iter().filter(|d| !ignored.contains(d)).collect::<Vec<_>>());
                left_out(&files, new, &modes, request, &mut notices);
            }
            pairs.extend(modes.iter().map(|(old, asked)| pairing::matched(&files, new, (old, asked))));
        }
    }
    let metrics = judge::metrics(&pairs, &files[0].experiment.metrics);
    if metrics.len() > METRICS_MAX {
        return Err(CompareError::TooMuch { what: "metrics", found: metrics.len(), max: METRICS_MAX });
    }
    let (rows, rules) = judge::judge(&pairs, &metrics);
    let failed = failed(&files, &pairs);
    let pairs: Vec<Pair> =
        pairs.into_iter().zip(rows).map(|(matched, rows)| pair(matched, rows, &mut notices)).collect();
    let used: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.rows).map(|row| row.metric.as_str()).collect();
    let mut comparison = Comparison {
        schema: SCHEMA.into(),
        outcome: outcome(&pairs, &failed, request.aa),
        inputs: results.iter().map(|(path, file)| input(path, file)).collect(),
        rules,
        ignored,
        failed,
        metrics: metrics.iter().filter(|metric| used.contains(&*metric.id)).cloned().collect(),
        pairs,
        notices,
    };
    let more = notices_of(&comparison, &files, request.aa);
    comparison.notices.extend(more);
    Ok(comparison)
}

/// A mode's change of the primary metric against the reference of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimaryChange {
    /// The mode.
    pub mode: String,
    /// Its change.
    pub change: crate::result::Change,
}

/// The changes of records/s inside one result: what its own page shows. As in [`compare`], corrected over all modes.
#[must_use]
pub fn primary(file: &ResultFile) -> Vec<PrimaryChange> {
    let Ok(modes) = pairing::modes(&[file], 0, &Request::default()) else { return Vec::new() };
    let pairs: Vec<Matched<'_>> = modes.iter().map(|(old, new)| pairing::matched(&[file], 0, (old, new))).collect();
    let (rows, _) = judge::judge(&pairs, &judge::primary(&file.experiment.metrics));
    let changes =
        modes.into_iter().zip(rows.into_iter().map(|rows| rows.into_iter().find(|row| row.metric == "records_per_s")));
    changes.filter_map(|((against, mode), row)| Some(PrimaryChange { mode, change: of_row(against, &row?)? })).collect()
}

/// A row as it stands in the summary of a result; `None` for a change that is no ratio.
fn of_row(against: String, row: &Row) -> Option<crate::result::Change> {
    let (verdict, blocks_to_settle) = (row.verdict, row.blocks_to_settle);
    let none = (row.verdict == Some(Verdict::Identical)).then_some((0.0, None, row.new.by_block.len()));
    let (percent, interval, blocks) = match &row.change {
        Some(found) if found.unit == ChangeUnit::Percent => (found.centre, found.interval, found.blocks[1]),
        _ => none?,
    };
    let interval_percent = interval.map(|i| [i.low, i.high]);
    let confidence = interval.map(|i| i.confidence);
    Some(crate::result::Change { against, percent, interval_percent, confidence, blocks, verdict, blocks_to_settle })
}

/// A file that was not made by a run may ask for anything: time and memory are bounded here.
fn bounded(file: &ResultFile) -> Result<(), CompareError> {
    let check = |what, found: usize, max: u32| {
        let max = max as usize;
        if found > max { Err(CompareError::TooMuch { what, found, max }) } else { Ok(()) }
    };
    check("modes", file.experiment.plans.len(), 1000)?;
    for plan in &file.experiment.plans {
        let runs = file.runs.iter().filter(|run| run.mode == plan.mode).count();
        check("runs of one mode", runs, Experiment::BLOCKS_MAX)?;
    }
    Ok(())
}

fn modes_to_split(file: &ResultFile, request: &Request) -> Result<Vec<String>, CompareError> {
    let names: Vec<String> = file.experiment.plans.iter().map(|plan| plan.mode.clone()).collect();
    match request.base.as_ref().or(request.new.as_ref()) {
        None => Ok(names),
        Some(mode) if names.contains(mode) => Ok(vec![mode.clone()]),
        Some(mode) => Err(CompareError::NoSuchMode { mode: mode.clone(), known: names.join(", ") }),
    }
}

fn input(path: &str, file: &ResultFile) -> Input {
    Input {
        path: path.into(),
        engine: file.engine.clone(),
        started: file.started.clone(),
        seed: file.seed,
        blocks: file.experiment.blocks,
        command: file.command.clone(),
        version: file.versions.get("vmmlab").cloned().unwrap_or_default(),
    }
}

/// The failed runs of every mode that is compared.
fn failed(files: &[&ResultFile], pairs: &[Matched<'_>]) -> Vec<FailedRun> {
    let mut failed = Vec::new();
    for (input, file) in files.iter().enumerate() {
        for run in file.runs.iter().filter(|run| run.status == RunStatus::Failed) {
            let is = |side: &Side| side.input == input && side.mode == run.mode;
            let on_new_side = pairs.iter().any(|pair| is(&pair.new));
            if on_new_side || pairs.iter().any(|pair| is(&pair.old)) {
                failed.push(FailedRun {
                    input,
                    on_new_side,
                    mode: run.mode.clone(),
                    block: run.block,
                    seed: run.seed,
                    failures: run.failures.clone(),
                });
            }
        }
    }
    failed
}

fn pair(matched: Matched<'_>, rows: Vec<Row>, notices: &mut Vec<String>) -> Pair {
    let identical = !rows.is_empty() && rows.iter().all(|row| row.verdict == Some(Verdict::Identical));
    if matched.same_events() && !identical {
        let differ: Vec<&str> =
            rows.iter().filter(|r| r.verdict != Some(Verdict::Identical)).map(|r| r.metric.as_str()).collect();
        notices.push(format!(
            "{}: the same events to the bit, but counted differently: {}",
            matched.new.label,
            differ.join(", ")
        ));
    }
    Pair { old: matched.old, new: matched.new, design: matched.design, identical, rows }
}

fn outcome(pairs: &[Pair], failed: &[FailedRun], aa: bool) -> Outcome {
    let primary = |pair: &Pair| pair.band(Family::Primary).map(|row| row.verdict).collect::<Vec<_>>();
    let verdicts: Vec<_> = pairs.iter().flat_map(primary).collect();
    let any = |verdict| verdicts.contains(&Some(verdict));
    if aa {
        // One system against itself: whatever is found is a false alarm, and not to find anything is right.
        let alarm = any(Verdict::Better) || any(Verdict::Worse);
        return if alarm { Outcome::Regression } else { Outcome::Ok };
    }
    if any(Verdict::Worse) || failed.iter().any(|run| run.on_new_side) {
        Outcome::Regression
    } else if any(Verdict::Unclear)
        || verdicts.contains(&None)
        || pairs.iter().any(|pair| primary(pair).is_empty())
        || !failed.is_empty()
    {
        Outcome::Inconclusive
    } else {
        Outcome::Ok
    }
}

/// What is in one of the results and not compared.
fn left_out(
    files: &[&ResultFile],
    new: usize,
    modes: &[(String, String)],
    request: &Request,
    notices: &mut Vec<String>,
) {
    if request.base.is_some() || request.new.is_some() {
        return;
    }
    for (input, side) in [(0, "old"), (new, "new")] {
        let left: Vec<&str> = files[input]
            .experiment
            .plans
            .iter()
            .map(|plan| plan.mode.as_str())
            .filter(|mode| !modes.iter().any(|(old, _)| old == mode))
            .collect();
        if !left.is_empty() {
            notices.push(format!("only on the {side} side, and not compared: {}", left.join(", ")));
        }
    }
}

fn notices_of(comparison: &Comparison, files: &[&ResultFile], aa: bool) -> Vec<String> {
    let mut notices = Vec::new();
    for (input, file) in comparison.inputs.iter().zip(files) {
        if file.experiment.metrics != files[0].experiment.metrics {
            let name = &input.path;
            notices.push(format!("{name} declares other metrics or margins; those of the old side are applied"));
        }
        if file.status == RunStatus::Partial {
            let (whole, planned) = (file.runs.len(), file.experiment.plans.len() * file.experiment.blocks as usize);
            let name = if input.path.is_empty() { "the result" } else { &input.path };
            notices.push(format!("{name} is partial: {whole} of {planned} runs"));
        }
    }
    let min = comparison.rules.blocks_min;
    let few = |pair: &&Pair| !pair.identical && pair.old.blocks.len().min(pair.new.blocks.len()) < min;
    let fewest = comparison.pairs.iter().filter(few).map(|p| p.old.blocks.len().min(p.new.blocks.len())).min();
    if let Some(blocks) = fewest {
        let there = if blocks == 1 { "is 1".into() } else { format!("are {blocks}") };
        notices.push(format!(
            "no verdict is possible: it takes {min} good blocks a side and there {there}, so a change is a figure, not a \
             finding; see --blocks"
        ));
    }
    if aa {
        notices.push(false_alarms(comparison));
    }
    notices
}

/// What a comparison of a system with itself shows about the rules.
fn false_alarms(comparison: &Comparison) -> String {
    let rows = || comparison.pairs.iter().flat_map(|pair| &pair.rows);
    let tested = rows().filter(|row| row.change.as_ref().is_some_and(|change| change.p.is_some())).count();
    let low =
        rows().filter(|r| r.change.as_ref().and_then(|c| c.p).is_some_and(|p| p < comparison.rules.alpha)).count();
    let found = |row: &&Row| matches!(row.verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Differs));
    format!(
        "A/A: of {tested} tests {low} have p below {} before correction, where about {:.0} are expected by chance (metrics \
         go together, so more come at once); {} false alarms after it",
        comparison.rules.alpha,
        comparison.rules.alpha * judge::count(tested),
        rows().filter(found).count()
    )
}
