//! Report in Markdown, for the summaries of CI systems.

use std::fmt::Write as _;

use argus_core::state::FailureOrigin;
use argus_suite::Verdict;

use super::text::describe_origin;
use super::{Outcome, Report, TestVerdict};
use crate::render::foreign_text;
use crate::render::output;

impl Report {
    /// Returns a table of the suites, the table of the services, and a list of the failed cases. The list can be long, so it is at the end.
    pub(crate) fn to_summary(&self, services: &str) -> String {
        let count = |result| self.with_result(result).count();
        let mut text = format!(
            "## Tests of `{}`\n\n{}: {} passed, {} failed, {} skipped{}\n\n",
            self.environment,
            output::format_count(self.suites.len(), "suite"),
            count(TestVerdict::Passed),
            count(TestVerdict::Failed),
            count(TestVerdict::Skipped),
            if self.interrupted { "; interrupted" } else { "" },
        );
        text.push_str(
            "| suite | result | cases | attribution | restarts | time |\n|---|---|---|---|---|---|\n",
        );
        for suite in &self.suites {
            text.push_str(&row(suite));
        }
        if !services.is_empty() {
            text.push('\n');
            text.push_str(services);
        }
        let failures: String = self.suites.iter().map(failures).collect();
        if !failures.is_empty() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\n## Failures\n\n{failures}");
        }
        text
    }
}

fn row(suite: &Outcome) -> String {
    let cases = suite.final_cases();
    let passed = cases.iter().filter(|case| case.result == Verdict::Passed).count();
    let result = match (suite.flaky, &suite.unconfirmed) {
        (true, _) => "flaky",
        (false, Some(_)) => "no verdict",
        (false, None) => suite.result.name(),
    };
    let mut origins: Vec<_> = cases
        .iter()
        .filter(|case| case.result == Verdict::Failed)
        .filter_map(|case| case.failures.last()?.attribution)
        .map(|found| found.origin)
        .collect();
    origins.sort_unstable();
    origins.dedup();
    let origins: Vec<_> = origins.into_iter().map(FailureOrigin::name).collect();
    format!(
        "| {} | {result} | {passed} of {} passed | {} | {} | {} |\n",
        cell(&suite.name),
        cases.len(),
        origins.join(", "),
        suite.count_restarts(),
        suite.format_duration(),
    )
}

/// One list item per failed case, and per case that passed only after a failure.
fn failures(suite: &Outcome) -> String {
    let mut text = String::new();
    for case in suite.final_cases() {
        let place = match (&suite.file, case.line) {
            (Some(file), Some(line)) => format!(" (`{}:{line}`)", cell(file)),
            _ => String::new(),
        };
        let name = if case.name == suite.name {
            cell(case.name)
        } else {
            format!("{}: {}", cell(&suite.name), cell(case.name))
        };
        let reason = case.reason.filter(|_| case.result == Verdict::Failed);
        if let Some(reason) = reason {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "- **{name}**{place}: {}", cell(reason));
        }
        for (index, failure) in case.failures.iter().enumerate() {
            let is_final = case.result == Verdict::Failed && index + 1 == case.failures.len();
            let origin = failure.attribution.map(describe_origin).unwrap_or_default();
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "- **{name}**{place}: {}; attribution: {}{}",
                cell(&failure.message),
                cell(&origin),
                if is_final { "" } else { "; repeated" },
            );
        }
    }
    text
}

/// Text in one line that does not end a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    foreign_text::to_plain(text)
        .replace(['\n', '\t'], " ")
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
}
