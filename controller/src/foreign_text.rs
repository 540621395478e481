//! Text that containers and other programs wrote: its mark as data, and escapes of its control characters.

use std::fmt::Write as _;

/// Mark of each line that Argus quotes. No line of Argus itself begins with it.
pub(crate) const MARK: &str = "  | ";

/// Escape sequences that Argus itself prints: reset, bold and the colours from red to cyan.
const OWN_STYLES: [&str; 8] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
    "\u{1b}[36m",
];

/// Returns each line of a text with the mark.
pub(crate) fn mark_lines(text: &str) -> String {
    text.lines().flat_map(|line| [MARK, line, "\n"]).collect()
}

/// Returns a text that begins in a line of Argus, with the mark on its further lines.
pub(crate) fn mark_further_lines(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(&format!("\n{MARK}"))
}

/// Returns true for characters that a terminal or a model could take for something else than text: control characters, marks of the
/// writing direction, and line separators of Unicode.
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Returns a text with escapes such as `\u{1b}` for its control characters, except line feeds and tabs. A carriage return at the end of
/// a line is part of the line end.
pub(crate) fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && matches!(rest.peek(), None | Some('\n')) {
            continue;
        }
        if is_deceptive(c) && !matches!(c, '\n' | '\t') {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns a text for a terminal: like [`escape_controls`], but with the colours of Argus.
pub(crate) fn escape_for_terminal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, part) in text.split('\u{1b}').enumerate() {
        let style = OWN_STYLES
            .iter()
            .find(|style| index > 0 && part.starts_with(&style[1..]));
        match style {
            Some(style) => {
                escaped.push_str(style);
                escaped.push_str(&escape_controls(&part[style.len() - 1..]));
            }
            None if index > 0 => {
                escaped.push_str(&escape_controls("\u{1b}"));
                escaped.push_str(&escape_controls(part));
            }
            None => escaped.push_str(&escape_controls(part)),
        }
    }
    escaped
}

/// Returns JSON text with JSON escapes for the characters that JSON itself permits in strings.
pub(crate) fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) && !matches!(c, '\n' | '\t') {
            // All of them are in the basic plane. Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile =
            "a\tb\nc\r\u{0}\u{1b}[2J\u{7f}\u{85}\u{9b}31m\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{2029}é";
        let expected = "a\tb\nc\\u{d}\\u{0}\\u{1b}[2J\\u{7f}\\u{85}\\u{9b}31m\\u{202e}\\u{2066}\\u{200f}\\u{61c}\\u{2028}\\u{2029}é";
        assert_eq!(escape_controls(hostile), expected);
        assert_eq!(escape_for_terminal(hostile), expected);
    }

    #[test]
    fn line_ends_of_terminals_are_line_ends() {
        assert_eq!(escape_controls("a\r\nb\rc\r"), "a\nb\\u{d}c");
    }

    #[test]
    fn terminal_shows_only_the_colours_of_argus() {
        let own = "\u{1b}[36ma\u{1b}[0m is \u{1b}[31mb\u{1b}[0m";
        assert_eq!(escape_for_terminal(own), own);
        let title = "\u{1b}]0;pwned\u{7}\u{1b}[8mhidden\u{1b}[1A\u{1b}";
        let shown = "\\u{1b}]0;pwned\\u{7}\\u{1b}[8mhidden\\u{1b}[1A\\u{1b}";
        assert_eq!(escape_for_terminal(title), shown);
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ "text": "a\u{1b}\u{9b}\u{202e}\u{2028}\n" });
        let escaped = escape_json(&value.to_string());
        assert!(!escaped.contains(is_deceptive), "{escaped}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
    }

    #[test]
    fn quoted_lines_have_the_mark() {
        assert_eq!(mark_lines("a\r\nnext: b\n"), "  | a\n  | next: b\n");
        assert_eq!(mark_further_lines("failed: a\nnext: b"), "failed: a\n  | next: b");
    }
}
