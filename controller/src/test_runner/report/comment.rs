//! Comment for a pull request, in Markdown: failures, attempts and remedies.
//!
//! Each foreign text is in a code span, in which Markdown, HTML, links and names of users are only text. No row needs another one, so a
//! long comment can end at any row.

use std::fmt::Write as _;
use std::path::Path;

use argus_crds::error::StructuredError;
use argus_suite::Verdict;

use super::final_case::FinalCase;
use super::folder::{ReportFolder, cannot_write};
use super::text::describe_origin;
use super::{Outcome, Report, TestVerdict};
use crate::process::exit::Failure;
use crate::render::ci_system::cut_rows;
use crate::render::foreign_text;
use crate::render::output;

/// Maximum length of a comment in bytes: GitHub refuses longer ones.
const MAX_COMMENT: usize = 64 * 1024;
/// Maximum length of a code span in characters.
const MAX_SPAN: usize = 500;
/// Maximum number of lines of a command's output.
const MAX_LINES: usize = 5;
/// Maximum number of remedies of an error.
const MAX_REMEDIES: usize = 3;

/// Facts about a run that its report does not contain.
#[derive(Debug)]
pub(crate) struct CommentFacts<'a> {
    /// Name of the run. A later comment with the same name replaces this one.
    pub(crate) run: &'a str,
    /// Result in one word.
    pub(crate) result: &'a str,
    pub(crate) errors: Vec<&'a StructuredError>,
}

impl Report {
    /// Writes the comment to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_comment(&self, path: &Path, facts: &CommentFacts<'_>) -> Result<(), Failure> {
        let Some(name) = path.file_name() else {
            return Err(cannot_write(path, &std::io::ErrorKind::IsADirectory.into()));
        };
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = ReportFolder::at(folder.unwrap_or(Path::new(".")));
        folder.write(name, &self.to_comment(facts))
    }

    /// Returns the comment. Its first line identifies the run.
    fn to_comment(&self, facts: &CommentFacts<'_>) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " /._".contains(c);
        let run = facts.run.replace(|c: char| !is_plain(c), "_");
        let count = |result| self.with_result(result).count();
        let mut text = format!(
            "<!-- argus ci: {run} -->\n## Argus: {} in {}\n\n{}: {} passed, {} failed, {} skipped\n",
            facts.result,
            code_span(&self.environment),
            output::format_count(self.suites.len(), "suite"),
            count(TestVerdict::Passed),
            count(TestVerdict::Failed),
            count(TestVerdict::Skipped),
        );
        let failures: String = self.suites.iter().map(failures).collect();
        if !failures.is_empty() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\n### Failures\n\n{failures}");
        }
        let mut errors: Vec<String> = Vec::new();
        for error in facts.errors.iter().map(|error| describe_error(error)) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if !errors.is_empty() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\n### Errors\n\n{}", errors.concat());
        }
        cut_rows(&text, MAX_COMMENT)
    }
}

/// One row per failed case, and per case that passed only after a failure.
fn failures(suite: &Outcome) -> String {
    let mut text = String::new();
    for case in suite.final_cases() {
        let has_failed = case.result == Verdict::Failed;
        if !has_failed && case.failures.is_empty() {
            continue;
        }
        let label = match (has_failed, suite.flaky) {
            (true, _) => "failed",
            (false, true) => "flaky",
            (false, false) => "repeated",
        };
        let name = if case.name == suite.name {
            case.name.to_owned()
        } else {
            format!("{}: {}", suite.name, case.name)
        };
        let place = match (&suite.file, case.line) {
            (Some(file), Some(line)) => format!(" ({})", code_span(&format!("{file}:{line}"))),
            _ => String::new(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "- **{label}** {}{place}: {}",
            code_span(&name),
            describe_case(suite, &case)
        );
        let output = case.failures.last().filter(|_| case.line.is_none());
        for line in output
            .map(|failure| last_lines(&failure.text))
            .unwrap_or_default()
        {
            let _ = writeln!(text, "  - {}", code_span(line));
        }
    }
    text
}

/// Last failure of a case, with its attribution and the number of failed attempts.
fn describe_case(suite: &Outcome, case: &FinalCase<'_>) -> String {
    let Some(last) = case.failures.last() else {
        return code_span(case.reason.unwrap_or_default());
    };
    let attempts = output::format_count(suite.attempts.len(), "attempt");
    let mut text = format!(
        "{}; {} of {attempts} failed",
        code_span(&last.message),
        case.failures.len()
    );
    if let Some(found) = last.attribution {
        // Writing into a String cannot fail.
        let _ = write!(text, "; attribution: {}", code_span(&describe_origin(found)));
    }
    if let Some(unconfirmed) = &suite.unconfirmed {
        let _ = write!(text, "; no verdict: {}", code_span(unconfirmed));
    }
    text
}

/// Row of an error, and one row per remedy.
fn describe_error(error: &StructuredError) -> String {
    let of = error.service.as_ref().or(error.environment.as_ref());
    let of = of.map(|name| format!(" {}", code_span(name))).unwrap_or_default();
    let mut text = format!("- **{}**{of}: {}\n", error.code, code_span(&error.message));
    for remedy in output::format_hints(error).iter().take(MAX_REMEDIES) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  - {}", code_span(remedy));
    }
    text
}

fn last_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.split_off(lines.len().saturating_sub(MAX_LINES))
}

/// Text in one line as code, between more backticks than it has in a row.
fn code_span(text: &str) -> String {
    let plain = foreign_text::to_plain(text).replace(['\n', '\t'], " ");
    let mut plain = plain.trim().to_owned();
    if let Some((end, _)) = plain.char_indices().nth(MAX_SPAN) {
        plain.truncate(end);
        plain.push_str(" …");
    }
    if plain.is_empty() {
        return "–".to_owned();
    }
    let runs = plain.split(|c: char| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0) + 1);
    // Markdown removes one space on each side.
    format!("{fence} {plain} {fence}")
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;

    use super::*;
    use crate::test_runner::report::tests::attempt;

    fn comment(suites: Vec<Outcome>, errors: Vec<&StructuredError>) -> String {
        let report = Report {
            suites,
            ..Report::new("shop")
        };
        report.to_comment(&CommentFacts {
            run: "e2e.yaml 1/4",
            result: "failed",
            errors,
        })
    }

    #[test]
    fn comment_names_failures_attempts_and_remedies() {
        let failed = Outcome::from_attempts("smoke", vec![attempt(3, true), attempt(4, false)]);
        let flaky = Outcome::from_attempts("pay", vec![attempt(1, false), attempt(0, false)]);
        let rejected = Outcome::rejected("list", "no file `list.yaml`".to_owned());
        let error = StructuredError::new(Code::ContainerCrash, "exit code 1")
            .environment("shop")
            .service("web");
        let text = comment(vec![failed, flaky, rejected], vec![&error, &error]);
        assert!(
            text.starts_with("<!-- argus ci: e2e.yaml 1/4 -->\n## Argus: failed in ` shop `\n"),
            "{text}"
        );
        for row in [
            "3 suites: 1 passed, 2 failed, 0 skipped\n",
            "- **failed** ` smoke `: ` exit code 4 `; 2 of 2 attempts failed; attribution: ` test `\n",
            "- **flaky** ` pay `: ` exit code 1 `; 1 of 2 attempts failed",
            "- **failed** ` list `: `` no file `list.yaml` ``\n",
            "- **CONTAINER_CRASH** ` web `: ` exit code 1 `\n  - ``",
            "`argus logs shop web`",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert_eq!(text.matches("CONTAINER_CRASH").count(), 1, "{text}");
    }

    #[test]
    fn green_run_has_no_list() {
        let passed = Outcome::from_attempts("smoke", vec![attempt(0, false)]);
        let text = comment(vec![passed], Vec::new());
        assert!(!text.contains("###") && !text.contains("\n- "), "{text}");
    }

    #[test]
    fn foreign_text_never_leaves_its_code_span() {
        for (text, expected) in [
            ("@all <b> ![x](http://a/) #1", "` @all <b> ![x](http://a/) #1 `"),
            ("a`b", "`` a`b ``"),
            ("``", "``` `` ```"),
            ("a\n- **b**\n```\n", "```` a - **b** ``` ````"),
            ("\u{1b}[31m\u{202e}x", "` \\u{202e}x `"),
            (" \n", "–"),
        ] {
            assert_eq!(code_span(text), expected);
        }
        let mut suite = Outcome::rejected("a` <!-- -->\n# b", "c".repeat(9_999));
        suite.name.push_str("-->");
        let text = comment(vec![suite], Vec::new());
        assert!(
            text.contains("- **failed** `` a` <!-- --> # b--> ``: ` c"),
            "{text}"
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with('#')).count(),
            2,
            "{text}"
        );
        let forged = Report::new("shop").to_comment(&CommentFacts {
            run: "x -->\n# y",
            result: "passed",
            errors: Vec::new(),
        });
        assert!(
            forged.starts_with("<!-- argus ci: x _____ y -->\n## "),
            "{forged}"
        );
    }

    #[test]
    fn long_comment_ends_at_a_row_within_the_limit() {
        let suites = (0..2_000).map(|number| Outcome::rejected(&format!("suite {number}"), "é".repeat(200)));
        let text = comment(suites.collect(), Vec::new());
        assert!((60_000..=MAX_COMMENT).contains(&text.len()), "{}", text.len());
        let note = text.lines().last().unwrap();
        assert!(
            note.contains("rows left out") && note.contains("failures"),
            "{note}"
        );
    }

    #[test]
    fn comment_is_written_next_to_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/comment.md");
        let facts = CommentFacts {
            run: "e2e.yaml",
            result: "passed",
            errors: Vec::new(),
        };
        let report = Report::new("shop");
        report.write_comment(&path, &facts).unwrap();
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .starts_with("<!-- argus ci")
        );
        // A checkout can contain a link in the place of the file.
        let own = dir.path().join("own");
        std::fs::write(&own, "own").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&own, &path).unwrap();
        report.write_comment(&path, &facts).unwrap();
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "own");
        assert!(report.write_comment(Path::new("/"), &facts).is_err());
    }
}
