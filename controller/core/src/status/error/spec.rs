//! Errors of a rejected file, one per diagnostic.

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use crate::status::Rejection;
use crate::time::Timestamp;

use super::{MOST, Place};

/// Prefix of the hint of a diagnostic about the policy.
const POLICY: &str = "POLICY_VIOLATION: ";

/// One error per diagnostic that rejects the file.
pub(in crate::status) fn of_spec(
    environment: Option<&str>,
    rejection: Rejection<'_>,
    at: Timestamp,
) -> Vec<StructuredError> {
    let place = Place {
        environment,
        service: None,
        container: None,
        revision: None,
    };
    let error = |diagnostic: &Diagnostic| {
        let spot = diagnostic
            .location
            .map_or_else(String::new, |spot| format!(":{}:{}", spot.line, spot.column));
        let message = format!("{}{spot}: {}", rejection.spec_path, diagnostic.message);
        let hint = diagnostic.hint.as_deref();
        let forbidden = hint.and_then(|hint| hint.strip_prefix(POLICY));
        let code = if forbidden.is_some() {
            Code::PolicyViolation
        } else {
            rejection.code
        };
        let error = StructuredError::new(code, message).details(json!({
            "specPath": rejection.spec_path,
            "path": diagnostic.path,
            "line": diagnostic.location.map(|spot| spot.line),
            "column": diagnostic.location.map(|spot| spot.column),
            "hint": forbidden.or(hint),
        }));
        place.finish(error, at)
    };
    rejection
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .take(MOST)
        .map(error)
        .collect()
}
