//! Rows of text under one heading, for pages of any width: comparisons on a terminal and in a mail.

/// One line of a table: a label and its cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A label with a cell a column.
    Cells(String, Vec<String>),
    /// Words over the whole width.
    Words(String),
}

/// Lays out `lines` in at most `width` columns. Columns whose place is in `left` are aligned left. A label that finds no
/// place stands on a line of its own.
pub(crate) fn lay_out(lines: &[Line], left: &[usize], width: usize) -> Vec<String> {
    let cells = || {
        lines.iter().filter_map(|line| if let Line::Cells(label, cells) = line { Some((label, cells)) } else { None })
    };
    let columns = cells().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|i| cells().filter_map(|(_, cells)| cells.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let label_width = cells().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let room = |gap: usize| width.saturating_sub(widths.iter().map(|w| w + gap).sum());
    let gap = if label_width <= room(2) { 2 } else { 1 };
    let label_width = label_width.min(room(gap));
    let mut page = Vec::new();
    for line in lines {
        let (label, cells) = match line {
            Line::Words(words) => {
                page.push(words.clone());
                continue;
            }
            Line::Cells(label, cells) => (label, cells),
        };
        let mut label = label.as_str();
        if label.chars().count() > label_width {
            page.push(label.to_owned());
            label = "";
        }
        let mut text = format!("{label:label_width$}");
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let cell = if left.contains(&i) { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            text.push_str(&format!("{:gap$}{cell}", ""));
        }
        page.push(text.trim_end().to_owned());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(label: &str, cells: &[&str]) -> Line {
        Line::Cells(label.into(), cells.iter().map(|c| (*c).to_owned()).collect())
    }

    #[test]
    fn columns_line_up_and_words_stand_between_them() {
        let lines = [cells("a", &["1", "yes"]), Line::Words("between".into()), cells("bbb", &["100", "no"])];
        assert_eq!(lay_out(&lines, &[1], 40), ["a      1  yes", "between", "bbb  100  no"]);
    }

    #[test]
    fn a_label_without_place_has_a_line_of_its_own() {
        let lines = [cells("a", &["1"]), cells("much too long a label", &["2"])];
        let page = lay_out(&lines, &[], 12);
        assert_eq!(page, ["a          1", "much too long a label", "           2"]);
    }
}
