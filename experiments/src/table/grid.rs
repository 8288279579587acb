//! Columns of text, aligned, never wider than the page.

use super::figure::MISSING;

/// The page: reports are at most this many columns wide.
pub(crate) const PAGE_COLUMNS: usize = 100;

/// A label longer than this stands on a line of its own.
const LABEL_COLUMNS: usize = 14;

/// A column: two lines of heading, one cell a row.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) head: [String; 2],
    pub(crate) cells: Vec<String>,
    pub(crate) left: bool,
}

impl Column {
    /// Figures, aligned right; `None` is shown as missing.
    pub(crate) fn figures(head: [&str; 2], cells: impl IntoIterator<Item = Option<String>>) -> Self {
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| MISSING.into())).collect();
        Self { head: head.map(str::to_owned), cells, left: false }
    }

    /// Words, aligned left.
    pub(crate) fn words(head: &str, cells: impl IntoIterator<Item = String>) -> Self {
        Self { head: [String::new(), head.into()], cells: cells.into_iter().collect(), left: true }
    }

    fn width(&self) -> usize {
        self.head.iter().chain(&self.cells).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// True if a row with that label takes two lines.
pub(crate) fn is_long(label: &str) -> bool {
    label.chars().count() > LABEL_COLUMNS
}

/// Lays out `columns` behind row labels; a column without any value is left out. The first two lines are the heading.
pub(crate) fn lines(label_head: [&str; 2], labels: &[&str], columns: Vec<Column>) -> Vec<String> {
    let columns: Vec<Column> = columns.into_iter().filter(|c| c.cells.iter().any(|cell| cell != MISSING)).collect();
    let label_width = labels.iter().chain(&label_head).filter(|l| !is_long(l)).map(|l| l.len()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let natural = label_width + widths.iter().sum::<usize>();
    let gap = if natural + 2 * columns.len() + 2 > PAGE_COLUMNS { 1 } else { 2 };
    let line = |label: &str, cells: &mut dyn Iterator<Item = &String>| {
        let mut text = format!("  {label:label_width$}");
        for ((cell, column), width) in cells.zip(&columns).zip(&widths) {
            let cell = if column.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            text.push_str(&format!("{:gap$}{cell}", ""));
        }
        text.trim_end().to_owned()
    };
    let mut lines: Vec<String> = (0..2).map(|i| line(label_head[i], &mut columns.iter().map(|c| &c.head[i]))).collect();
    for (row, label) in labels.iter().enumerate() {
        let mut label = *label;
        if is_long(label) {
            lines.push(format!("  {label}"));
            label = "";
        }
        lines.push(line(label, &mut columns.iter().map(|c| &c.cells[row])));
    }
    lines
}

/// Breaks `text` at spaces so that every line fits the page; the later ones are indented by `indent`.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    broken(text, indent, "", PAGE_COLUMNS)
}

/// Breaks `text` as [`wrap`] does, for a page of another width.
pub(crate) fn wrap_to(text: &str, indent: usize, width: usize) -> String {
    broken(text, indent, "", width)
}

/// Breaks a command as [`wrap`] does, in the way of a shell: it can be pasted whole.
pub(crate) fn wrap_command(text: &str, indent: usize) -> String {
    broken(text, indent, " \\", PAGE_COLUMNS)
}

/// Breaks `text`; every line but the last ends in `mark`.
fn broken(text: &str, indent: usize, mark: &str, columns: usize) -> String {
    let body = text.trim_start_matches(' ');
    let mut wrapped = " ".repeat(text.len() - body.len());
    let mut column = wrapped.len();
    let mut first = true;
    for word in body.split(' ') {
        let width = word.chars().count();
        if !first && column + 1 + width + mark.len() > columns {
            wrapped.push_str(mark);
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            (column, first) = (indent, true);
        }
        if !first {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        (column, first) = (column + width, false);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_line_up_and_empty_columns_are_left_out() {
        let columns = vec![
            Column::figures(["", "a"], [Some("1".into()), None]),
            Column::figures(["", "none"], [None, None]),
            Column::figures(["two", "b"], [Some("100".into()), Some("2".into())]),
        ];
        let found = lines(["", "mode"], &["base", "gang+flush=pvflush"], columns);
        assert_eq!(
            found,
            ["           two", "  mode  a    b", "  base  1  100", "  gang+flush=pvflush", "        -    2"]
        );
    }

    #[test]
    fn a_broken_command_is_still_one_command() {
        let text = wrap_command(&format!("again    vmmlab run {}", "--mode base ".repeat(20).trim_end()), 9);
        let lines: Vec<&str> = text.lines().collect();
        let (last, others) = lines.split_last().unwrap();
        assert!(!others.is_empty() && others.iter().all(|l| l.ends_with(" \\") && l.len() <= PAGE_COLUMNS), "{text}");
        assert!(!last.ends_with('\\'));
    }

    #[test]
    fn long_texts_are_broken_and_indented() {
        assert_eq!(wrap("  key   text", 4), "  key   text");
        let text = wrap(&"word ".repeat(40), 4);
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= PAGE_COLUMNS));
        assert!(text.lines().skip(1).all(|line| line.starts_with("    w")));
    }
}
