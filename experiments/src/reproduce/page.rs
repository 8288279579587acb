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
    line("");
    line("Demands");
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
    line("Not reproduced, or not well");
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
        let value: serde_json::Value = serde_json::from_str(&json(&r)).unwrap();
        assert_eq!(value["score"]["signs_all"], 2);
        assert!(value["tables"][0]["cells"][0]["ours"].is_null());
    }
}
