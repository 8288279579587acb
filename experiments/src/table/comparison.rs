//! A comparison as text: on a terminal (`--format table`, 100 columns) and in a mail (`--format lkml`, 78 columns of ASCII).
//!
//! Order: what failed, what was compared, PRIMARY of all pairs, then COST and WHY of each. Words say what colours repeat.

use std::fmt::Write;

use plan::metric::{Direction, Family};

use super::layout::{Line, lay_out};
use super::words::{better, change_text, interval_text, missing, says_something, title, value, verdict_text};
use super::{ALARM, BOLD, grid};
use crate::compare::{Comparison, Design, Outcome, Pair, Row, Verdict};

/// Where the text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// A terminal: 100 columns, styles.
    Terminal,
    /// A mail: 78 columns, plain.
    Mail,
}

impl Medium {
    fn width(self) -> usize {
        match self {
            Self::Terminal => grid::PAGE_COLUMNS,
            Self::Mail => super::MAIL_COLUMNS,
        }
    }

    /// WHY rows that are shown; the others are counted.
    fn why_rows(self) -> usize {
        match self {
            Self::Terminal => 12,
            Self::Mail => 8,
        }
    }
}

/// The whole page.
#[must_use]
pub fn text(comparison: &Comparison, medium: Medium) -> String {
    let mut page = Page { text: String::new(), medium };
    page.failed(comparison);
    page.inputs(comparison);
    page.primary(comparison);
    for pair in &comparison.pairs {
        page.mechanism(comparison, pair);
    }
    page.foot(comparison);
    page.text
}

struct Page {
    text: String,
    medium: Medium,
}

impl Page {
    /// Words behind a keyword, broken to the width.
    fn line(&mut self, key: &str, words: &str) {
        let text = grid::wrap_to(&format!("{key:<8} {words}"), 9, self.medium.width());
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{text}");
    }

    fn styled(&mut self, style: clap::builder::styling::Style, text: &str) {
        let _ = match self.medium {
            Medium::Terminal => writeln!(self.text, "{style}{text}{style:#}"),
            Medium::Mail => writeln!(self.text, "{text}"),
        };
    }

    fn failed(&mut self, comparison: &Comparison) {
        for run in &comparison.failed {
            let side = side_name(comparison, run.input);
            for failure in &run.failures {
                let text =
                    format!("FAILED   {side}{} block {}: {}: {}", run.mode, run.block, failure.check, failure.message);
                let text = grid::wrap_to(&text, 9, self.medium.width());
                self.styled(ALARM, &text);
            }
        }
        if !comparison.failed.is_empty() {
            self.text.push('\n');
        }
    }

    fn inputs(&mut self, comparison: &Comparison) {
        for (i, input) in comparison.inputs.iter().enumerate() {
            let key = if comparison.inputs.len() == 1 {
                "result"
            } else if i == 0 {
                "old"
            } else {
                "new"
            };
            if !input.path.is_empty() {
                let blocks = input.blocks;
                self.line(
                    key,
                    &format!(
                        "{}: {}, {}, {blocks} blocks, seed {}",
                        input.path, input.engine, input.started, input.seed
                    ),
                );
            }
        }
        for difference in &comparison.ignored {
            let (field, old, new) = (&difference.field, &difference.old, &difference.new);
            self.line("ignored", &format!("{field}: {old} / {new}"));
        }
        for notice in &comparison.notices {
            self.line("notice", notice);
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn primary(&mut self, comparison: &Comparison) {
        let several = comparison.pairs.len() > 1;
        let mut lines = Vec::new();
        for pair in comparison.pairs.iter().filter(|pair| !pair.identical) {
            if !several {
                lines.push(Line::Words(String::new()));
            }
            for row in pair.band(Family::Primary) {
                let title = title(comparison, row);
                let label = if several { format!("  {}: {title}", pair.new.label) } else { format!("  {title}") };
                lines.push(self.cells(comparison, label, row));
            }
        }
        if !several {
            self.pair_heading(comparison.pairs.first());
            lines.retain(|line| *line != Line::Words(String::new()));
        }
        if !lines.is_empty() {
            self.table(comparison, "PRIMARY", lines, comparison.pairs.iter());
        }
        if several {
            for pair in comparison.pairs.iter().filter(|pair| pair.identical) {
                self.pair_heading(Some(pair));
            }
        }
    }

    /// COST and WHY of a pair.
    fn mechanism(&mut self, comparison: &Comparison, pair: &Pair) {
        if pair.identical {
            return;
        }
        if comparison.pairs.len() > 1 {
            self.text.push('\n');
            self.pair_heading(Some(pair));
        }
        let cost: Vec<&Row> = pair.band(Family::Cost).filter(|row| says_something(row)).collect();
        let why: Vec<&Row> = pair.band(Family::Why).filter(|row| says_something(row)).collect();
        let lines = |page: &Self, rows: &[&Row]| -> Vec<Line> {
            rows.iter().map(|row| page.cells(comparison, format!("  {}", title(comparison, row)), row)).collect()
        };
        let shown = why.len().min(self.medium.why_rows());
        let mut all = lines(self, &cost);
        if !all.is_empty() && !why.is_empty() {
            all.push(Line::Words("WHY, largest effect first".into()));
        }
        all.extend(lines(self, &why[..shown]));
        let heading = if cost.is_empty() { "WHY, largest effect first" } else { "COST" };
        if !all.is_empty() {
            self.table(comparison, heading, all, [pair].into_iter());
        }
        if why.len() > shown {
            let _ = writeln!(self.text, "  and {} more: --format markdown, csv, json or html", why.len() - shown);
        }
    }

    fn pair_heading(&mut self, pair: Option<&Pair>) {
        let Some(pair) = pair else { return };
        let (old, new) = (&pair.old, &pair.new);
        let blocks = match pair.design {
            Design::Paired => format!("{} paired blocks", new.blocks.len()),
            Design::Unpaired => format!("{} and {} blocks, not paired", old.blocks.len(), new.blocks.len()),
        };
        let names =
            if old.label == new.label { new.label.clone() } else { format!("{} against {}", new.label, old.label) };
        let text = match pair.identical {
            true => format!("{names}: IDENTICAL, {blocks} are the same to the bit"),
            false => format!("{names}: {blocks}"),
        };
        let text = grid::wrap_to(&text, 2, self.medium.width());
        self.styled(BOLD, &text);
    }

    /// A table with its heading.
    fn table<'a>(
        &mut self,
        comparison: &Comparison,
        heading: &str,
        mut lines: Vec<Line>,
        pairs: impl Iterator<Item = &'a Pair>,
    ) {
        let reached = pairs
            .flat_map(|pair| &pair.rows)
            .filter_map(|row| row.change.as_ref()?.interval)
            .map(|interval| interval.confidence)
            .fold(f64::INFINITY, f64::min);
        let interval =
            if reached.is_finite() { format!("{:.1} % interval", reached * 100.0) } else { "interval".into() };
        let mut head: Vec<String> = ["old", "new", "change", &interval].map(str::to_owned).into();
        if self.medium == Medium::Terminal {
            head.push("better".into());
        }
        head.push("verdict".into());
        let left = [head.len() - 2, head.len() - 1];
        let left = if self.medium == Medium::Terminal { &left[..] } else { &left[1..] };
        lines.insert(0, Line::Cells(heading.into(), head));
        let _ = comparison;
        for (i, text) in lay_out(&lines, left, self.medium.width()).into_iter().enumerate() {
            let is_heading = i == 0 || text.starts_with("WHY");
            if is_heading {
                self.styled(BOLD, &text);
            } else {
                let _ = writeln!(self.text, "{text}");
            }
        }
    }

    fn cells(&self, comparison: &Comparison, label: String, row: &Row) -> Line {
        let unit = comparison.metric(&row.metric).map_or("", |metric| &*metric.unit);
        let mut cells = vec![
            value(unit, row.old.centre),
            value(unit, row.new.centre),
            row.change.as_ref().map_or_else(missing, |change| change_text(unit, change)),
            row.change.as_ref().and_then(interval_text).unwrap_or_else(missing),
        ];
        if self.medium == Medium::Terminal {
            cells.push(comparison.metric(&row.metric).map_or_else(missing, |m| better(m.direction).into()));
        }
        cells.push(verdict_text(row, self.medium == Medium::Terminal));
        Line::Cells(label, cells)
    }

    fn foot(&mut self, comparison: &Comparison) {
        let rows = || comparison.pairs.iter().flat_map(|pair| &pair.rows);
        let rules = &comparison.rules;
        self.text.push('\n');
        let any = |verdict| rows().any(|row| row.verdict == Some(verdict));
        if self.medium == Medium::Mail {
            let higher: Vec<&str> = comparison
                .metrics
                .iter()
                .filter(|metric| metric.direction == Direction::Higher)
                .map(|metric| &*metric.title)
                .collect();
            if !higher.is_empty() {
                self.line("better", &format!("more of {}; less of the others", higher.join(", ")));
            }
        }
        let settles = rows().any(|row| row.verdict == Some(Verdict::Unclear) && row.blocks_to_settle.is_some());
        if settles && self.medium == Medium::Terminal {
            self.line("unclear", "in brackets: blocks a side that would settle it, if the change stays what it is");
        }
        if any(Verdict::Differs) {
            self.line("differs", "beyond its margin; neither side of such a metric is better");
        }
        if rules.holm_over + rules.bh_over > 0 {
            let text = format!(
                "alpha {} after Holm's correction over {} primary rows; the other {} by Benjamini-Hochberg",
                rules.alpha, rules.holm_over, rules.bh_over
            );
            self.line("rules", &text);
        }
        self.line("outcome", outcome_text(comparison.outcome));
    }
}

fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "no regression",
        Outcome::Regression => "REGRESSION",
        Outcome::Inconclusive => "inconclusive: a primary metric is not settled, or an old run failed",
    }
}

/// `old ` or `new `, where there are two results.
fn side_name(comparison: &Comparison, input: usize) -> &'static str {
    match (comparison.inputs.len(), input) {
        (1, _) => "",
        (_, 0) => "old ",
        _ => "new ",
    }
}
