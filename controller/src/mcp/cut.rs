//! Limit of a text: longer texts lose lines in their middle, and a line in their place has the count.

use std::fmt::Write as _;

use crate::render::output;

/// Returns a text of lines with about `limit` bytes: the first and the last lines, with a count of the lines between.
///
/// Lines stay whole, so that a mark at the beginning of a line stays there. A line longer than a quarter of the limit loses its own
/// middle first.
pub(super) fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let lines: Vec<String> = text.lines().map(|line| cut_line(line, limit / 4)).collect();
    let budget = limit.saturating_sub(NOTE) / 2;
    let head = count_fitting(lines.iter(), budget);
    let tail = count_fitting(lines[head..].iter().rev(), budget);
    let (kept, rest) = lines.split_at(head);
    let (left_out, last) = rest.split_at(rest.len() - tail);
    let mut cut = output::join_lines(kept);
    if !left_out.is_empty() {
        let bytes: usize = text
            .lines()
            .skip(head)
            .take(left_out.len())
            .map(|line| line.len() + 1)
            .sum();
        let what = output::format_count(left_out.len(), "line");
        // Writing to a string cannot fail.
        let _ = writeln!(
            cut,
            "… {what} ({bytes} bytes) left out; `maxTextBytes` returns more …"
        );
    }
    cut + &output::join_lines(last)
}

/// Bytes reserved for the line with the count.
const NOTE: usize = 100;

/// Returns the number of lines that fit into `budget` bytes.
fn count_fitting<'a>(lines: impl Iterator<Item = &'a String>, mut budget: usize) -> usize {
    let fits = |line: &&String| {
        let fits = line.len() < budget;
        budget = budget.saturating_sub(line.len() + 1);
        fits
    };
    lines.take_while(fits).count()
}

/// Returns a line of about `limit` bytes: its beginning, the count of bytes left out, and its end.
pub(super) fn cut_line(line: &str, limit: usize) -> String {
    if line.len() <= limit {
        return line.to_owned();
    }
    let budget = limit.saturating_sub(NOTE / 2) / 2;
    let is_boundary = |index: &usize| line.is_char_boundary(*index);
    let head = (0..=budget).rev().find(is_boundary).unwrap_or_default();
    let tail = (line.len() - budget..line.len()).find(is_boundary);
    let tail = tail.unwrap_or(line.len());
    let count = tail - head;
    format!("{} … {count} bytes left out … {}", &line[..head], &line[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_unchanged() {
        assert_eq!(cut_middle("a\nb\n", 4), "a\nb\n");
    }

    #[test]
    fn long_text_loses_whole_lines_in_the_middle() {
        let text = output::join_lines((0..1_000).map(|number| format!("  | line {number}")));
        let cut = cut_middle(&text, 1_000);
        assert!(cut.len() <= 1_000, "{}", cut.len());
        assert!(
            cut.starts_with("  | line 0\n") && cut.ends_with("  | line 999\n"),
            "{cut}"
        );
        let (kept, note): (Vec<&str>, Vec<&str>) =
            cut.lines().partition(|line| line.starts_with("  | line "));
        let [note] = note[..] else { panic!("{cut}") };
        let left_out = 1_000 - kept.len();
        assert!(note.contains(&format!("{left_out} lines")), "{note}");
        let bytes = text.len() - kept.iter().map(|line| line.len() + 1).sum::<usize>();
        assert!(note.contains(&format!("({bytes} bytes)")), "{note}");
    }

    #[test]
    fn long_line_keeps_its_mark_and_its_end() {
        for limit in [0, 60, 500, 8_192] {
            let text = format!("  | {}end\nlast\n", "é".repeat(100_000));
            let cut = cut_middle(&text, limit);
            assert!(cut.len() <= limit.max(4 * NOTE), "{limit}: {}", cut.len());
            assert!(cut.contains("left out"), "{cut}");
            if limit >= 500 {
                assert!(cut.starts_with("  | é") && cut.contains("end\nlast\n"), "{cut}");
            }
        }
    }
}
