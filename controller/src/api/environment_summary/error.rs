//! Summary of an error.

use argus_core::failed_run;
use argus_crds::error::{ActionId, Call, Category, Class, Code, Remedy, Severity, StructuredError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{MAX_MESSAGE, MAX_SHORT_MESSAGE};
use crate::api::summary::clip;

/// Maximum number of remedies.
const MAX_REMEDIES: usize = 4;
/// Maximum number of last output lines, and their total length in characters.
const MAX_TAIL_LINES: usize = 12;
const MAX_TAIL: usize = 600;
/// Maximum length of the details of an error, in bytes of JSON.
const MAX_DETAILS: usize = 400;

/// Summary of an error, sufficient for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorSummary {
    pub(crate) code: Code,
    category: Category,
    severity: Severity,
    class: Class,
    /// Id of the occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    pub(crate) message: String,
    pub(crate) retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    /// Short details of the code; `argus_status` with `detail: "full"` has all of them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
    /// Last output lines of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggested_actions: Vec<ActionId>,
    /// Remedies as complete calls.
    pub(crate) remedies: Vec<Remedy>,
    /// Calls behind the error, on request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    debug: Vec<Call>,
}

impl ErrorSummary {
    pub(super) fn from_error(error: &StructuredError) -> Self {
        Self {
            code: error.code,
            category: error.category,
            severity: error.severity,
            class: error.class,
            error_id: error.error_id.clone(),
            service: error.service.clone(),
            message: clip(&error.message, MAX_MESSAGE),
            retryable: error.retryable,
            retry_after: error.retry_after,
            exit_code: error.exit_code,
            details: bound_details(&error.details),
            tail: output_tail(error),
            suggested_actions: error.suggested_actions.clone(),
            remedies: error.remedies.iter().take(MAX_REMEDIES).cloned().collect(),
            debug: error.debug.clone(),
        }
    }

    /// Shortens the summary for a list of environments.
    pub(super) fn shorten(self) -> Self {
        Self {
            message: clip(&self.message, MAX_SHORT_MESSAGE),
            tail: None,
            details: Map::new(),
            suggested_actions: Vec::new(),
            remedies: Vec::new(),
            ..self
        }
    }
}

/// Returns the shortest members of the details, together within their limit.
fn bound_details(details: &Map<String, Value>) -> Map<String, Value> {
    let mut members: Vec<_> = details.iter().collect();
    members.sort_by_key(|(_, value)| value.to_string().len());
    let mut kept = Map::new();
    for (name, value) in members {
        kept.insert(name.clone(), value.clone());
        if json!(kept).to_string().len() > MAX_DETAILS {
            kept.remove(name);
            break;
        }
    }
    kept
}

/// Returns the last output lines of an error's container: of stderr, or of stdout if stderr is empty.
pub(crate) fn output_tail(error: &StructuredError) -> Option<String> {
    let written = error.stderr_tail.as_deref();
    let written = written.filter(|tail| !tail.trim().is_empty());
    let written = written.or(error.stdout_tail.as_deref());
    written.map(last_lines).filter(|tail| !tail.is_empty())
}

/// Returns the end of a text, in whole lines unless a long line would be lost.
fn last_lines(text: &str) -> String {
    let kept = failed_run::last_lines(text.lines(), MAX_TAIL_LINES).join("\n");
    let cut = kept.chars().count().saturating_sub(MAX_TAIL);
    let end: String = kept.chars().skip(cut).collect();
    let starts_a_line = cut == 0 || kept.chars().nth(cut - 1) == Some('\n');
    match end.split_once('\n') {
        Some((_, rest)) if !starts_a_line && rest.len() >= MAX_TAIL / 2 => rest.to_owned(),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::EnvironmentStatus;

    use super::*;
    use crate::api::environment_summary::EnvironmentSummary;

    #[test]
    fn error_has_its_canonical_fields_and_short_details() {
        let attempts = vec!["exit code 3"; 100];
        let error = StructuredError::new(Code::ContainerRestartExhausted, "gave up")
            .details(json!({ "attempts": attempts, "crashLoop": true, "pattern": "same" }))
            .service("api");
        let status = EnvironmentStatus {
            errors: vec![error.clone()],
            ..EnvironmentStatus::default()
        };
        let summary = json!(EnvironmentSummary::from_status(&status));
        let full = json!(error);
        for field in [
            "code",
            "category",
            "severity",
            "class",
            "message",
            "suggestedActions",
            "retryable",
        ] {
            assert_eq!(summary["error"][field], full[field], "{field}");
        }
        assert_eq!(
            summary["error"]["details"],
            json!({ "crashLoop": true, "pattern": "same" })
        );
    }

    #[test]
    fn list_has_the_message_without_output_and_remedies() {
        let error = StructuredError {
            stderr_tail: Some("first\nlast\n".to_owned()),
            ..StructuredError::new(Code::ContainerCrash, "x".repeat(2 * MAX_MESSAGE)).service("api")
        };
        let whole = ErrorSummary::from_error(&error);
        assert_eq!(whole.tail.as_deref(), Some("first\nlast"));
        let short = whole.clone().shorten();
        assert_eq!((short.code, &short.service), (whole.code, &whole.service));
        assert!(short.message.len() < whole.message.len(), "{}", short.message);
        assert_eq!(
            (short.tail, short.details.len(), short.remedies.len()),
            (None, 0, 0)
        );
        assert!(short.suggested_actions.is_empty());
    }

    #[test]
    fn tail_is_the_end_of_stderr_or_else_of_stdout() {
        let mut error = StructuredError::new(Code::ContainerCrash, "exit code 1");
        assert_eq!(output_tail(&error), None);
        error.stdout_tail = Some("a".repeat(2 * MAX_TAIL));
        assert_eq!(output_tail(&error).map(|tail| tail.len()), Some(MAX_TAIL));
        error.stderr_tail = Some(" \n".to_owned());
        assert_eq!(output_tail(&error).map(|tail| tail.len()), Some(MAX_TAIL));
        let lines = format!("{}\n{}", "a".repeat(200), "b".repeat(MAX_TAIL - 201));
        for (first, rest, has_part) in [
            ("a line".to_owned(), &lines[..MAX_TAIL - 3], false),
            // The tail begins with a line.
            ("f".to_owned(), &lines[..], false),
            ("c".repeat(MAX_TAIL), "exit", true),
        ] {
            error.stdout_tail = Some(format!("{first}\n{rest}"));
            let tail = output_tail(&error).unwrap();
            assert_eq!(tail != *rest, has_part, "{tail}");
        }
        error.stderr_tail = Some("cause\n".to_owned());
        assert_eq!(output_tail(&error).as_deref(), Some("cause"));
    }
}
