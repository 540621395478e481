//! Errors of a rejected file, one per diagnostic.

use argus_crds::diagnostic::{Diagnostic, RelatedPlace};
use argus_crds::error::{Code, SpecEdit, StructuredError};
use serde_json::json;

use crate::status::Rejection;
use crate::time::Timestamp;

use super::{ErrorScope, MAX_ERRORS};

/// Prefix of the hint of a diagnostic about the policy.
const POLICY_PREFIX: &str = "POLICY_VIOLATION: ";

/// Message of a diagnostic, with the lines of its related places.
fn reason(diagnostic: &Diagnostic, related: &[RelatedPlace]) -> String {
    let place = |place: &RelatedPlace| match place.line {
        Some(line) => format!("{} in line {line}", place.message),
        None => place.message.clone(),
    };
    if related.is_empty() {
        return diagnostic.message.clone();
    }
    let places: Vec<String> = related.iter().map(place).collect();
    format!("{}; {}", diagnostic.message, places.join(", "))
}

/// One error per diagnostic that rejects the file.
pub(in crate::status) fn of_spec(
    environment: Option<&str>,
    rejection: Rejection<'_>,
    at: Timestamp,
) -> Vec<StructuredError> {
    let error_location = ErrorScope {
        environment,
        service: None,
        container: None,
        revision: None,
    };
    let error = |diagnostic: &Diagnostic| {
        let position = diagnostic.location.map_or_else(String::new, |position| {
            format!(":{}:{}", position.line, position.column)
        });
        let message = format!("{}{position}: {}", rejection.spec_path, diagnostic.message);
        let hint = diagnostic.hint.as_deref();
        let forbidden = hint.and_then(|hint| hint.strip_prefix(POLICY_PREFIX));
        let code = if forbidden.is_some() {
            Code::PolicyViolation
        } else {
            rejection.code
        };
        let error = StructuredError::new(code, message).details(json!({
            "specPath": rejection.spec_path,
            "path": diagnostic.path,
            "line": diagnostic.location.map(|position| position.line),
            "column": diagnostic.location.map(|position| position.column),
            "hint": forbidden.or(hint),
        }));
        let correction = diagnostic.correction.as_deref().cloned().unwrap_or_default();
        let reason = reason(diagnostic, &correction.related);
        let edit = SpecEdit::new(rejection.spec_path, diagnostic.path.as_str(), reason);
        let edit = SpecEdit {
            now: correction.now,
            suggest: correction.suggest,
            ..edit.line(diagnostic.location.map(|position| position.line))
        };
        error_location.finish(error.edit(edit), at)
    };
    rejection
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .take(MAX_ERRORS)
        .map(error)
        .collect()
}
