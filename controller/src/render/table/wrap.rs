//! Wrapping of cells: at blanks and after commas; within a word only if it is wider than the column.

use argus_core::time::Timestamp;
use console::measure_text_width;

/// Escape sequence that resets colours.
const PLAIN: &str = "\u{1b}[0m";

/// Characters after which long names may be broken.
const JOINTS: [char; 7] = [' ', ',', '/', ':', '-', '_', '>'];

/// Lines of a cell. If the cell has one colour, each line has it.
pub(super) fn wrap_cell(cell: &str, width: usize) -> Vec<String> {
    if measure_text_width(cell) <= width || width == 0 {
        return vec![cell.to_owned()];
    }
    let (colour, text) = split_colour(cell);
    let end = if colour.is_empty() { "" } else { PLAIN };
    let lines = pack_words(text, width, width);
    lines.iter().map(|line| format!("{colour}{line}{end}")).collect()
}

/// Wraps a line with a hanging indent: below its beginning, or below the value of its field.
pub(super) fn wrap_hanging(line: &str, width: usize) -> Vec<String> {
    const DEEPER: usize = 4;
    let indent = line.len() - line.trim_start().len();
    let field = line.find(":  ").map(|colon| {
        let value = line[colon + 1..].trim_start();
        line.len() - value.len()
    });
    let below = field.unwrap_or(indent + DEEPER);
    // Commands to copy stay on one line, and so do lines without space for an indent.
    if measure_text_width(line) <= width || width < below + 2 * DEEPER || line.contains("hint:") {
        return vec![line.to_owned()];
    }
    let (lead, text) = line.split_at(field.unwrap_or(indent));
    let lines = pack_words(text, width - lead.len(), width - below);
    let one = |(index, line): (usize, &String)| match index {
        0 => format!("{lead}{line}"),
        _ => format!("{}{line}", " ".repeat(below)),
    };
    lines.iter().enumerate().map(one).collect()
}

/// Fills lines with pieces. A piece is only broken if it does not fit into a line.
fn pack_words(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let space = |lines: &[String]| if lines.len() > 1 { rest } else { first };
    for piece in split_pieces(text) {
        let whole = measure_text_width(piece.trim_end()) <= space(&lines).max(rest);
        let parts = if whole {
            vec![piece]
        } else {
            break_piece(piece, rest)
        };
        for part in parts {
            let line = lines
                .last_mut()
                .map(|line| (measure_text_width(line), line.is_empty()));
            let (taken, empty) = line.unwrap_or_default();
            if !empty && taken + measure_text_width(part.trim_end()) > space(&lines) {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(part);
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Breaks a piece that does not fit into a line: at its joints, else anywhere.
fn break_piece(piece: &str, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    for mut part in piece.split_inclusive(JOINTS) {
        while measure_text_width(part.trim_end()) > width {
            let at = part
                .char_indices()
                .nth(width.max(1))
                .map_or(part.len(), |(at, _)| at);
            let (head, tail) = part.split_at(at);
            parts.push(head);
            part = tail;
            if tail.is_empty() {
                break;
            }
        }
        parts.push(part);
    }
    parts
}

/// Width of the longest piece.
pub(super) fn longest_piece(cell: &str) -> usize {
    split_pieces(cell)
        .map(|piece| measure_text_width(piece.trim_end()))
        .max()
        .unwrap_or(0)
}

/// Width of a timestamp, which is never broken. 0 for other cells.
pub(super) fn time_width(cell: &str) -> usize {
    Timestamp::parse(cell).map_or(0, |_| measure_text_width(cell))
}

/// Width of the longest part when names are broken at their joints.
pub(super) fn longest_part(cell: &str) -> usize {
    let parts = cell.split_inclusive(JOINTS);
    parts
        .map(|part| measure_text_width(part.trim_end()))
        .max()
        .unwrap_or(0)
}

fn split_pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', ','])
}

/// Colour of a whole cell, and its text.
fn split_colour(cell: &str) -> (&str, &str) {
    let coloured = cell
        .strip_suffix(PLAIN)
        .filter(|text| text.starts_with("\u{1b}["));
    let parts = coloured.and_then(|text| text.split_once('m'));
    parts.map_or(("", cell), |(colour, text)| (&cell[..=colour.len()], text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_wrap_at_words_and_keep_their_colour() {
        assert_eq!(wrap_cell("waits for `db`", 9), ["waits for", "`db`"]);
        assert_eq!(wrap_cell("a,bcdefgh", 4), ["a,", "bcde", "fgh"]);
        assert_eq!(
            wrap_cell("\u{1b}[31mone two\u{1b}[0m", 4),
            ["\u{1b}[31mone\u{1b}[0m", "\u{1b}[31mtwo\u{1b}[0m"]
        );
        assert_eq!(wrap_cell("journey-web:local", 13), ["journey-web:", "local"]);
        assert_eq!((longest_piece("a bcd,ef"), longest_part("ab:cde")), (4, 3));
        assert_eq!((time_width("2026-01-01T00:00:00Z"), time_width("00:00")), (20, 0));
    }

    #[test]
    fn lines_have_a_hanging_indent_and_hints_stay_whole() {
        assert_eq!(
            wrap_hanging("  waits for `db` to be healthy", 20),
            ["  waits for `db` to", "      be healthy"]
        );
        assert_eq!(
            wrap_hanging("Waits for:  \u{1b}[31mone two\u{1b}[0m three", 21),
            ["Waits for:  \u{1b}[31mone two\u{1b}[0m", "            three"]
        );
        let hint = "hint: see details with `argus describe shop`";
        assert_eq!(wrap_hanging(hint, 20), [hint]);
        assert_eq!(wrap_hanging("short", 20), ["short"]);
    }
}
