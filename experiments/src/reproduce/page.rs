//! The page: published and ours side by side, the demands, and what is missing, in words.
use std::fmt::Write;

use super::{Reproduction, Table};

/// Columns of the text page.
const WIDTH: usize = 100;

/// The page as text.
#[must_use]
pub fn text(r: &Reproduction) -> String {
    let mut page = String::new();
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    line(&r.title);
    line(&format!("seed {}, {} protocol; {}", r.seed, r.protocol, r.setup));
    for table in &r.tables {
        line("");
        line(&format!("{}: {}", table.id, table.title));
        table.notes.iter().for_each(|note| wrap(note, "  ", &mut line));
        rows(table, &mut line);
    }
    if !r.checks.is_empty() {
        line("");
        line("Demands");
    }
    for check in &r.checks {
        let verdict = if check.met { "met   " } else { "MISSED" };
        let fitted = if check.fitted { " (fitted)" } else { "" };
        line(&format!("  {verdict} {}{fitted}: {}", check.demand, check.found));
    }
    line("");
    if r.score.signs_all > 0 {
        line(&format!("{}: {} of {} right", r.score_counts, r.score.signs_right, r.score.signs_all));
        for (workload, score) in &r.scores {
            line(&format!("  the same of {workload}: {} of {}", score.signs_right, score.signs_all));
        }
        line("");
    }
    if !r.missing.is_empty() {
        line("Not reproduced, or not well");
    }
    r.missing.iter().for_each(|text| wrap(text, "  - ", &mut line));
    line("");
    line(&format!("again    vmmlab reproduce {}{} --seed {}", r.experiment, quick(r), r.seed));
    page
}

fn quick(r: &Reproduction) -> &'static str {
    if r.protocol == "quick" { " --quick" } else { "" }
}

fn rows(table: &Table, line: &mut impl FnMut(&str)) {
    let wide = |of: fn(&super::Cell) -> &str| table.cells.iter().map(|c| of(c).len()).max().unwrap_or(0);
    let (rows, columns) = (wide(|c| &c.row).max(4), wide(|c| &c.column).max(6));
    line(&format!("  {:rows$}  {:columns$}  {:>12}  {:>12}  {:>6}", "", "", "published", "ours", "ratio"));
    let mut last = "";
    for cell in &table.cells {
        let row = if cell.row == last { "" } else { &*cell.row };
        last = &cell.row;
        let ratio = cell.ratio.map_or_else(|| "-".into(), |r| format!("{r:.2}"));
        let (published, ours) = (figure(cell.published), figure(cell.ours));
        line(&format!("  {row:rows$}  {:columns$}  {published:>12}  {ours:>12}  {ratio:>6}", cell.column));
    }
}

/// Three digits at least; a missing value is a dash.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(x) if x.abs() >= 1000.0 => format!("{x:.0}"),
        Some(x) if x.abs() >= 10.0 => format!("{x:.1}"),
        Some(x) => format!("{x:.2}"),
    }
}

fn wrap(text: &str, first: &str, line: &mut impl FnMut(&str)) {
    let mut current = first.to_owned();
    let indent = " ".repeat(first.len());
    for word in text.split_whitespace() {
        if current.len() + 1 + word.len() > WIDTH {
            line(&current);
            current.clone_from(&indent);
        }
        if current.trim_start_matches(['-', ' ']).is_empty() {
            let _ = write!(current, "{word}");
        } else {
            let _ = write!(current, " {word}");
        }
    }
    line(&current);
}

/// The page as Markdown: a table has a line for each row, and each of its cells is ours / published.
#[must_use]
pub fn markdown(r: &Reproduction) -> String {
    let mut page = format!("# {}\n\n", r.title);
    let again = format!("vmmlab reproduce {}{} --seed {}", r.experiment, quick(r), r.seed);
    let _ = writeln!(page, "Made by `{again} --format markdown`: change the program, not this page.\n");
    let _ = writeln!(page, "Seed {}, {} protocol; {}.\n", r.seed, r.protocol, r.setup);
    if r.tables.iter().flat_map(|table| &table.cells).any(|cell| cell.published.is_some()) {
        page += "Numbers are *ours / published*; a number alone is ours, and nothing is published for it.\n";
    }
    for table in &r.tables {
        let _ = writeln!(page, "\n## {}\n\n{}{}.", table.id, table.title[..1].to_uppercase(), &table.title[1..]);
        table.notes.iter().for_each(|note| page += &format!("{note}\n"));
        page.push('\n');
        markdown_rows(table, &mut page);
    }
    if !r.checks.is_empty() {
        page += "\n## Demands\n\n| | demand | found |\n|---|---|---|\n";
    }
    for check in &r.checks {
        let verdict = if check.met { "met" } else { "**missed**" };
        let fitted = if check.fitted { " (fitted)" } else { "" };
        let _ = writeln!(page, "| {verdict} | {}{fitted} | {} |", check.demand, check.found);
    }
    if r.score.signs_all > 0 {
        let _ = writeln!(page, "\n{}: {} of {} right.", r.score_counts, r.score.signs_right, r.score.signs_all);
        for (workload, score) in &r.scores {
            let _ = writeln!(page, "The same of {workload}: {} of {}.", score.signs_right, score.signs_all);
        }
    }
    if !r.missing.is_empty() {
        page += "\n## Not reproduced, or not well\n\n";
    }
    r.missing.iter().for_each(|text| page += &format!("- {text}\n"));
    page
}

/// The rows and columns in the order in which the cells name them first.
fn markdown_rows(table: &Table, page: &mut String) {
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for cell in &table.cells {
        if !rows.contains(&&*cell.row) {
            rows.push(&cell.row);
        }
        if !columns.contains(&&*cell.column) {
            columns.push(&cell.column);
        }
    }
    let _ = writeln!(page, "| | {} |\n|---|{}", columns.join(" | "), "---:|".repeat(columns.len()));
    for row in rows {
        let _ = write!(page, "| {row} |");
        for column in &columns {
            let cell = table.cells.iter().find(|cell| cell.row == row && cell.column == *column);
            let text = cell.map_or_else(String::new, |cell| match cell.published {
                Some(_) => format!("{} / {}", figure(cell.ours), figure(cell.published)),
                None => figure(cell.ours),
            });
            let _ = write!(page, " {text} |");
        }
        page.push('\n');
    }
}

/// The same for scripts.
#[must_use]
pub fn json(r: &Reproduction) -> String {
    // Plain data with string keys: it cannot fail to serialize.
    format!("{}\n", serde_json::to_string_pretty(r).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Check, Reproduction, Score, Table};
    use super::*;

    #[test]
    fn a_missing_value_is_a_dash_and_no_line_is_too_long() {
        let cell = |published, ours| Cell { row: "2 VMs".into(), column: "base".into(), published, ours, ratio: None };
        let notes = vec!["word ".repeat(60)];
        let cells = vec![cell(Some(3979.5), None), cell(None, Some(0.125))];
        let table = Table { id: "t".into(), title: "title".into(), notes, cells };
        let check = Check { demand: "a < b".into(), found: "1, 2".into(), met: true, fitted: true };
        let r = Reproduction {
            schema: super::super::SCHEMA,
            experiment: "gang-cfs",
            title: "Title".into(),
            setup: "machines".into(),
            seed: 7,
            protocol: "quick",
            tables: vec![table],
            checks: vec![check],
            score: Score { signs_right: 1, signs_all: 2 },
            scores: [("dbench".to_owned(), Score { signs_right: 0, signs_all: 3 })].into(),
            score_counts: "Signs".into(),
            missing: vec!["word ".repeat(60)],
        };
        let page = text(&r);
        assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        assert!(page.contains("3980             -") && page.contains("-          0.12"), "{page}");
        assert!(page.contains("Signs: 1 of 2 right\n  the same of dbench: 0 of 3\n"), "{page}");
        assert!(page.ends_with("again    vmmlab reproduce gang-cfs --quick --seed 7\n"), "{page}");
        let page = markdown(&r);
        assert!(page.contains("| 2 VMs | - / 3980 |") && page.contains("| met | a < b (fitted) | 1, 2 |"), "{page}");
        let value: serde_json::Value = serde_json::from_str(&json(&r)).unwrap();
        assert_eq!(value["score"]["signs_all"], 2);
        assert!(value["tables"][0]["cells"][0]["ours"].is_null());
    }
}
