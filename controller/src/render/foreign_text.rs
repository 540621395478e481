//! Text that containers and other programs wrote: its mark as data, and escapes of its control characters.

use std::fmt::Write as _;

pub(crate) use argus_core::quoting::is_deceptive;

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

/// Returns a text for the logs and files of a CI system: without sequences for terminals such as colours, and with escapes for its other
/// control characters. Each carriage return ends a line, because readers of logs take it for a line end.
pub(crate) fn to_plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut parts = text.split('\u{1b}');
    let mut plain = escape_controls(parts.next().unwrap_or_default());
    for part in parts {
        let rest = strip_sequence(part);
        if rest.is_none() {
            plain.push_str(&escape_controls("\u{1b}"));
        }
        plain.push_str(&escape_controls(rest.unwrap_or(part)));
    }
    plain
}

/// Removes the rest of a sequence after its escape character, such as `[1;31m`. `None` if there is none.
fn strip_sequence(text: &str) -> Option<&str> {
    let is_parameter = |c: char| c.is_ascii_digit() || matches!(c, ';' | ':' | '?');
    let end = text.strip_prefix('[')?.trim_start_matches(is_parameter);
    end.strip_prefix(|c: char| c.is_ascii_alphabetic())
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

/// Returns JSON text with the same value: with JSON escapes for the characters that JSON itself permits in strings, and without the
/// beginning of a command that CI systems find anywhere in a line.
pub(crate) fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) && !matches!(c, '\n' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    split_marks(&escaped, "\\u0023")
}

/// Returns a text with another second `#` in each beginning of a command that CI systems find anywhere in a line: `##[`, and `##` with a
/// word such as `##vso[` and `##teamcity[`.
pub(crate) fn split_marks(text: &str, second: &str) -> String {
    let mut split = String::with_capacity(text.len());
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        let rest = text.get(at + 1..).unwrap_or_default();
        let is_mark = (last, c) == ('#', '#')
            && rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .starts_with('[');
        if is_mark {
            split.push_str(second);
        } else {
            split.push(c);
        }
        last = c;
    }
    split
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
    fn invisible_characters_are_shown_as_codes() {
        let invisible =
            "a\u{ad}\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{fe0f}\u{e0001}\u{e0041}\u{e007f}\u{e0100}b";
        let shown = "a\\u{ad}\\u{200b}\\u{200c}\\u{200d}\\u{2060}\\u{feff}\\u{fe0f}\\u{e0001}\\u{e0041}\\u{e007f}\\u{e0100}b";
        assert_eq!(escape_controls(invisible), shown);
        let rare = "\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180f}\u{3164}\u{ffa0}\u{fff0}\u{fffb}\u{1bca0}\u{1bca3}\u{1d173}\u{1d17a}";
        assert!(rare.chars().all(is_deceptive));
        assert_eq!(
            escape_controls("\u{fffe}\u{ffff}\u{fdd0}\u{10ffff}"),
            "\\u{fffe}\\u{ffff}\\u{fdd0}\\u{10ffff}"
        );
        let visible = "é ✓ 日本 🙂 … → \u{fffd}";
        assert_eq!(escape_controls(visible), visible);
    }

    #[test]
    fn plain_text_has_no_sequences_and_one_line_end() {
        assert_eq!(to_plain("\u{1b}[1;31mred\u{1b}[0m\u{1b}[K\r\n"), "red\n");
        assert_eq!(to_plain("50 %\r100 %\r\n\r"), "50 %\n100 %\n\n");
        assert_eq!(
            to_plain("\u{1b}]0;title\u{7}\u{1b}[\u{1b}(B\u{9b}1A"),
            "\\u{1b}]0;title\\u{7}\\u{1b}[\\u{1b}(B\\u{9b}1A"
        );
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
        let value = serde_json::json!({ "text": "a\u{1b}\u{9b}\u{202e}\u{2028}\n\u{e0041}\u{10ffff}###[error]\\##[ ##vso[x]" });
        let escaped = escape_json(&value.to_string());
        assert!(
            !escaped.contains(is_deceptive) && !escaped.contains("##[") && !escaped.contains("##vso["),
            "{escaped}"
        );
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
