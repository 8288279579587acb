//! What to know when reading the figures: staleness, what others took from the CPUs, gangs that cannot fit, notices.

use std::collections::BTreeMap;

use plan::{RunPlan, RunRecord, RunStatus};

use super::{figure, line};
use crate::result::ResultFile;
use crate::stats;

pub(super) fn notes(page: &mut String, result: &ResultFile) {
    if result.runs.is_empty() {
        return;
    }
    page.push('\n');
    let sum = |count: fn(&RunRecord) -> u64| result.runs.iter().map(count).fold(0, u64::saturating_add);
    line(
        page,
        "stale",
        &format!(
            "{} reads through the TLB, {} through the soft TLB, in {} runs",
            sum(|run| run.stale_reads),
            sum(|run| run.soft_stale_reads),
            result.runs.len()
        ),
    );
    if let Some(text) = foreign(result) {
        line(page, "others", &text);
    }
    for plan in &result.experiment.plans {
        if let Some(text) = misfit(plan, result) {
            line(page, "notice", &text);
        }
    }
    for (text, modes) in notices(result) {
        line(page, "notice", &format!("{}: {text}", modes.join(", ")));
    }
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

/// A gang that is larger than its span can never run whole.
fn misfit(plan: &RunPlan, result: &ResultFile) -> Option<String> {
    if !plan.axes.host_policy.is_gang() {
        return None;
    }
    let spans = result.good_runs(&plan.mode).flat_map(|run| &run.placement.gang_span);
    let span = spans.map(Vec::len).max().or_else(|| Some(plan.pcpus.as_slice().len()))?;
    let coverage: Vec<f64> = result.good_runs(&plan.mode).filter_map(|run| run.gang_coverage).collect();
    let coverage = stats::median(&coverage).map(|c| format!(" (coverage {})", figure::share(c))).unwrap_or_default();
    (plan.vcpus as usize > span).then(|| {
        format!(
            "{}: {} vCPUs cannot run at once on a gang span of {span} CPU{}{coverage}, so the gang gains little; \
             --vcpus {span} would fit",
            plan.mode,
            plan.vcpus,
            if span == 1 { "" } else { "s" }
        )
    })
}

/// Each notice once, with the modes that gave it.
fn notices(result: &ResultFile) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in &result.runs {
        for notice in &run.notices {
            let modes = found.entry(notice).or_default();
            if !modes.contains(&run.mode.as_str()) {
                modes.push(&run.mode);
            }
        }
    }
    found
}
