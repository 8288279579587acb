//! Progress on stderr: a bar on a terminal, one line a block elsewhere. stdout never sees it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{RunRecord, RunStatus};

use crate::driver::{Job, Observer};
use crate::experiment::Experiment;
use crate::table::figure;

/// Shows how far a run or a sweep is.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    blocks_done: usize,
    blocks: usize,
    /// What stands before the block: the names of the points, empty for a single run.
    points: Vec<String>,
}

impl Progress {
    /// Progress over `runs` runs in `blocks` blocks.
    pub(super) fn new(runs: usize, blocks: usize, points: Vec<String>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
            // Without colours: nothing for NO_COLOR and --color to take away. The template is a constant.
            if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} runs, {eta} left  {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, blocks_done: 0, blocks, points }
    }

    /// Takes the bar away, so that the result can be printed.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| anstream::eprintln!("{text}")),
            None => anstream::eprintln!("{text}"),
        }
    }
}

impl Observer for Progress {
    fn run_done(&mut self, experiment: &Experiment, record: &RunRecord) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("block {} {}", record.block, outcome(experiment, record)));
            bar.inc(1);
        }
    }

    fn block_done(&mut self, job: Job, experiment: &Experiment, records: &[RunRecord]) {
        self.blocks_done += 1;
        let failed = records.iter().any(|run| run.status == RunStatus::Failed);
        if self.bar.is_none() || failed {
            let runs: Vec<_> = records.iter().map(|record| outcome(experiment, record)).collect();
            let point = self.points.get(job.work).filter(|name| !name.is_empty());
            let point = point.map(|name| format!("{name} ")).unwrap_or_default();
            self.say(&format!(
                "[{}/{}] {point}block {}: {}",
                self.blocks_done,
                self.blocks,
                job.block,
                runs.join(", ")
            ));
        }
    }
}

/// A run in a few words.
fn outcome(experiment: &Experiment, record: &RunRecord) -> String {
    let mode = &record.mode;
    match record.status {
        RunStatus::Ok => {
            let records = experiment.plans.first().map_or("records", |plan| plan.workload.about().records);
            format!("{mode} {} {records}/s", figure::rate(record.records_per_s))
        }
        RunStatus::Partial => format!("{mode} stopped"),
        RunStatus::Failed => {
            let checks: Vec<_> = record.failures.iter().map(|failure| failure.check.as_str()).collect();
            format!("{mode} FAILED: {}", checks.join(" "))
        }
    }
}
