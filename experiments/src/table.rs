//! The table that `vmmlab run` prints: what was asked, how fast each mode was, why, and what to know when reading it.
//!
//! Order: failed runs first, because nothing below them may be believed before they are understood. Then the figures, with
//! several numbers of VMs a table for each, and last how a VM's throughput falls with their number.
//! The last line is the command that reproduces the page. At most 100 columns; colours repeat what words say.

mod bands;
mod comparison;
mod explain;
mod export;
pub(crate) mod figure;
pub(crate) mod grid;
mod layout;
pub(crate) mod notes;
pub(crate) mod scaling;
pub(crate) mod words;

use std::fmt::Write;

use clap::builder::styling::{AnsiColor, Style};
use plan::{Neighbour, RunPlan, RunStatus, Workload};
use stats::BLOCKS_MIN;

pub use bands::legend;
pub use comparison::{Medium, text as comparison_text};
pub use explain::{definition, explain};
pub use export::{comparison_csv, comparison_markdown, reproduction_csv, result_csv, result_markdown};

use crate::compare::{self, Request, Verdict};
use crate::experiment::in_band;
use crate::result::{ResultFile, RowSummary};
use grid::Column;

/// The width of a mail.
const MAIL_COLUMNS: usize = 78;

const BOLD: Style = Style::new().bold();
const ALARM: Style = AnsiColor::Red.on_default().bold();

/// The whole page. Styles are escape codes that the caller's stream strips where they are not wanted.
#[must_use]
pub fn render(result: &ResultFile, where_to: &str) -> String {
    let mut page = String::new();
    failures(&mut page, result);
    asked(result).iter().for_each(|(key, text)| line(&mut page, key, text));
    let numbers = result.experiment.bands();
    for vms in &numbers {
        page.push('\n');
        let band = Band::of(result, *vms);
        band.heading(&mut page);
        band.rates(&mut page);
        if numbers.len() == 1 {
            rules(&mut page, result);
        }
        band.medians(&mut page);
    }
    if numbers.len() > 1 {
        page.push('\n');
        rules(&mut page, result);
    }
    if result.summary.iter().any(|row| row.blocks > 0) {
        line(&mut page, "", "`vmmlab list` explains the columns; `vmmlab compare` of the result has their verdicts");
    }
    if let Some(scaling) = scaling::scaling(result) {
        let _ = writeln!(page, "\n{BOLD}{}{BOLD:#}", scaling.title);
        scaling.lines().iter().for_each(|text| {
            let _ = writeln!(page, "{text}");
        });
    }
    notes::notes(&mut page, result);
    page.push('\n');
    line(&mut page, "result", where_to);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}", grid::wrap_command(&format!("{:<8} {}", "again", result.command), 9));
    page
}

/// The result for a mail: 78 columns of ASCII. Several modes are compared, of one the medians are listed.
#[must_use]
pub fn mail(result: &ResultFile) -> String {
    let mut page = String::new();
    let mut line = |key: &str, text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{}", grid::wrap_to(&format!("{key:<8} {text}"), 9, MAIL_COLUMNS));
    };
    asked(result).iter().for_each(|(key, text)| line(key, text));
    line("again", &result.command);
    page.push('\n');
    if let Some(scaling) = scaling::scaling(result) {
        let _ = writeln!(page, "{}\n{}\n", scaling.title, scaling.lines().join("\n"));
    }
    match compare::compare(&[("", result)], &Request::default()) {
        Ok(comparison) => page.push_str(&comparison_text(&comparison, Medium::Mail)),
        Err(_) => page.push_str(&export::medians(result)),
    }
    page
}

/// One line, or more, behind a keyword.
fn line(page: &mut String, key: &str, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}", grid::wrap(&format!("{key:<8} {text}"), 9));
}

fn failures(page: &mut String, result: &ResultFile) {
    for run in result.runs.iter().filter(|run| run.status == RunStatus::Failed) {
        for failure in &run.failures {
            let text = format!("FAILED   {} block {}: {}: {}", run.mode, run.block, failure.check, failure.message);
            let _ = writeln!(page, "{ALARM}{}{ALARM:#}", grid::wrap(&text, 9));
        }
    }
    if result.runs.len() < result.experiment.plans.len() * result.experiment.blocks as usize
        || result.runs.iter().any(|run| run.status == RunStatus::Partial)
    {
        let whole = result.runs.iter().filter(|run| run.status != RunStatus::Partial).count();
        let planned = result.experiment.plans.len() * result.experiment.blocks as usize;
        let text = format!("PARTIAL  stopped before its end: {whole} of {planned} runs are whole and are shown");
        let _ = writeln!(page, "{ALARM}{text}{ALARM:#}");
    }
    if !page.is_empty() {
        page.push('\n');
    }
}

/// What was asked: keywords and what stands behind them. Empty for an experiment without plans.
pub(crate) fn asked(result: &ResultFile) -> Vec<(&'static str, String)> {
    let Some(plan) = result.experiment.plans.first() else { return Vec::new() };
    let mixed = result.experiment.plans.iter().any(|other| other.sched != plan.sched);
    let sched = if mixed { "lab and host" } else { plan.sched.name() };
    let kvm = result.host.kvm.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
    let beside = match plan.neighbour {
        Neighbour::None => "",
        Neighbour::Spin => " beside a neighbour that spins",
        Neighbour::Sleeper => " beside a neighbour that sleeps",
    };
    let run = format!(
        "{} x {} on CPUs {}, {}{beside}, {}{kvm}, {sched} scheduler",
        numbers(&result.experiment.bands(), "VM"),
        plural(plan.vcpus, "vCPU"),
        plan.pcpus,
        plan.workload,
        result.engine
    );
    let blocks = format!(
        "{}; each boots every mode once and measures {} after {} of warm-up; seed {}",
        result.experiment.blocks,
        figure::setting(plan.duration_ns),
        figure::setting(plan.warmup_ns),
        result.seed
    );
    vec![("run", run), ("record", record(plan)), ("sysctls", sysctls(plan, result)), ("blocks", blocks)]
}

fn plural(n: u32, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

/// `1 VM`, `2 VMs`, `1, 2 and 4 VMs`.
pub(crate) fn numbers(numbers: &[u32], one: &str) -> String {
    match numbers {
        [] => plural(0, one),
        [n] => plural(*n, one),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("{} and {}", first.join(", "), plural(*last, one))
        }
    }
}

/// What one record is made of.
fn record(plan: &RunPlan) -> String {
    let p = &plan.params;
    if plan.workload == Workload::Ebizzy {
        return format!(
            "{} of 4 KiB, {}, {} of 1000 end in a flush; {} a vCPU",
            plural(p.chunk_pages, "page"),
            plural(p.search_passes, "search pass").replace("passs", "passes"),
            p.flush_per_mille,
            plural(p.threads_per_vcpu, "thread"),
        );
    }
    let params = plan.workload.params().map(|info| format!("{} {}", info.id, p.get(info.id).unwrap_or_default()));
    format!("{}; {}", plan.workload.about().text, params.collect::<Vec<_>>().join(", "))
}

/// The scheduler's settings as the engine says that they were in force, else as asked.
fn sysctls(plan: &RunPlan, result: &ResultFile) -> String {
    let in_force = |name: &str| result.runs.iter().find_map(|run| run.settings.get(name).copied());
    let mut parts: Vec<String> = [
        ("sched_latency", plan.sched_latency_ns),
        ("sched_min_granularity", plan.sched_min_granularity_ns),
        ("sched_wakeup_granularity", plan.sched_wakeup_granularity_ns),
    ]
    .into_iter()
    .filter_map(|(name, asked)| {
        let ns = in_force(&format!("{name}_ns")).or(asked)?;
        Some(format!("{} {}", name.trim_start_matches("sched_"), figure::setting(ns)))
    })
    .collect();
    parts.push(format!("hz {}", plan.hz));
    let axes = || result.experiment.plans.iter().map(|plan| plan.axes);
    if axes().any(|a| a.host_policy.is_gang()) {
        parts.push(format!("gang_cpus {}", plan.gang_cpus));
    }
    if axes().any(|a| a.spin == plan::Spin::Ple) {
        parts.push(format!("ple_window {}", plan.ple_window_cycles));
    }
    if axes().any(|a| a.spin == plan::Spin::Halt) {
        parts.push(format!("spin_budget {}", plan.spin_budget));
    }
    parts.join(", ")
}

/// The modes with one number of VMs.
struct Band<'a> {
    result: &'a ResultFile,
    vms: u32,
    /// Each mode's plan and row.
    modes: Vec<(&'a RunPlan, &'a RowSummary)>,
}

impl<'a> Band<'a> {
    fn of(result: &'a ResultFile, vms: u32) -> Self {
        let all = result.experiment.plans.iter().zip(&result.summary);
        Self { result, vms, modes: all.filter(|(plan, _)| plan.vms == vms).collect() }
    }

    fn rows(&self) -> impl Iterator<Item = &'a RowSummary> {
        self.modes.iter().map(|(_, row)| *row)
    }

    /// Said only where there are several.
    fn heading(&self, page: &mut String) {
        let Some((plan, _)) = self.modes.first().filter(|_| self.result.experiment.bands().len() > 1) else { return };
        let cpus = u32::try_from(plan.pcpus.as_slice().len()).unwrap_or(u32::MAX);
        let vcpus = plan.vms.saturating_mul(plan.vcpus);
        let text = format!(
            "{}: {} on {}, {} a CPU",
            plural(plan.vms, "VM"),
            plural(vcpus, "vCPU"),
            plural(cpus, "CPU"),
            figure::ratio(f64::from(vcpus) / f64::from(cpus.max(1)))
        );
        let _ = writeln!(page, "{BOLD}{text}{BOLD:#}");
    }

    fn rates(&self, page: &mut String) {
        let rows = || self.rows();
        let axes = |f: fn(&plan::Axes) -> String| self.modes.iter().map(|(p, _)| f(&p.axes)).collect::<Vec<_>>();
        let confidence = rows().filter_map(|row| row.change.as_ref()?.confidence).fold(f64::INFINITY, f64::min);
        let interval_head =
            if confidence.is_finite() { format!("{:.1} % interval", confidence * 100.0) } else { "interval".into() };
        let workload = self.modes.first().map_or(Workload::Ebizzy, |(plan, _)| plan.workload);
        let records = format!("{}/s", workload.about().records);
        let columns = vec![
            Column::words("host policy", axes(|a| a.host_policy.to_string())),
            Column::words("flush", axes(|a| a.flush.to_string())),
            Column::words("spin", axes(|a| a.spin.to_string())),
            Column::words("vCPUs", axes(|a| if a.pin { "pinned" } else { "free" }.into())),
            Column::figures(["", records.as_str()], rows().map(|row| row.records_per_s.map(figure::rate))),
            Column::figures(["", "change"], rows().map(|row| self.change(row))),
            Column::figures(["", interval_head.as_str()], rows().map(interval)),
            Column::words("verdict", rows().map(verdict)),
        ];
        self.push_grid(page, ["", "mode"], columns);
    }

    fn change(&self, row: &RowSummary) -> Option<String> {
        if self.modes.len() < 2 {
            return None;
        }
        if self.result.experiment.reference(&row.mode) == Some(row.mode.as_str()) {
            return Some("reference".into());
        }
        row.change.as_ref().map(|change| format!("{} %", figure::signed(change.percent)))
    }

    /// COST and WHY: medians of every mode.
    fn medians(&self, page: &mut String) {
        let bands = [
            ("cost", bands::COST),
            ("neighbour", bands::NEIGHBOUR),
            ("why", bands::WHY),
            ("locks", bands::LOCKS),
            ("flushes", bands::ACKS),
        ];
        for (name, band) in bands {
            let columns: Vec<Column> = band
                .iter()
                .map(|column| {
                    let cells = self.rows().map(|row| {
                        let runs = self.result.good_runs(&row.mode);
                        let values: Vec<f64> = runs.filter_map(|run| column.value(run)).collect();
                        stats::median(&values).map(|value| column.show(value))
                    });
                    Column::figures(column.head, cells)
                })
                .collect();
            if columns.iter().any(|column| column.cells.iter().any(|cell| cell != figure::MISSING)) {
                page.push('\n');
                self.push_grid(page, [name, "mode"], columns);
            }
        }
    }

    fn push_grid(&self, page: &mut String, head: [&str; 2], columns: Vec<Column>) {
        let labels: Vec<&str> = self.rows().map(|row| in_band(&row.mode, self.vms)).collect();
        for (i, text) in grid::lines(head, &labels, columns).into_iter().enumerate() {
            let _ = match (i, text.is_empty()) {
                (0, true) => Ok(()),
                (0 | 1, _) => writeln!(page, "{BOLD}{text}{BOLD:#}"),
                _ => writeln!(page, "{text}"),
            };
        }
    }
}

/// What to know when reading the verdicts.
fn rules(page: &mut String, result: &ResultFile) {
    let changes = || result.summary.iter().filter_map(|row| row.change.as_ref());
    let blocks = changes().map(|change| change.blocks).min();
    if let Some(blocks) = blocks.filter(|blocks| *blocks < BLOCKS_MIN) {
        let there = if blocks == 1 { "is 1".into() } else { format!("are {blocks}") };
        let text = format!(
            "no verdict: {BLOCKS_MIN} complete blocks are needed and there {there}, so a change is a figure, not a \
             finding; see --blocks"
        );
        line(page, "", &text);
    } else if changes().any(|change| change.verdict == Some(Verdict::Unclear)) {
        let compared = changes().count();
        let over = if compared > 1 { format!(", corrected for {compared} comparisons") } else { String::new() };
        let text = format!("UNCLEAR (n): n blocks would settle it, if the change stays what it is{over}; see --blocks");
        line(page, "", &text);
    }
}

/// The verdict, and for UNCLEAR the blocks that would settle it.
fn verdict(row: &RowSummary) -> String {
    let change = row.change.as_ref();
    match change.and_then(|change| Some((change.verdict?, change.blocks_to_settle))) {
        None => figure::MISSING.into(),
        Some((Verdict::Unclear, Some(blocks))) => format!("UNCLEAR ({blocks})"),
        Some((verdict, _)) => verdict.to_string(),
    }
}

fn interval(row: &RowSummary) -> Option<String> {
    let [low, high] = row.change.as_ref()?.interval_percent?;
    Some(format!("[{}, {}] %", figure::signed(low), figure::signed(high)))
}
