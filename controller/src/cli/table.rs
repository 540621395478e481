//! Tables as kubectl has them: no borders, columns aligned, no blanks at the ends of lines.

use console::{measure_text_width, truncate_str};

mod wrap;

const GAP: usize = 3;
/// Where it is tight.
const SMALL_GAP: usize = 2;
/// Columns of words narrower than this are not read; what has no blanks may be.
const NARROW: usize = 12;

/// Lines of aligned columns; a cell that is empty is shown as `-`.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    fitted(head, rows, None)
}

/// The same, none wider than `width`: cells wrap within their column, and what does not fit even then is cut.
pub(crate) fn fitted(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&text| text.to_owned()).collect();
    let layout = Layout::of(&head, rows, width);
    let all = std::iter::once(&head).chain(rows);
    all.flat_map(|row| layout.broken(row, width)).collect()
}

/// The same as one text.
pub(crate) fn text(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    crate::cli::output::lines(fitted(head, rows, width))
}

/// A text whose lines are no wider than `width`; what is to be copied stays as it is.
pub(crate) fn prose(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    crate::cli::output::lines(text.lines().flat_map(|line| wrap::hanging(line, width)))
}

/// Columns of a table whose rows come one after the other: they grow, and never shrink.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// These rows as lines, aligned with those before as far as that can be; the last column takes what `width` leaves it.
    pub(crate) fn lines(&mut self, rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        let mut layout = Layout {
            widths: self.widths.clone(),
            gap: GAP,
        };
        if let (Some(width), Some((last, before))) = (width, layout.widths.split_last_mut()) {
            let taken: usize = before.iter().map(|width| width + GAP).sum();
            *last = (*last).min(width.saturating_sub(taken).max(NARROW));
        }
        rows.iter().flat_map(|row| layout.broken(row, width)).collect()
    }
}

/// How wide each column is, and how far the next one is.
struct Layout {
    widths: Vec<usize>,
    gap: usize,
}

impl Layout {
    /// Each column as wide as its widest cell, or as what is left of it so that all fit.
    fn of(head: &[String], rows: &[Vec<String>], width: Option<usize>) -> Self {
        let widest = |column: usize, of: fn(&str) -> usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| of(cell)).max().unwrap_or(0)
        };
        let floors = |of: fn(&str) -> usize| -> Vec<usize> {
            let heads = head.iter().enumerate();
            heads
                .map(|(column, head)| widest(column, of).max(measure_text_width(head)))
                .collect()
        };
        let mut layout = Self {
            widths: floors(measure_text_width),
            gap: GAP,
        };
        let Some(width) = width else { return layout };
        if layout.total() > width {
            layout.gap = SMALL_GAP;
        }
        // First where that breaks no word, then at the joints of names, then anywhere; a time stays whole.
        for of in [
            |cell: &str| wrap::longest_piece(cell).max(NARROW),
            |cell: &str| wrap::longest_part(cell).max(wrap::time(cell)),
            wrap::time,
        ] {
            layout.shrink(&floors(of), width);
        }
        layout
    }

    fn total(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.gap * self.widths.len().saturating_sub(1)
    }

    /// Takes from the widest column as long as they do not fit and one is above its floor.
    fn shrink(&mut self, floors: &[usize], width: usize) {
        while self.total() > width {
            let able = self
                .widths
                .iter_mut()
                .zip(floors)
                .filter(|(width, floor)| **width > **floor);
            let Some((widest, _)) = able.max_by_key(|(width, _)| **width) else {
                return;
            };
            *widest -= 1;
        }
    }

    /// A row as the lines that it takes.
    fn broken(&self, row: &[String], width: Option<usize>) -> Vec<String> {
        let wrapped = |(cell, width): (&String, &usize)| {
            let cell = if cell.is_empty() { "-" } else { cell };
            wrap::wrapped(cell, *width)
        };
        let cells: Vec<Vec<String>> = row.iter().zip(&self.widths).map(wrapped).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let one = |index: usize| {
            let text = self.line(
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

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
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
        assert_eq!(text(&["NAME", "PHASE", "N"], &rows, None), expected);
    }

    #[test]
    fn on_a_terminal_words_wrap_within_their_column_and_nothing_is_wider() {
        let rows = [vec![
            "api".to_owned(),
            "127.0.0.1:18080->8080/tcp,127.0.0.1:18081->9090/tcp".to_owned(),
            "`db` to be healthy, then for its own first answer".to_owned(),
        ]];
        let told = text(&["SERVICE", "PORTS", "WAITS FOR"], &rows, Some(60));
        assert_eq!(
            told,
            "SERVICE  PORTS                       WAITS FOR\n\
             api      127.0.0.1:18080->8080/tcp,  `db` to be healthy,\n         \
             127.0.0.1:18081->9090/tcp   then for its own first\n                                     answer\n"
        );
        for width in 1..120 {
            let lines = fitted(&["SERVICE", "PORTS", "WAITS FOR"], &rows, Some(width));
            let wide = lines.iter().find(|line| measure_text_width(line) > width);
            assert_eq!(wide, None, "{width}");
        }
    }

    #[test]
    fn rows_that_come_one_after_the_other_wrap_in_their_last_column() {
        let mut columns = Columns::default();
        let row = |what: &str| vec!["shop".to_owned(), what.to_owned()];
        assert_eq!(columns.lines(&[row("create")], Some(20)), ["shop   create"]);
        assert_eq!(
            columns.lines(&[row("the container is gone")], Some(20)),
            ["shop   the container", "       is gone"]
        );
    }
}
