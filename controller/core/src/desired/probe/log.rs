//! Log probes: the search for lines of the output that show readiness.

use argus_crds::{Diagnostic, Healthcheck};
use regex::{Regex, RegexBuilder};

use super::ProbeHandler;

/// Maximum length of a pattern in bytes.
const MAX_PATTERN: usize = 1_000;
/// Maximum size of a compiled pattern in bytes. It also bounds the time of a search.
const MAX_COMPILED: usize = 1 << 20;
/// Maximum number of lines that a file can require.
const MAX_TIMES: u32 = 1_000;

/// Search for lines that match a pattern at any position.
///
/// A line ends with a line break, as in the patterns of Testcontainers: `ready.*\s` and `ready$` match the line `ready`. Colours are
/// ignored.
///
/// ```
/// use argus_core::desired::LogSearch;
///
/// let mut search = LogSearch::new("ready to accept connections", 2).unwrap();
/// assert!(!search.add("database is ready to accept connections"));
/// assert!(!search.add("shutting down"));
/// assert!(search.add("\u{1b}[32mready\u{1b}[0m to accept connections"));
/// ```
#[derive(Debug)]
pub struct LogSearch {
    pattern: Regex,
    times: u32,
    found: u32,
}

impl LogSearch {
    /// Creates a search for this number of lines.
    ///
    /// # Errors
    /// The pattern is too long, not a regular expression, or matches every line.
    pub fn new(pattern: &str, times: u32) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN {
            return Err(format!("is longer than {MAX_PATTERN} bytes"));
        }
        let compiled = RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build();
        let pattern = compiled.map_err(|error| {
            let text = error.to_string();
            let cause = text
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ");
            format!("is not a valid regular expression: {cause}")
        })?;
        if pattern.is_match("\n") {
            return Err("matches every line".to_owned());
        }
        Ok(Self {
            pattern,
            times,
            found: 0,
        })
    }

    /// Adds a line. Returns true once enough lines matched.
    pub fn add(&mut self, line: &str) -> bool {
        let line = format!("{}\n", without_colours(line));
        self.found += u32::from(self.pattern.is_match(&line));
        self.found >= self.times
    }

    /// Number of lines that matched.
    pub fn found(&self) -> u32 {
        self.found
    }
}

/// Returns a line without the escape sequences of a terminal.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| ('@'..='~').contains(&c));
        plain.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    plain
}

/// Returns the search of a health check; `None` if a diagnostic rejects it.
pub(super) fn resolve_log(
    healthcheck: &Healthcheck,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ProbeHandler> {
    let Some(pattern) = &healthcheck.pattern else {
        let message = "a `healthcheck` of type `log` requires `pattern`";
        let hint = "add `pattern: …` with a text of the line that the ready service writes";
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        return None;
    };
    let times = healthcheck.times.unwrap_or(1);
    if times == 0 || times > MAX_TIMES {
        let message = format!("`times` is {times}");
        let hint = format!("write a number from 1 to {MAX_TIMES}");
        diagnostics.push(Diagnostic::error(format!("{path}.times"), message).hint(hint));
    }
    if let Err(why) = LogSearch::new(pattern, times) {
        let hint = "write a text of the line that the ready service writes, with `\\` before `.`, `(`, `[` and other special characters";
        let message = format!("`pattern` {why}");
        diagnostics.push(Diagnostic::error(format!("{path}.pattern"), message).hint(hint));
        return None;
    }
    Some(ProbeHandler::Log {
        pattern: pattern.clone(),
        times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_a_line_at_any_position() {
        for (pattern, line, matches) in [
            ("ready", "it is ready now", true),
            ("ready$", "it is ready", true),
            ("^ready", "it is ready", false),
            (
                ".*database system is ready to accept connections.*\\s",
                "LOG:  database system is ready to accept connections",
                true,
            ),
            ("(?i)READY", "ready", true),
            ("INFO ready", "\u{1b}[1;32mINFO\u{1b}[0m ready", true),
            ("a.b", "a\u{1b}[", false),
        ] {
            let mut search = LogSearch::new(pattern, 1).unwrap();
            assert_eq!(search.add(line), matches, "{pattern}");
        }
    }

    #[test]
    fn unusable_patterns_are_refused() {
        for (pattern, why) in [
            ("(", "unclosed group"),
            ("", "every line"),
            (".*", "every line"),
            ("a|", "every line"),
            ("((a{100}){100}){100}", "size limit"),
            (&"a".repeat(1_001), "longer"),
        ] {
            let error = LogSearch::new(pattern, 1).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn search_ends_with_the_last_of_several_lines() {
        let mut search = LogSearch::new("ready", 3).unwrap();
        let ends = ["ready", "ready ready", "no", "ready", "ready"].map(|line| search.add(line));
        assert_eq!(ends, [false, false, false, true, true]);
        assert_eq!(search.found(), 4);
    }
}
