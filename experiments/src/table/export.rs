//! Results and comparisons for other programs and for wikis: tidy CSV, Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use plan::RunStatus;
use plan::metric::{Family, METRICS, Metric};

use super::layout::{Line, lay_out};
use super::words::{better, change_text, interval_text, says_something, title, value, verdict_text};
use crate::compare::{Comparison, Design, Row, Verdict};
use crate::reproduce;
use crate::result::ResultFile;

/// One row a block, metric and mode: `result,mode,block,seed,metric,unit,value`. Numbers are written so that reading them
/// gives the same bits; what was not measured has no row.
#[must_use]
pub fn comparison_csv(comparison: &Comparison) -> String {
    let mut table = Csv::new(&["result", "mode", "block", "seed", "metric", "unit", "value"]);
    let mut seen = BTreeSet::new();
    for pair in &comparison.pairs {
        for (side, is_old) in [(&pair.old, true), (&pair.new, false)] {
            let path = comparison.inputs.get(side.input).map_or("", |input| &input.path);
            for row in &pair.rows {
                let unit = comparison.metric(&row.metric).map_or("", |metric| &*metric.unit);
                let values = if is_old { &row.old } else { &row.new };
                for ((block, seed), value) in side.blocks.iter().zip(&side.seeds).zip(&values.by_block) {
                    // The reference stands in several pairs and once in the table.
                    if let (Some(value), true) = (value, seen.insert((side.input, &side.mode, block, &row.metric))) {
                        let [block, seed, value] = [block.to_string(), seed.to_string(), value.to_string()];
                        table.row(&[path, &side.mode, &block, &seed, &row.metric, unit, &value]);
                    }
                }
            }
        }
    }
    table.end()
}

/// One row a block, metric and mode of every run that passed its checks: `mode,block,seed,metric,unit,value`.
#[must_use]
pub fn result_csv(result: &ResultFile) -> String {
    let mut table = Csv::new(&["mode", "block", "seed", "metric", "unit", "value"]);
    for run in result.runs.iter().filter(|run| run.status == RunStatus::Ok) {
        let [block, seed] = [run.block.to_string(), run.seed.to_string()];
        for metric in METRICS {
            if let Some(value) = metric.value(run) {
                table.row(&[&run.mode, &block, &seed, &metric.id, &metric.unit, &value.to_string()]);
            }
        }
    }
    table.end()
}

/// A reproduction as tidy CSV: one row a cell.
#[must_use]
pub fn reproduction_csv(tables: &[reproduce::Table]) -> String {
    let mut table = Csv::new(&["table", "row", "column", "published", "ours", "ratio"]);
    for (id, cell) in tables.iter().flat_map(|table| table.cells.iter().map(|cell| (&table.id, cell))) {
        let [published, ours, ratio] = [cell.published, cell.ours, cell.ratio].map(number);
        table.row(&[id, &cell.row, &cell.column, &published, &ours, &ratio]);
    }
    table.end()
}

/// The shortest text that reads back as the same number; empty if there is none.
fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// CSV in memory.
struct Csv(csv::Writer<Vec<u8>>);

impl Csv {
    fn new(head: &[&str]) -> Self {
        let mut table = Self(csv::Writer::from_writer(Vec::new()));
        table.row(head);
        table
    }

    fn row(&mut self, cells: &[&str]) {
        // Writing to memory cannot fail, and all rows are equally long.
        let _ = self.0.write_record(cells);
    }

    fn end(self) -> String {
        // What went in was UTF-8.
        self.0.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// A comparison as Markdown tables.
#[must_use]
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut page = String::new();
    for run in &comparison.failed {
        for failure in &run.failures {
            let text = format!("{} block {}: {}: {}", run.mode, run.block, failure.check, failure.message);
            let _ = writeln!(page, "- **FAILED** {}", cell(&text));
        }
    }
    for input in comparison.inputs.iter().filter(|input| !input.path.is_empty()) {
        let (path, engine, started) = (&input.path, &input.engine, &input.started);
        let _ = writeln!(page, "- `{path}`: {engine}, {started}, {} blocks, seed {}", input.blocks, input.seed);
    }
    for notice in &comparison.notices {
        let _ = writeln!(page, "- {}", cell(notice));
    }
    for pair in &comparison.pairs {
        let blocks = match pair.design {
            Design::Paired => format!("{} paired blocks", pair.new.blocks.len()),
            Design::Unpaired => format!("{} and {} blocks", pair.old.blocks.len(), pair.new.blocks.len()),
        };
        let (old, new) = (cell(&pair.old.label), cell(&pair.new.label));
        let _ = writeln!(page, "\n### {new} against {old}, {blocks}\n");
        if pair.identical {
            let _ = writeln!(page, "**IDENTICAL**: the same simulated runs to the bit.");
            continue;
        }
        page.push_str(
            "| | metric | old | new | change | interval | better | verdict |\n|---|---|--:|--:|--:|--:|---|---|\n",
        );
        for family in Family::ALL {
            for row in pair.band(family).filter(|row| says_something(row)) {
                markdown_row(&mut page, comparison, row);
            }
        }
    }
    page
}

fn markdown_row(page: &mut String, comparison: &Comparison, row: &Row) {
    let Some(metric) = comparison.metric(&row.metric) else { return };
    let sure = matches!(row.verdict, Some(Verdict::Better | Verdict::Worse));
    let mark = if sure { "**" } else { "" };
    let _ = writeln!(
        page,
        "| {} | {} | {} | {} | {} | {} | {} | {mark}{}{mark} |",
        row.family.name(),
        cell(title(comparison, row)),
        value(&metric.unit, row.old.centre),
        value(&metric.unit, row.new.centre),
        row.change.as_ref().map_or_else(|| "-".into(), |change| change_text(&metric.unit, change)),
        row.change.as_ref().and_then(interval_text).unwrap_or_else(|| "-".into()),
        better(metric.direction),
        verdict_text(row, true),
    );
}

/// Text that stays inside a cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// The medians of a result as text: a line a metric, a column a mode.
pub(super) fn medians(result: &ResultFile) -> String {
    let head = result.summary.iter().map(|row| row.mode.clone()).collect();
    let mut lines = vec![Line::Cells("median".into(), head)];
    for metric in measured(result) {
        let cells = result.summary.iter().map(|row| value(&metric.unit, median_of(result, &row.mode, metric)));
        lines.push(Line::Cells(metric.title.to_string(), cells.collect()));
    }
    lay_out(&lines, &[], super::MAIL_COLUMNS).iter().fold(String::new(), |page, line| page + line + "\n")
}

/// The metrics of which any run has more than zero.
fn measured(result: &ResultFile) -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| result.runs.iter().any(|run| metric.value(run).is_some_and(|value| value != 0.0)))
}

fn median_of(result: &ResultFile, mode: &str, metric: &Metric) -> Option<f64> {
    stats::median(&result.good_runs(mode).filter_map(|run| metric.value(run)).collect::<Vec<_>>())
}

/// The runs of a result by their medians, as a Markdown table.
#[must_use]
pub fn result_markdown(result: &ResultFile) -> String {
    let mut page = String::from("| metric |");
    for row in &result.summary {
        let _ = write!(page, " {} |", cell(&row.mode));
    }
    page.push_str("\n|---|");
    page.push_str(&"--:|".repeat(result.summary.len()));
    page.push('\n');
    for metric in measured(result) {
        let _ = write!(page, "| {} |", cell(&metric.title));
        for row in &result.summary {
            let _ = write!(page, " {} |", value(&metric.unit, median_of(result, &row.mode, metric)));
        }
        page.push('\n');
    }
    page.extend(super::scaling::scaling(result).map(|scaling| scaling.markdown()));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reproduction_reads_back_from_csv_to_the_bit() {
        let figures = [0.1 + 0.2, -1e-300, 5_321_974.25, f64::MIN_POSITIVE, 1.0 / 3.0];
        let cells = figures.map(|figure| reproduce::Cell {
            row: "2 VMs, \"staggered\"".into(),
            column: "pv_flush".into(),
            published: None,
            ours: Some(figure),
            ratio: Some(figure / 3.0),
        });
        let table = reproduce::Table { id: "t".into(), title: String::new(), notes: Vec::new(), cells: cells.into() };
        let text = reproduction_csv(&[table]);
        let read: Vec<csv::StringRecord> =
            csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap).collect();
        assert_eq!(read.len(), figures.len());
        for (record, figure) in read.iter().zip(figures) {
            assert_eq!((&record[1], &record[3]), ("2 VMs, \"staggered\"", ""));
            assert_eq!(record[4].parse::<f64>().unwrap().to_bits(), figure.to_bits());
            assert_eq!(record[5].parse::<f64>().unwrap().to_bits(), (figure / 3.0).to_bits());
        }
    }
}
