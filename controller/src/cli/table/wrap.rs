//! A cell in lines of a width: broken at blanks and behind commas, and only where that is not enough within a word.

use argus_core::time::Timestamp;
use console::measure_text_width;

/// What turns colours off again.
const PLAIN: &str = "\u{1b}[0m";

/// Behind these a name may be broken, where there is no better place.
const JOINTS: [char; 7] = [' ', ',', '/', ':', '-', '_', '>'];

/// The lines of a cell; one of a single colour has it in each of them.
pub(super) fn wrapped(cell: &str, width: usize) -> Vec<String> {
    if measure_text_width(cell) <= width || width == 0 {
        return vec![cell.to_owned()];
    }
    let (colour, text) = colour(cell);
    let end = if colour.is_empty() { "" } else { PLAIN };
    let lines = packed(text, width, width);
    lines.iter().map(|line| format!("{colour}{line}{end}")).collect()
}

/// A line of a text that goes on below its own beginning, or below the value of its field.
pub(super) fn hanging(line: &str, width: usize) -> Vec<String> {
    const DEEPER: usize = 4;
    let indent = line.len() - line.trim_start().len();
    let field = line.find(":  ").map(|colon| {
        let value = line[colon + 1..].trim_start();
        line.len() - value.len()
    });
    let below = field.unwrap_or(indent + DEEPER);
    // What is to be copied stays in one line, and so does what has no place to hang.
    if measure_text_width(line) <= width || width < below + 2 * DEEPER || line.contains("hint:") {
        return vec![line.to_owned()];
    }
    let (lead, text) = line.split_at(field.unwrap_or(indent));
    let lines = packed(text, width - lead.len(), width - below);
    let one = |(index, line): (usize, &String)| match index {
        0 => format!("{lead}{line}"),
        _ => format!("{}{line}", " ".repeat(below)),
    };
    lines.iter().enumerate().map(one).collect()
}

/// As many pieces a line as it holds, and no piece broken that one holds.
fn packed(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let room = |lines: &[String]| if lines.len() > 1 { rest } else { first };
    for piece in pieces(text) {
        let whole = measure_text_width(piece.trim_end()) <= room(&lines).max(rest);
        let parts = if whole { vec![piece] } else { broken(piece, rest) };
        for part in parts {
            let line = lines
                .last_mut()
                .map(|line| (measure_text_width(line), line.is_empty()));
            let (taken, empty) = line.unwrap_or_default();
            if !empty && taken + measure_text_width(part.trim_end()) > room(&lines) {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(part);
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// A piece that no line holds: at its joints, else anywhere.
fn broken(piece: &str, width: usize) -> Vec<&str> {
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

/// How wide what stays together is, at most.
pub(super) fn longest_piece(cell: &str) -> usize {
    pieces(cell)
        .map(|piece| measure_text_width(piece.trim_end()))
        .max()
        .unwrap_or(0)
}

/// All of it where it is a time, which nobody reads in two lines; else nothing.
pub(super) fn time(cell: &str) -> usize {
    Timestamp::parse(cell).map_or(0, |_| measure_text_width(cell))
}

/// The same where names are broken at their joints.
pub(super) fn longest_part(cell: &str) -> usize {
    let parts = cell.split_inclusive(JOINTS);
    parts
        .map(|part| measure_text_width(part.trim_end()))
        .max()
        .unwrap_or(0)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', ','])
}

/// The colour of all of a cell, and its text.
fn colour(cell: &str) -> (&str, &str) {
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
    fn words_stay_whole_where_they_can_and_colours_go_along() {
        assert_eq!(wrapped("waits for `db`", 9), ["waits for", "`db`"]);
        assert_eq!(wrapped("a,bcdefgh", 4), ["a,", "bcde", "fgh"]);
        assert_eq!(
            wrapped("\u{1b}[31mone two\u{1b}[0m", 4),
            ["\u{1b}[31mone\u{1b}[0m", "\u{1b}[31mtwo\u{1b}[0m"]
        );
        assert_eq!(wrapped("journey-web:local", 13), ["journey-web:", "local"]);
        assert_eq!((longest_piece("a bcd,ef"), longest_part("ab:cde")), (4, 3));
        assert_eq!((time("2026-01-01T00:00:00Z"), time("00:00")), (20, 0));
    }

    #[test]
    fn a_line_hangs_below_its_beginning_and_a_hint_stays_whole() {
        assert_eq!(
            hanging("  waits for `db` to be healthy", 20),
            ["  waits for `db` to", "      be healthy"]
        );
        assert_eq!(
            hanging("Waits for:  \u{1b}[31mone two\u{1b}[0m three", 21),
            ["Waits for:  \u{1b}[31mone two\u{1b}[0m", "            three"]
        );
        let hint = "hint: `argus describe shop` tells more";
        assert_eq!(hanging(hint, 20), [hint]);
        assert_eq!(hanging("short", 20), ["short"]);
    }
}
