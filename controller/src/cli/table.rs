//! Tables as kubectl has them: no borders, columns aligned, no blanks at the ends of lines.

use console::measure_text_width;

const GAP: usize = 3;

/// Lines of aligned columns; a cell that is empty is shown as `-`.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&text| text.to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| {
        all()
            .filter_map(|row| row.get(column))
            .map(|cell| measure_text_width(cell))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    all().map(|row| line(row, &widths)).collect()
}

/// The same as one text.
pub(crate) fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    lines(head, rows).into_iter().map(|line| line + "\n").collect()
}

/// Columns of a table whose rows come one after the other: they grow, and never shrink.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// These rows as lines, aligned with those before as far as that can be.
    pub(crate) fn lines(&mut self, rows: &[Vec<String>]) -> Vec<String> {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        rows.iter().map(|row| line(row, &self.widths)).collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let cell = if cell.is_empty() { "-" } else { cell };
        text.push_str(cell);
        text.push_str(&" ".repeat((width + GAP).saturating_sub(measure_text_width(cell))));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_their_colour_and_lines_have_no_blank_ends() {
        let rows = vec![
            vec![
                "shop".to_owned(),
                "\u{1b}[32mReady\u{1b}[0m".to_owned(),
                "1".to_owned(),
            ],
            vec!["a".to_owned(), String::new(), String::new()],
        ];
        let expected = "NAME   PHASE   N\nshop   \u{1b}[32mReady\u{1b}[0m   1\na      -       -\n";
        assert_eq!(text(&["NAME", "PHASE", "N"], &rows), expected);
    }
}
