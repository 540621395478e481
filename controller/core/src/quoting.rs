//! Texts of others in a line of Argus: escapes of the characters that end or disguise a line, and words of shell commands.
//!
//! A repository chooses the names of its files. A name with a line break could otherwise add a line to a log, to a report or to an
//! answer for an agent. So people see each path as [`PathText::shown`] returns it. As a key or an argument, a path stays as it is.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

/// Returns true for characters that a terminal, a parser or a model could take for something else than text: control characters,
/// noncharacters, line separators of Unicode, and the characters that Unicode does not show, such as tags and marks of the writing direction.
pub fn is_deceptive(c: char) -> bool {
    let is_noncharacter = u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}');
    c.is_control()
        || is_noncharacter
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a text as a part of one line: with escapes such as `\u{a}` for its control characters, also for line feeds and tabs.
///
/// ```
/// use argus_core::quoting::escape_line;
///
/// assert_eq!(escape_line("shop.e2e.yaml"), "shop.e2e.yaml");
/// assert_eq!(escape_line("a\nb.e2e.yaml: ok"), "a\\u{a}b.e2e.yaml: ok");
/// ```
pub fn escape_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_deceptive(c) {
            line.extend(c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    Cow::Owned(line)
}

/// Returns the start of a text: at most so many bytes, up to the end of a character.
///
/// ```
/// use argus_core::quoting::start_of;
///
/// assert_eq!(start_of("größe", 4), "grö");
/// assert_eq!(start_of("größe", 3), "gr");
/// ```
pub fn start_of(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A path as text for people.
pub trait PathText {
    /// Returns the path as a part of one line, as [`escape_line`] does.
    fn shown(&self) -> Shown<'_>;
}

impl PathText for Path {
    fn shown(&self) -> Shown<'_> {
        Shown(self.as_os_str())
    }
}

impl PathText for OsStr {
    fn shown(&self) -> Shown<'_> {
        Shown(self)
    }
}

/// Result of [`PathText::shown`].
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(&'a OsStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_line(&self.0.to_string_lossy()))
    }
}

/// Quotes a text for a POSIX shell.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a text as one word of a shell command, in quotes only if it needs them.
///
/// ```
/// use argus_core::quoting::shell_word;
///
/// assert_eq!(shell_word("deploy/e2e.yaml"), "deploy/e2e.yaml");
/// assert_eq!(shell_word("it's"), r"'it'\''s'");
/// ```
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        shell_quoted(text)
    }
}

/// Returns a path as one word of a command for people. A path with control characters is shown, and not the name of a file.
pub fn shell_path(path: impl AsRef<OsStr>) -> String {
    escape_line(&shell_word(&path.as_ref().to_string_lossy())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_path_is_one_line() {
        for (path, expected) in [
            ("a b/é.e2e.yaml", "a b/é.e2e.yaml"),
            ("a\n::error::x", "a\\u{a}::error::x"),
            ("a\r\t\u{1b}[2J", "a\\u{d}\\u{9}\\u{1b}[2J"),
            ("a\u{2028}b\u{202e}", "a\\u{2028}b\\u{202e}"),
        ] {
            assert_eq!(Path::new(path).shown().to_string(), expected);
            assert_eq!(OsStr::new(path).shown().to_string(), expected);
        }
    }

    #[test]
    fn word_has_quotes_only_if_it_needs_them() {
        for (text, word, path) in [
            ("/a/b-1.yaml", "/a/b-1.yaml", "/a/b-1.yaml"),
            ("", "''", "''"),
            ("a b", "'a b'", "'a b'"),
            ("A=1", "'A=1'", "'A=1'"),
            ("a\nb", "'a\nb'", "'a\\u{a}b'"),
        ] {
            assert_eq!(
                (shell_word(text), shell_path(text)),
                (word.to_owned(), path.to_owned())
            );
        }
    }
}
