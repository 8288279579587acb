//! What to know when reading the figures: staleness, what others took from the CPUs, notices.

use std::collections::BTreeMap;

use plan::{RunRecord, RunStatus};

use super::{figure, line};
use crate::result::ResultFile;

pub(super) fn notes(page: &mut String, result: &ResultFile) {
    let remarks = remarks(result);
    if !remarks.is_empty() {
        page.push('\n');
    }
    for (key, text) in remarks {
        line(page, key, &text);
    }
}

/// The same as keywords and sentences; empty for a result without runs.
pub(crate) fn remarks(result: &ResultFile) -> Vec<(&'static str, String)> {
    if result.runs.is_empty() {
        return Vec::new();
    }
    let sum = |count: fn(&RunRecord) -> u64| result.runs.iter().map(count).fold(0, u64::saturating_add);
    let stale = format!(
        "{} reads through the TLB, {} through the soft TLB, in {} runs",
        sum(|run| run.stale_reads),
        sum(|run| run.soft_stale_reads),
        result.runs.len()
    );
    let mut remarks = vec![("stale", stale)];
    remarks.extend(start(result).map(|text| ("start", text)));
    remarks.extend(foreign(result).map(|text| ("others", text)));
    remarks.extend(
        notices(result).into_iter().map(|(text, modes)| ("notice", format!("{}: {text}", who(result, &modes)))),
    );
    remarks
}

/// The modes by name, or in one word if they are many and all.
fn who(result: &ResultFile, modes: &[&str]) -> String {
    let all = result.experiment.plans.len();
    if all > 4 && modes.len() == all { "all modes".into() } else { modes.join(", ") }
}

/// How long the guests took to come up.
fn start(result: &ResultFile) -> Option<String> {
    let plan = result.experiment.plans.iter().max_by_key(|plan| plan.vms)?;
    let most_vms = |run: &&RunRecord| result.experiment.plans.iter().any(|p| p.mode == run.mode && p.vms == plan.vms);
    // A start of more than 2^53 ns is none.
    #[allow(clippy::cast_precision_loss)]
    let times: Vec<f64> =
        result.runs.iter().filter(most_vms).filter(|run| run.startup_ns > 0).map(|run| run.startup_ns as f64).collect();
    let most = times.iter().copied().fold(0.0, f64::max);
    let vcpus = u64::from(plan.vms) * u64::from(plan.vcpus);
    let (median, most) = (figure::time(stats::median(&times)?), figure::time(most));
    Some(format!("{vcpus} vCPUs ran their first instruction {median} after the first VM was made, {most} at most"))
}

/// The share of the CPUs that was not ours.
fn foreign(result: &ResultFile) -> Option<String> {
    let cpus = result.experiment.plans.first()?.pcpus.as_slice().len();
    let cpus = f64::from(u32::try_from(cpus).ok()?);
    // Nanoseconds of a run are far below 2^53.
    #[allow(clippy::cast_precision_loss)]
    let share =
        |run: &RunRecord| (run.duration_ns > 0).then(|| run.foreign_cpu_ns as f64 / (run.duration_ns as f64 * cpus));
    let shares: Vec<(f64, &RunRecord)> = result
        .runs
        .iter()
        .filter(|run| run.status == RunStatus::Ok)
        .filter_map(|run| Some((share(run)?, run)))
        .collect();
    let median = stats::median(&shares.iter().map(|(share, _)| *share).collect::<Vec<_>>())?;
    let (most, run) = shares.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let advice = if *most > 0.05 { "; a quieter host narrows the intervals" } else { "" };
    Some(format!(
        "took {} of the CPUs' time in the median run, {} at most ({} block {}){advice}",
        figure::share(median),
        figure::share(*most),
        run.mode,
        run.block
    ))
}

/// Each notice once, with the modes that gave it. Notices that differ only in words with digits (numbers, digests) are
/// one: the first speaks for them.
fn notices(result: &ResultFile) -> Vec<(&str, Vec<&str>)> {
    let mut found: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
    for run in &result.runs {
        for notice in &run.notices {
            let numberless = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
            let shape = notice.split_whitespace().filter(numberless).collect::<Vec<_>>().join(" ");
            let (_, modes) = found.entry(shape).or_insert((notice, Vec::new()));
            if !modes.contains(&run.mode.as_str()) {
                modes.push(&run.mode);
            }
        }
    }
    found.into_values().collect()
}
