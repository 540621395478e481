//! Context of an error: its identity, its place, its controller and cause, its next attempt, and the test that ran at its time.

use argus_crds::error::{Code, StructuredError};
use serde_json::{Value, json};

use crate::correlation::identifier;
use crate::desired::{Accepted, Service};
use crate::ident::ServiceName;
use crate::outcome::one_line;
use crate::remedy::EditContext;
use crate::status::StatusInput;
use crate::time::Timestamp;

/// Completes the context of an error of an environment. Fields that the error already has stay.
pub(super) fn complete(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    let mut error = error;
    if error.spec_path.is_none() {
        let line = input.accepted.and_then(|accepted| line(accepted, &error));
        let path = super::super::spec_path(input);
        error = error.spec(path, line);
    }
    if error.correlation_id.is_none() {
        error.correlation_id = cause(input, &error);
    }
    with_controller(error, input.controller)
}

/// Completes the context of an error without an environment. Without a known cause, the error is its own one.
pub fn with_controller(error: StructuredError, controller: &str) -> StructuredError {
    StructuredError {
        controller: Some(controller.to_owned()),
        correlation_id: error.correlation_id.or_else(|| error.error_id.clone()),
        ..error
    }
}

/// Line of the change that fixes the error, else of its service, else of the project.
fn line(accepted: &Accepted, error: &StructuredError) -> Option<usize> {
    let mut edits = error.remedies.iter().filter_map(|remedy| remedy.edit.as_ref());
    let edit = edits.find(|edit| edit.file == accepted.spec_path);
    edit.and_then(|edit| edit.line)
        .or_else(|| accepted.lines.service(error.service.as_deref()?))
        .or_else(|| accepted.lines.project())
}

/// Identifier of the command of a hold, else of the last start of the service.
fn cause(input: &StatusInput<'_>, error: &StructuredError) -> Option<String> {
    let service = error
        .service
        .as_deref()
        .and_then(|name| ServiceName::new(name).ok());
    if error.code == Code::Held {
        let hold = match &service {
            Some(service) => input.requests.hold(input.env, service, input.now),
            None => input.requests.environment_hold(input.env, input.now),
        };
        return hold?.command.clone();
    }
    input.history.services.get(&service?)?.last_start.clone()
}

/// Facts behind the edits of a service.
pub(in crate::status) fn edit_context<'a>(
    input: &StatusInput<'a>,
    accepted: &'a Accepted,
    service: &'a Service,
) -> EditContext<'a> {
    EditContext {
        accepted,
        service,
        history: input.history,
        volumes: &input.observed.volumes,
    }
}

/// Location of an error.
#[derive(Debug, Clone, Copy)]
pub(in crate::status) struct ErrorScope<'a> {
    pub(in crate::status) environment: Option<&'a str>,
    pub(in crate::status) service: Option<&'a str>,
    pub(in crate::status) container: Option<&'a str>,
    pub(in crate::status) revision: Option<&'a str>,
}

impl<'a> ErrorScope<'a> {
    pub(in crate::status) fn environment(input: &StatusInput<'a>) -> Self {
        let revision = input.accepted.map(|accepted| accepted.desired.revision.as_str());
        Self {
            environment: Some(input.env.as_str()),
            service: None,
            container: None,
            revision,
        }
    }

    pub(in crate::status) fn of_service(self, service: &'a str, container: Option<&'a str>) -> Self {
        Self {
            service: Some(service),
            container,
            ..self
        }
    }

    pub(in crate::status) fn finish(&self, error: StructuredError, at: Timestamp) -> StructuredError {
        let id = error_id(
            self.environment.unwrap_or_default(),
            self.service,
            error.code,
            &error.message,
            at,
        );
        let mut error = error.error_id(id).timestamp(at.to_string());
        if let Some(environment) = self.environment {
            error = error.environment(environment);
        }
        if let Some(service) = self.service {
            error = error.service(service);
        }
        if let Some(container) = self.container {
            error = error.container_id(container);
        }
        if let Some(revision) = self.revision {
            error = error.revision(revision);
        }
        error
    }
}

/// Identity of an occurrence in the form of a ULID: its time, then a hash of its content. Repeated reports of the same
/// failure have the same id.
pub fn error_id(
    environment: &str,
    service: Option<&str>,
    code: Code,
    message: &str,
    at: Timestamp,
) -> String {
    identifier(
        &[environment, service.unwrap_or_default(), code.as_str(), message],
        at,
    )
}

/// Name of the detail with the time.
const NEXT_ATTEMPT: &str = "nextTry";

/// Adds the time of the next attempt to an error.
///
/// The seconds count from the error's own time. Without one they count from now, and a repeated report of the same attempt
/// keeps them, see [`keep_retry_after`].
pub(super) fn with_next_attempt(error: StructuredError, until: Timestamp, now: Timestamp) -> StructuredError {
    if !error.retryable {
        return error;
    }
    let error = error.details(json!({ NEXT_ATTEMPT: until.to_string() }));
    if error.retry_after.is_some() {
        return error;
    }
    let at = error.timestamp.as_deref().and_then(Timestamp::parse);
    error.retry_after_span(until.since(at.unwrap_or(now)))
}

/// Keeps the seconds of `old` if both errors have the same next attempt.
pub(super) fn keep_retry_after(error: StructuredError, old: &StructuredError) -> StructuredError {
    let next_attempt = |error: &StructuredError| {
        error
            .details
            .get(NEXT_ATTEMPT)
            .filter(|at| **at != Value::Null)
            .cloned()
    };
    if next_attempt(&error).is_some() && next_attempt(&error) == next_attempt(old) {
        let retry_after = old.retry_after;
        StructuredError { retry_after, ..error }
    } else {
        error
    }
}

/// Key of the details with the test.
pub(in crate::status) const TEST: &str = "test";

/// Adds the test that ran at the time of an error: its name, which is that of the suite for `argus test run`, and its lease.
pub(super) fn with_test(input: &StatusInput<'_>, mut error: StructuredError) -> StructuredError {
    let at = error.timestamp.as_deref().and_then(Timestamp::parse);
    let leases = input.requests.test_leases.iter();
    let mut running = leases.filter(|lease| {
        let is_during = at.is_some_and(|at| (lease.since..=lease.until).contains(&at));
        lease.environment == *input.env && is_during
    });
    let test = running.next().map(|lease| {
        json!({
            "case": one_line(&lease.case),
            "holder": lease.holder.as_deref().map(one_line),
            "purpose": lease.purpose.as_deref().map(one_line),
            "since": lease.since.to_string(),
        })
    });
    // An ended lease is no longer known.
    let reported = || {
        let previous = input.previous?;
        let rows = previous.services.iter().filter_map(|row| row.last_error.as_ref());
        let mut all = rows.chain(&previous.errors);
        let same = all.find(|old| old.error_id.is_some() && old.error_id == error.error_id)?;
        same.details.get(TEST).cloned()
    };
    if let Some(test) = test.or_else(reported) {
        error.details.insert(TEST.to_owned(), test);
    }
    error
}
