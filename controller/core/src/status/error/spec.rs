//! Errors of a rejected file, one per diagnostic.

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use crate::status::Rejection;
use crate::time::Timestamp;

use super::{ErrorScope, MAX_ERRORS};

/// Prefix of the hint of a diagnostic about the policy.
const POLICY_PREFIX: &str = "POLICY_VIOLATION: ";

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
        error_location.finish(error, at)
    };
    rejection
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .take(MAX_ERRORS)
        .map(error)
        .collect()
}
