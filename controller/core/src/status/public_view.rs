//! Public view: statuses and errors for callers without the token, without text that a container, a build, a suite or a rejected file wrote.
//!
//! The text of an error with such a code is replaced as a whole, because no part of it is certainly ours. All facts stay:
//! codes, phases, states, counters, exit codes, positions in files and times. A path in a file is text of the file: it contains its keys.

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::StructuredError;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, Truth, WaitingOn};

use super::error::context::TEST;

/// Conditions whose messages quote waits.
const QUOTE_WAITS: [&str; 2] = ["Progressing", "Ready"];
/// Condition whose message quotes an error.
const QUOTES_ERROR: &str = "Blocked";
/// Condition whose message quotes a rejected file.
const QUOTES_FILE: &str = "SpecAccepted";
/// Wait reason whose message quotes the name of a test case.
const QUOTES_CASE: &str = "TestLease";
/// Wait reasons whose messages quote the text of a failed call or probe.
const QUOTE_CALLS: [&str; 3] = ["Failed", "ProbeFailing", "RetryBackoff"];
/// Message of a condition that quotes hidden text.
const HIDDEN: &str = "only clients with the token see the reason";

/// Status of an environment without foreign text.
#[must_use]
pub fn environment(status: &EnvironmentStatus) -> EnvironmentStatus {
    let mut status = status.clone();
    let (mut hides_wait, mut hides_error) = (false, false);
    for row in &mut status.services {
        row.last_error = row.last_error.as_ref().map(error);
        if let Some(on) = &mut row.waiting_on {
            hides_wait |= hide_wait(on);
        }
    }
    for one in &mut status.errors {
        hides_error |= one.code.explanation().quotes_text;
        *one = error(one);
    }
    for condition in &mut status.conditions {
        let kind = condition.kind.as_str();
        let is_rejection = kind == QUOTES_FILE && condition.status == Truth::False;
        if hides_wait && QUOTE_WAITS.contains(&kind) || hides_error && kind == QUOTES_ERROR || is_rejection {
            HIDDEN.clone_into(&mut condition.message);
        }
    }
    status.diagnostics.iter_mut().for_each(hide_diagnostic);
    // They name suites and blocks of the file.
    status.notes.clear();
    for test in &mut status.tests {
        test.case.clear();
        test.purpose = None;
    }
    for result in &mut status.test_results {
        result.suite.clear();
        result.failed_cases.clear();
    }
    status
}

/// Status of the controller without foreign text.
#[must_use]
pub fn controller(status: &ControllerStatus) -> ControllerStatus {
    let mut status = status.clone();
    status.errors = status.errors.iter().map(error).collect();
    let diagnostics = status.rejected.iter_mut().flat_map(|file| &mut file.diagnostics);
    diagnostics.for_each(hide_diagnostic);
    status
}

/// Removes the keys and values of the file from a diagnostic. The position stays.
fn hide_diagnostic(diagnostic: &mut Diagnostic) {
    diagnostic.path.clear();
    HIDDEN.clone_into(&mut diagnostic.message);
    diagnostic.hint = None;
    diagnostic.correction = None;
}

/// Error without foreign text.
#[must_use]
pub fn error(error: &StructuredError) -> StructuredError {
    let mut error = StructuredError {
        stdout_tail: None,
        stderr_tail: None,
        debug: Vec::new(),
        ..error.clone()
    };
    error.details.remove(TEST);
    if !error.code.explanation().quotes_text {
        return error;
    }
    let actions = error.suggested_actions.clone();
    let hidden = StructuredError {
        message: error.code.explanation().summary.to_owned(),
        details: serde_json::Map::new(),
        ..error
    };
    // The changes of the spec file quote the text, too.
    hidden.suggest(&actions)
}

/// Removes foreign text from a wait reason. Returns true if it had some.
fn hide_wait(on: &mut WaitingOn) -> bool {
    if let Some(image) = &mut on.image {
        // The last line of a build or pull.
        image.line.clear();
        on.message = format!("image `{}`", image.reference);
        return true;
    }
    let quotes_text = on.error.is_none_or(|code| code.explanation().quotes_text);
    let is_call = QUOTE_CALLS.contains(&on.reason.as_str()) && quotes_text;
    let quotes = is_call || on.reason == QUOTES_CASE;
    if quotes {
        let summary = on.error.map(|code| code.explanation().summary);
        summary.unwrap_or(HIDDEN).clone_into(&mut on.message);
    }
    quotes
}
