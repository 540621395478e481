//! Verdict of a run: exit code and error.

use argus_core::quoting::escape_line;
use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use super::{Attempt, Outcome, Report, TestVerdict};
use crate::process::exit::{Exit, Failure};
use crate::render::output;

/// Maximum number of hosts in a hint.
const MAX_HOSTS: usize = 5;

impl Report {
    /// Returns the verdict: success, or the failure of the command.
    ///
    /// # Errors
    /// A suite failed, was skipped although this is not accepted, or could not run.
    pub(crate) fn verdict(&mut self, allow_skipped: bool) -> Result<Exit, Failure> {
        if let Some(failure) = self.ended_by.take() {
            return Err(failure);
        }
        if self.interrupted {
            return Ok(Exit::Interrupted);
        }
        if let Some(error) = self.to_error() {
            let refused = self.refused_addresses();
            let failure = Failure::new(error);
            let failure = if refused.is_empty() {
                failure
            } else {
                let hosts: Vec<_> = refused.iter().take(MAX_HOSTS).copied().collect();
                // The hosts are texts of a file: a command to copy must not contain them.
                failure.with_hint(format!(
                    "use published ports in the suites; `--allow-test-hosts` allows hosts that you trust; the suites named `{}`",
                    hosts.join("`, `")
                ))
            };
            let is_unknown = self.failed().all(|suite| suite.unconfirmed.is_some());
            return Err(if is_unknown {
                failure.with_exit(Exit::Infrastructure)
            } else {
                failure
            });
        }
        let skipped = self.describe_skipped();
        if self.suites.iter().all(|suite| suite.attempts.is_empty()) {
            let message = format!("cannot run any suite of `{}`: {skipped}", self.environment);
            let hint = format!(
                "run a command with `argus test run {} -- COMMAND`",
                self.environment
            );
            return Err(Failure::with_code(Code::PrereqMissing, message).with_hint(hint));
        }
        if skipped.is_empty() || allow_skipped {
            return Ok(Exit::Done);
        }
        let count = self.with_result(TestVerdict::Skipped).count();
        let count = output::format_count(count, "suite");
        let message = format!("{count} skipped on `{}`: {skipped}", self.environment);
        let error = StructuredError::new(Code::TestsFailed, message)
            .environment(&self.environment)
            .details(json!({ "suites": self.suites, "portMappings": self.port_mappings }));
        Err(Failure::new(error).with_hint("pass `--allow-skipped` to accept skipped suites"))
    }

    /// Returns whether the verdict is no failure: success, or an interruption.
    pub(crate) fn is_accepted(&self, allow_skipped: bool) -> bool {
        let has_skipped = self.with_result(TestVerdict::Skipped).next().is_some();
        let has_run = self.suites.iter().any(|suite| !suite.attempts.is_empty());
        let is_success = has_run && !self.has_failed() && (allow_skipped || !has_skipped);
        self.interrupted || self.ended_by.is_none() && is_success
    }

    pub(super) fn with_result(&self, result: TestVerdict) -> impl Iterator<Item = &Outcome> {
        self.suites.iter().filter(move |suite| suite.result == result)
    }

    fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.with_result(TestVerdict::Failed)
    }

    /// Returns the addresses that the failed suites may not reach, in their order.
    fn refused_addresses(&self) -> Vec<&str> {
        let last = self
            .failed()
            .filter_map(|suite| suite.attempts.last()?.suite.as_ref());
        let failures = last.flat_map(|run| {
            let cases = run.cases.iter().flat_map(|case| &case.failures);
            cases.chain(run.notes.iter().flat_map(|note| &note.failures))
        });
        let mut found = Vec::new();
        for address in failures.filter_map(|failure| failure.address.as_deref()) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        found
    }

    /// Skipped suites with their reasons.
    fn describe_skipped(&self) -> String {
        let reason = |suite: &Outcome| {
            let reason = suite.reason.as_deref().unwrap_or_default();
            format!("`{}`: {}", escape_line(&suite.name), escape_line(reason))
        };
        let skipped = self.with_result(TestVerdict::Skipped).map(reason);
        skipped.collect::<Vec<_>>().join("; ")
    }

    /// Error for the failed suites, with the last output of the last failure. `None` if no suite failed.
    pub(super) fn to_error(&self) -> Option<StructuredError> {
        let last_suite = self.failed().last()?;
        let last = last_suite.attempts.last();
        let name = |suite: &Outcome| format!("`{}`", escape_line(&suite.name));
        let names: Vec<_> = self.failed().map(name).collect();
        let ran = self.suites.len() - self.with_result(TestVerdict::Skipped).count();
        let restarts: usize = self.suites.iter().map(Outcome::count_restarts).sum();
        let reason = match (&last_suite.unconfirmed, last) {
            (Some(reason), _) => reason.clone(),
            (None, Some(last)) => last.format_end(),
            (None, None) => last_suite.reason.clone().unwrap_or_default(),
        };
        let message = format!(
            "{} of {} failed on `{}`: {} ({reason})",
            names.len(),
            output::format_count(ran, "suite"),
            self.environment,
            names.join(", "),
        );
        let (out, err) = last.map_or(("", ""), |last| (&last.tails.0, &last.tails.1));
        let mut error = StructuredError::new(Code::TestsFailed, message)
            .environment(&self.environment)
            .details(json!({
                "suites": self.suites, "restartsDuringRun": restarts, "portMappings": self.port_mappings,
            }))
            .tails(out, err);
        if let Some(code) = last.and_then(|last| last.exit_code) {
            error = error.exit_code(code.into());
        }
        if let Some(revision) = &self.revision {
            error = error.revision(revision);
        }
        let attempts = self.failed().flat_map(|suite| &suite.attempts);
        let disrupted = |attempt: &Attempt| {
            let first = attempt.during.as_ref()?.disruptions.first()?;
            Some(first.service.to_string())
        };
        Some(match attempts.into_iter().find_map(disrupted) {
            Some(service) => error.service(service),
            None => error,
        })
    }
}
