//! Files with variables, such as `.env`, as Compose reads them. All readers of such files use [`read`].
//!
//! A statement is `NAME=value`, `NAME: value`, or `NAME` alone, which takes its value from outside of the file. `export` before a
//! name has no effect, nor have a byte order mark, blank lines and lines that begin with `#`.
//!
//! | value | comment | escapes | variables |
//! |---|---|---|---|
//! | without quotes, to the end of the line | `#` after a blank | none | yes |
//! | in `'`, over several lines | `#` after the quote | `\'` | no |
//! | in `"`, over several lines | `#` after the quote | `\"`, `\$`, `\\`, `\n`, `\r`, `\t`, `\a`, `\b`, `\f`, `\v`, `\0` with three octal digits | yes |
//!
//! Variables are `$NAME` and `${NAME}`, with the operators `:-`, `-`, `:?`, `?`, `:+` and `+`; `$$` is a dollar sign. A value comes from
//! outside, else from the statements before. Compose replaces a variable without a value by an empty text; here it is a
//! problem, because the variables of the shell do not count.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::Utf8Chunk;

mod escapes;
mod interpolation;

use escapes::Unquoted;

use crate::quoting::PathText as _;
use crate::secrets::is_secret;

/// Maximum number of problems of a file.
const MAX_PROBLEMS: usize = 20;
/// Maximum number of variables of a file.
const MAX_VARIABLES: usize = 10_000;
/// Maximum number of bytes that variables insert into the values of a file.
const MAX_INSERTED: usize = 1024 * 1024;

/// Returns the value of a variable outside of the file.
pub type Outside<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Content of a file with variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dotenv {
    /// Values by name, without those of the statements with a problem.
    pub variables: BTreeMap<String, String>,
    /// Statements that are not understood.
    pub problems: Vec<Problem>,
    /// Number of bytes that variables inserted into the values.
    pub inserted: usize,
}

/// Statement that is not understood. Its texts contain no value of a secret name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
    pub hint: String,
}

impl Problem {
    /// Text with the place in the file at `path`.
    pub fn describe(&self, path: &Path) -> String {
        format!(
            "`{}:{}:{}`: {}",
            path.shown(),
            self.line,
            self.column,
            self.message
        )
    }
}

/// Reads a file with variables. A statement that is not understood is a problem and sets no variable.
///
/// ```
/// let file = argus_core::dotenv::read(b"HOST=db # of the shop\nURL=\"pg://${HOST}/${NAME:-shop}\"\nlol$wut\n", &|_| None);
/// assert_eq!(file.variables["URL"], "pg://db/shop");
/// assert_eq!(
///     file.problems[0].describe(".env".as_ref()),
///     "`.env:3:4`: `$` is not a character of a name"
/// );
/// ```
pub fn read(bytes: &[u8], outside: Outside<'_>) -> Dotenv {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let chunk = bytes.utf8_chunks().next();
    // The whole file, or the part before the first byte that is not UTF-8.
    let text = chunk.as_ref().map_or("", Utf8Chunk::valid);
    let mut reader = Reader {
        text,
        at: 0,
        outside,
        found: Dotenv::default(),
        left: MAX_INSERTED,
        is_secret: false,
    };
    if text.len() < bytes.len() {
        reader.add(Fault::new(text.len(), "the file is not UTF-8 text").hint("save the file as UTF-8"));
    } else {
        reader.read_all();
    }
    reader.found.inserted = MAX_INSERTED - reader.left;
    reader.found
}

/// Formats a statement that [`read`] reads back, for each value without a NUL character.
pub fn format_statement(name: &str, value: &str) -> String {
    let mut text = format!("{name}=\"");
    for c in value.chars() {
        match c {
            '\\' | '"' | '$' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c => text.push(c),
        }
    }
    text + "\""
}

/// Problem at an offset of the text.
struct Fault {
    at: usize,
    message: String,
    hint: String,
}

impl Fault {
    fn new(at: usize, message: impl Into<String>) -> Self {
        let hint = "write `NAME=value`; put a value with special characters into single quotes".to_owned();
        let message = message.into();
        Self { at, message, hint }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        Self { hint, ..self }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    outside: Outside<'a>,
    found: Dotenv,
    /// Number of bytes that variables may still insert.
    left: usize,
    /// True if the name of the statement marks its value as secret. Messages then contain no part of it.
    is_secret: bool,
}

impl<'a> Reader<'a> {
    fn read_all(&mut self) {
        while self.found.problems.len() < MAX_PROBLEMS {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            if self.rest().is_empty() {
                return;
            }
            if self.rest().starts_with('#') {
                self.at += self.line().len();
            } else if self.found.variables.len() == MAX_VARIABLES {
                let message = format!("the file sets more than {MAX_VARIABLES} variables");
                return self.add(Fault::new(self.at, message).hint("remove variables"));
            } else if let Err(fault) = self.read_statement() {
                self.add(fault);
                self.at += self.line().len();
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Rest of the line, without its end.
    fn line(&self) -> &'a str {
        self.rest().split('\n').next().unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        let line = self.line();
        self.at += line.len() - line.trim_start().len();
    }

    fn add(&mut self, fault: Fault) {
        let before = &self.text[..fault.at];
        let (lines, line) = match before.rsplit_once('\n') {
            Some((lines, line)) => (lines.split('\n').count(), line),
            None => (0, before),
        };
        self.found.problems.push(Problem {
            line: lines + 1,
            column: line.chars().count() + 1,
            message: fault.message,
            hint: fault.hint,
        });
    }

    fn read_statement(&mut self) -> Result<(), Fault> {
        let exported = self.rest().strip_prefix("export");
        if exported.is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() && c != '\n')) {
            self.at += "export".len();
            self.skip_blanks();
        }
        let (start, line) = (self.at, self.line());
        let end = line.find(['=', ':']);
        let name = line[..end.unwrap_or(line.len())].trim_end();
        if let Some((index, c)) = name.char_indices().find(|(_, c)| !is_name_part(*c)) {
            let message = if c.is_whitespace() {
                "a name contains no blanks".to_owned()
            } else {
                format!("`{}` is not a character of a name", c.escape_debug())
            };
            return Err(Fault::new(start + index, message));
        }
        if name.is_empty() {
            return Err(Fault::new(start, "a name is missing"));
        }
        let value = if let Some(end) = end {
            self.at = start + end + 1;
            self.skip_blanks();
            self.is_secret = is_secret(name);
            let at = self.at;
            let value = self.read_value()?;
            if value.contains('\0') {
                return Err(Fault::new(at, "the value contains a NUL character"));
            }
            Some(value)
        } else {
            self.at += line.len();
            self.counted((self.outside)(name), start)?
        };
        if let Some(value) = value {
            self.found.variables.insert(name.to_owned(), value);
        }
        Ok(())
    }

    fn read_value(&mut self) -> Result<String, Fault> {
        let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
        let Some(quote) = quote else {
            let line = self.line();
            let comment = line
                .match_indices('#')
                .find(|(at, _)| line[..*at].ends_with([' ', '\t']));
            let end = comment.map_or(line.len(), |(at, _)| at);
            let value = Unquoted::plain(line[..end].trim_end(), self.at);
            self.at += line.len();
            return self.interpolate(&value, 0..value.text.len(), 0);
        };
        let start = self.at;
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find(|(_, c)| {
            let is_end = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped;
            is_end
        });
        let Some((end, _)) = end else {
            self.at = self.text.len();
            return Err(Fault::new(start, "this quote has no end")
                .hint("add the closing quote, or write `\\` before the quote"));
        };
        let inner = start + 1..start + end;
        self.at = inner.end + 1;
        self.skip_blanks();
        let after = self.line();
        if !after.is_empty() && !after.starts_with('#') {
            return Err(Fault::new(self.at, "text follows the closing quote")
                .hint("write `\\` before a quote that belongs to the value, or begin a comment with `#`"));
        }
        self.at += after.len();
        if quote == '\'' {
            return Ok(Unquoted::single(&self.text[inner.clone()], inner.start).text);
        }
        let value = Unquoted::double(&self.text[inner.clone()], inner.start);
        self.interpolate(&value, 0..value.text.len(), 0)
    }
}

/// Characters of the names that statements set.
fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '[' | ']')
}

#[cfg(test)]
#[path = "dotenv_tests.rs"]
mod tests;
