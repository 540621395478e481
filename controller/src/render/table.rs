//! Tables in the style of kubectl: no borders, aligned columns, no trailing blanks.

use console::{measure_text_width, truncate_str};

use crate::render::foreign_text::escape_for_terminal;

mod wrap;

const GAP: usize = 3;
/// Gap between columns when the table is wider than the terminal.
const SMALL_GAP: usize = 2;
/// Minimum width of a column that contains text with blanks.
const NARROW: usize = 12;

/// Lines of aligned columns. Empty cells are shown as `-`. Lines have at most `width` columns: cells wrap within their column, and lines that
/// are still too long are truncated.
pub(crate) fn format_fitted(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&text| text.to_owned()).collect();
    let rows = shown_rows(rows);
    let layout = Layout::fit(&head, &rows, width);
    let all = std::iter::once(&head).chain(&rows);
    all.flat_map(|row| layout.wrap_row(row, width)).collect()
}

/// Cells as parts of one line, with the colours of Argus only. They can contain names of files and texts of containers.
fn shown_rows(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let line = |cell: &String| escape_for_terminal(&cell.lines().collect::<Vec<_>>().join(" "));
    rows.iter().map(|row| row.iter().map(line).collect()).collect()
}

/// Table as one text.
pub(crate) fn format_table(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    crate::render::output::join_lines(format_fitted(head, rows, width))
}

/// Column of a table: its head, and the cell of a row.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// Cells of a table with their heads.
pub(crate) struct Rows {
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Creates one row per item.
pub(crate) fn create_rows<'a, T: 'a>(columns: &[Column<T>], items: impl IntoIterator<Item = &'a T>) -> Rows {
    let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
    Rows {
        heads: columns.iter().map(|(head, _)| *head).collect(),
        rows: items.into_iter().map(row).collect(),
    }
}

/// Table with one row per item.
pub(crate) fn format_columns<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
    width: Option<usize>,
) -> String {
    let Rows { heads, rows } = create_rows(columns, items);
    format_table(&heads, &rows, width)
}

/// Wraps the lines of a text to `width`. Lines with commands to copy stay whole.
pub(crate) fn format_prose(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    crate::render::output::join_lines(text.lines().flat_map(|line| wrap::wrap_hanging(line, width)))
}

/// Column widths of a table whose rows arrive over time. Widths never shrink.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Formats rows, aligned with earlier rows where possible. The last column gets the rest of `width`.
    pub(crate) fn format_rows(&mut self, rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
        let rows = shown_rows(rows);
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        let mut layout = Layout {
            widths: self.widths.clone(),
            gap: GAP,
        };
        if let (Some(width), Some((last, others))) = (width, layout.widths.split_last_mut()) {
            let used: usize = others.iter().map(|width| width + GAP).sum();
            *last = (*last).min(width.saturating_sub(used).max(NARROW));
        }
        rows.iter().flat_map(|row| layout.wrap_row(row, width)).collect()
    }
}

/// Width of each column, and the gap between columns.
struct Layout {
    widths: Vec<usize>,
    gap: usize,
}

impl Layout {
    /// Each column has the width of its widest cell. If the table is too wide, columns shrink.
    fn fit(head: &[String], rows: &[Vec<String>], width: Option<usize>) -> Self {
        let widest = |column: usize, of: fn(&str) -> usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| of(cell)).max().unwrap_or(0)
        };
        let minimums = |of: fn(&str) -> usize| -> Vec<usize> {
            let heads = head.iter().enumerate();
            heads
                .map(|(column, head)| widest(column, of).max(measure_text_width(head)))
                .collect()
        };
        let mut layout = Self {
            widths: minimums(measure_text_width),
            gap: GAP,
        };
        let Some(width) = width else { return layout };
        if layout.total_width() > width {
            layout.gap = SMALL_GAP;
        }
        // First without breaking words, then at joints of names, then anywhere. Timestamps stay whole.
        for of in [
            |cell: &str| wrap::longest_piece(cell).max(NARROW),
            |cell: &str| wrap::longest_part(cell).max(wrap::time_width(cell)),
            wrap::time_width,
        ] {
            layout.shrink(&minimums(of), width);
        }
        layout
    }

    fn total_width(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.gap * self.widths.len().saturating_sub(1)
    }

    /// Shrinks the widest column until the table fits or all columns have their minimum width.
    fn shrink(&mut self, minimums: &[usize], width: usize) {
        while self.total_width() > width {
            let able = self
                .widths
                .iter_mut()
                .zip(minimums)
                .filter(|(width, minimum)| **width > **minimum);
            let Some((widest, _)) = able.max_by_key(|(width, _)| **width) else {
                return;
            };
            *widest -= 1;
        }
    }

    /// Lines of one row.
    fn wrap_row(&self, row: &[String], width: Option<usize>) -> Vec<String> {
        let wrapped = |(cell, width): (&String, &usize)| {
            let cell = if cell.is_empty() { "-" } else { cell };
            wrap::wrap_cell(cell, *width)
        };
        let cells: Vec<Vec<String>> = row.iter().zip(&self.widths).map(wrapped).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let one = |index: usize| {
            let text = self.format_line(
                cells
                    .iter()
                    .map(|cell| cell.get(index).map_or("", String::as_str)),
            );
            width.map_or_else(
                || text.clone(),
                |width| truncate_str(&text, width, "…").into_owned(),
            )
        };
        (0..height).map(one).collect()
    }

    fn format_line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let mut text = String::new();
        for (cell, width) in cells.zip(&self.widths) {
            text.push_str(cell);
            let blanks = (width + self.gap).saturating_sub(measure_text_width(cell));
            text.push_str(&" ".repeat(blanks));
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_have_no_trailing_blanks() {
        let rows = vec![
            vec![
                "shop".to_owned(),
                "\u{1b}[32mReady\u{1b}[0m".to_owned(),
                "1".to_owned(),
            ],
            vec!["a".to_owned(), String::new(), String::new()],
        ];
        let expected = "NAME   PHASE   N\nshop   \u{1b}[32mReady\u{1b}[0m   1\na      -       -\n";
        assert_eq!(format_table(&["NAME", "PHASE", "N"], &rows, None), expected);
    }

    #[test]
    fn cells_wrap_within_their_column_and_the_width() {
        let rows = [vec![
            "api".to_owned(),
            "127.0.0.1:18080->8080/tcp,127.0.0.1:18081->9090/tcp".to_owned(),
            "`db` to be healthy, then for its own first answer".to_owned(),
        ]];
        let table = format_table(&["SERVICE", "PORTS", "WAITS FOR"], &rows, Some(60));
        assert_eq!(
            table,
            "SERVICE  PORTS                       WAITS FOR\n\
             api      127.0.0.1:18080->8080/tcp,  `db` to be healthy,\n         \
             127.0.0.1:18081->9090/tcp   then for its own first\n                                     answer\n"
        );
        for width in 1..120 {
            let lines = format_fitted(&["SERVICE", "PORTS", "WAITS FOR"], &rows, Some(width));
            let wide = lines.iter().find(|line| measure_text_width(line) > width);
            assert_eq!(wide, None, "{width}");
        }
    }

    #[test]
    fn cell_of_a_file_adds_no_line() {
        let ready = "\u{1b}[32mReady\u{1b}[0m";
        let rows = [vec!["a\nb\u{202e}".to_owned(), ready.to_owned()]];
        let lines = format_fitted(&["NAME", "PHASE"], &rows, None);
        assert_eq!(lines[1..], [format!("a b\\u{{202e}}   {ready}")]);
    }

    #[test]
    fn later_rows_wrap_in_the_last_column() {
        let mut columns = Columns::default();
        let row = |what: &str| vec!["shop".to_owned(), what.to_owned()];
        assert_eq!(columns.format_rows(&[row("create")], Some(20)), ["shop   create"]);
        assert_eq!(
            columns.format_rows(&[row("the container is gone")], Some(20)),
            ["shop   the container", "       is gone"]
        );
    }
}
