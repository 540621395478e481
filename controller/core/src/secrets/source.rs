//! Lines of a file as diagnostics quote them: the values of secret names, and tokens, are hidden.

use std::ops::Range;

use argus_crds::diagnostic::{self, Diagnostic};

use super::{find_tokens, is_secret};
use crate::quoting::{escape_line, is_deceptive};

/// Renders diagnostics for a person, as [`diagnostic::render`], without the values that stand next to a secret name. A text without any
/// key is not quoted: it can be another file, to which a link leads. Messages contain keys and names of the file, so each is one line.
pub fn render_diagnostics(file_name: &str, source: &str, diagnostics: &[Diagnostic]) -> String {
    let quoted = if has_key(source) {
        hide_tokens(&hide_values(source))
    } else {
        String::new()
    };
    let shown = |c: char| {
        if is_deceptive(c) && !"\n\r\t".contains(c) {
            '\u{fffd}'
        } else {
            c
        }
    };
    let quoted: String = quoted.chars().map(shown).collect();
    let diagnostics: Vec<Diagnostic> = diagnostics.iter().map(in_lines).collect();
    diagnostic::render(&escape_line(file_name), &quoted, &diagnostics)
}

/// Returns a diagnostic whose texts are one line each.
fn in_lines(diagnostic: &Diagnostic) -> Diagnostic {
    let line = |text: &str| escape_line(text).into_owned();
    let mut correction = diagnostic.correction.clone();
    for place in correction.iter_mut().flat_map(|it| &mut it.related) {
        place.message = line(&place.message);
    }
    Diagnostic {
        message: line(&diagnostic.message),
        hint: diagnostic.hint.as_deref().map(line),
        correction,
        ..diagnostic.clone()
    }
}

/// Returns true if a line has a key of a map.
fn has_key(source: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-.\"'".contains(c);
    let begins_with_key = |line: &str| {
        let text = line.trim_start_matches([' ', '\t', '-', '{', '\u{feff}']);
        let key = text.split_once(':');
        key.is_some_and(|(key, value)| {
            let is_value = value.is_empty() || value.starts_with([' ', '\t', '\r']);
            (is_value || key.ends_with('"')) && !key.is_empty() && key.chars().all(is_name)
        })
    };
    source.lines().any(begins_with_key)
}

/// Lines below a secret name that contain its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    /// All lines of a block.
    Block,
    /// Lines without a name of their own.
    Scalars,
}

/// Returns the text with `*` for each character of a token. Lines and columns stay.
fn hide_tokens(source: &str) -> String {
    let mut ranges: Vec<Range<usize>> = find_tokens(source).into_iter().map(|(range, _)| range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut at = 0;
    let mut hidden = String::with_capacity(source.len());
    for range in ranges {
        let start = range.start.max(at);
        hidden.push_str(&source[at..start]);
        let token = source.get(start..range.end).unwrap_or_default();
        hidden.extend(token.chars().map(|c| if "\r\n".contains(c) { c } else { '*' }));
        at = range.end.max(start);
    }
    hidden.push_str(&source[at..]);
    hidden
}

/// Returns the text with `*` for each character of a value of a secret name. Lines and columns stay.
fn hide_values(source: &str) -> String {
    let mut below: Option<(usize, Below)> = None;
    let mut hidden = String::with_capacity(source.len());
    for line in source.split_inclusive(['\n', '\r']) {
        let text = line.trim_end();
        let indent = text.len() - text.trim_start().len();
        if !text.is_empty() && below.is_some_and(|(name, _)| indent <= name) {
            below = None;
        }
        let ranges: Vec<Range<usize>> = match below {
            Some((_, Below::Block)) => std::iter::once(indent..text.len()).collect(),
            Some((_, Below::Scalars)) if !text.ends_with(':') && !text.contains(": ") => {
                std::iter::once(indent..text.len()).collect()
            }
            Some(_) | None => {
                let (ranges, next) = values_of(text);
                below = next.map(|next| (indent, next)).or(below);
                ranges
            }
        };
        let mut at = 0;
        for range in ranges {
            hidden.push_str(&line[at..range.start]);
            hidden.extend(line[range.clone()].chars().map(|_| '*'));
            at = range.end;
        }
        hidden.push_str(&line[at..]);
    }
    hidden
}

/// Values of secret names in a line, and the lines below that continue the last one.
fn values_of(line: &str) -> (Vec<Range<usize>>, Option<Below>) {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, separator) in line.match_indices([':', '=']) {
        let is_in_value = ranges.last().is_some_and(|last| at < last.end);
        let (before, after) = (&line[..at], &line[at + 1..]);
        let is_pair = separator == "="
            || after.is_empty()
            || after.starts_with(char::is_whitespace)
            || before.ends_with(['"', '\'']);
        let before = before.trim_end().trim_end_matches(['"', '\'']);
        let name = before.rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
        // `secrets` of a Compose file lists names.
        if is_in_value || !is_pair || !is_secret(name) || name == "secrets" {
            continue;
        }
        let start = line.len() - after.trim_start().len();
        let value = &line[start..];
        match value.chars().next() {
            None | Some('#') => return (ranges, Some(Below::Scalars)),
            Some('|' | '>') => return (ranges, Some(Below::Block)),
            Some('{') if !value.starts_with("{{") => continue,
            Some(_) => {}
        }
        let is_item = before[..before.len() - name.len()]
            .chars()
            .all(|c| c.is_whitespace() || "-\"'".contains(c));
        let range = value_in(value, separator == "=" && !is_item, before.contains(['{', '[']));
        if !is_reference(&value[range.clone()]) {
            ranges.push(start + range.start..start + range.end);
        }
    }
    (ranges, None)
}

/// Range of the value at the start of a text: between its quotes, or until the end of the `word`, of the `flow` item or of the line.
fn value_in(text: &str, word: bool, flow: bool) -> Range<usize> {
    if let Some(quote) = text.chars().next().filter(|c| "\"'".contains(*c)) {
        let end = text[1..].find(quote).map_or(text.len(), |end| end + 1);
        return 1..end;
    }
    let is_end = |c: char| {
        (word && (c.is_whitespace() || "\"',;&]}".contains(c))) || (flow && !word && ",]}".contains(c))
    };
    let end = match text.find("}}").filter(|_| text.starts_with("{{")) {
        Some(end) => end + 2,
        None if text.starts_with("${") => text.find('}').map_or(text.len(), |end| end + 1),
        None => text.find(is_end).unwrap_or(text.len()),
    };
    0..end
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// Returns whether a value only names a variable.
fn is_reference(value: &str) -> bool {
    let is_one = |open: &str, close: &str| {
        let inner = value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        inner.is_some_and(|inner| inner.trim().chars().all(is_of_name))
    };
    is_one("${", "}") || is_one("{{", "}}") || value.is_empty()
}

#[cfg(test)]
mod tests {
    use argus_crds::Location;

    use super::*;

    #[test]
    fn text_without_a_key_is_not_quoted() {
        for (text, is_quoted) in [
            ("project: { nam: a }", true),
            ("- service:\r\n    image: a", true),
            ("{\"project\":{}}", true),
            ("DEPLOY_KEY=value\0SHELL=/bin/sh", false),
            ("root:x:0:0:root:/root:/bin/bash", false),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n", false),
            ("981d1d0c92a4", false),
        ] {
            let at = Location {
                line: 1,
                column: 1,
                length: 1,
            };
            let diagnostics = [Diagnostic::error("", "it is not a map").at(at)];
            let shown = render_diagnostics("e2e.yaml", text, &diagnostics);
            let line = text.lines().next().unwrap();
            assert_eq!(shown.contains(line), is_quoted, "{shown}");
        }
    }

    #[test]
    fn tokens_are_hidden_and_lines_stay() {
        let token = format!("npm_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let key = "b3BlbnNzaC1rZXk".repeat(8);
        let source = format!("a: {token}\nb: |\n  -----BEGIN PRIVATE KEY-----\n  {key}\n  é\n");
        let hidden = hide_tokens(&source);
        assert_eq!(hidden.lines().count(), source.lines().count());
        assert!(
            hidden.starts_with(&format!("a: {}\nb: |", "*".repeat(40))),
            "{hidden}"
        );
        assert!(!hidden.contains(&token) && !hidden.contains(&key), "{hidden}");
    }

    #[test]
    fn values_of_secret_names_are_hidden() {
        for (line, hidden) in [
            ("DB_PASSWORD: hunter2", "DB_PASSWORD: *******"),
            ("DB_PASSWORD: \"hunter 2\" # x", "DB_PASSWORD: \"********\" # x"),
            ("- DB_PASSWORD=hunter 2", "- DB_PASSWORD=********"),
            ("- 'API_KEY=a:b'", "- 'API_KEY=****"),
            (
                "{ TOKEN: abc, PORT: 80x, X: {SECRET: é} }",
                "{ TOKEN: ***, PORT: 80x, X: {SECRET: *} }",
            ),
            ("{\"token\":\"abc\",\"a\":1}", "{\"token\":\"***\",\"a\":1}"),
            (
                "command: psql password=abc dbname=x",
                "command: psql password=*** dbname=x",
            ),
            ("passwords: [a, b]", "passwords: ******"),
            (
                "TOKEN: ${TOKEN}\nSECRET: \"{{env.SECRET}}\"",
                "TOKEN: ${TOKEN}\nSECRET: \"{{env.SECRET}}\"",
            ),
            ("TOKEN: ${TOKEN:-abc}", "TOKEN: *************"),
            ("TOKEN: |\n  a: b\n  c\nX: d", "TOKEN: |\n  ****\n  *\nX: d"),
            ("TOKEN:\n  abc\nX: d", "TOKEN:\n  ***\nX: d"),
            ("secrets:\n  db:\n    file: x", "secrets:\n  db:\n    file: x"),
            ("LOG_LEVEL: debug\n\nimage: a:1", "LOG_LEVEL: debug\n\nimage: a:1"),
        ] {
            assert_eq!(hide_values(line), hidden, "{line}");
        }
    }

    #[test]
    fn quoted_line_shows_the_mistake_and_no_secret() {
        let source = "environment: { DB_PASSWORD: hunter2, PORT: [1] }\n";
        let diagnostic = Diagnostic::error("", "wrong").at(Location {
            line: 1,
            column: 44,
            length: 3,
        });
        let shown = render_diagnostics("e2e.yaml", source, &[diagnostic]);
        assert!(!shown.contains("hunter2"), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find("[1]"), lines[4].find("^^^"), "{shown}");
    }

    #[test]
    fn key_with_a_line_break_adds_no_line() {
        let name = "a\n##vso[x]\r\u{85}\u{9b}\u{2028}\u{202e}\u{feff}";
        let diagnostic = Diagnostic::error(name, format!("the key `{name}` has no effect"))
            .hint(format!("omit `{name}`"))
            .relate("", format!("`{name}` is here"))
            .at(Location {
                line: 1,
                column: 1,
                length: 3,
            });
        let shown = render_diagnostics("e2e.yaml", "a: \u{202e}b\n", &[diagnostic]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 7, "{shown}");
        assert!(!lines.concat().contains(is_deceptive), "{shown:?}");
    }

    #[test]
    fn text_of_any_form_keeps_its_lines_and_columns() {
        let parts = [
            "TOKEN", ":", "=", " ", "'", "\"", "{", "}", "[", "|", "é", "\n", "\r", "-", "${", "#",
        ];
        for seed in 0..20_000_usize {
            let digits = [seed % 16, seed / 16 % 16, seed / 256 % 16, seed / 4_096 % 16];
            let source: String = [0].iter().chain(&digits).map(|index| parts[*index]).collect();
            let hidden = hide_values(&source);
            assert_eq!(hidden.chars().count(), source.chars().count(), "{source:?}");
            let ends = |text: &str| text.match_indices(['\n', '\r']).count();
            assert_eq!(ends(&hidden), ends(&source), "{source:?}");
        }
    }
}
