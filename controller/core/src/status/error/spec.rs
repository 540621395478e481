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

/// Change of the file that fixes a diagnostic, or of a file that it names.
fn edit_of(diagnostic: &Diagnostic, spec_path: &str) -> SpecEdit {
    let correction = diagnostic.correction.as_deref().cloned().unwrap_or_default();
    let reason = reason(diagnostic, &correction.related);
    // A value says more than its description.
    let hint = diagnostic
        .hint
        .as_deref()
        .filter(|_| correction.suggest.is_none());
    let edit = match correction.elsewhere {
        Some(place) => SpecEdit::new(next_to(spec_path, &place.file), place.path, reason).line(place.line),
        None => SpecEdit::new(spec_path, diagnostic.path.as_str(), reason)
            .line(diagnostic.location.map(|position| position.line)),
    };
    SpecEdit {
        now: correction.now,
        suggest: correction.suggest,
        hint: hint.map(|hint| hint.trim_start_matches(POLICY_PREFIX).to_owned()),
        ..edit
    }
}

/// Path of a file that a spec file names.
fn next_to(spec_path: &str, file: &str) -> String {
    match spec_path.rsplit_once('/') {
        Some((folder, _)) if !file.starts_with('/') => {
            format!("{folder}/{}", file.trim_start_matches("./"))
        }
        Some(_) | None => file.trim_start_matches("./").to_owned(),
    }
}

/// Warning about an unknown key that is probably the key that an error requires.
fn misspelled_key<'d>(error: &Diagnostic, all: &'d [Diagnostic]) -> Option<&'d Diagnostic> {
    fn split(path: &str) -> (&str, &str) {
        path.rsplit_once('.').unwrap_or(("", path))
    }
    let names = |name: &str| error.message.contains(&format!("`{name}`"));
    all.iter().find(|other| {
        let meant = other
            .correction
            .as_ref()
            .and_then(|correction| correction.suggest.as_deref());
        let (parent, _) = split(&other.path);
        // An error can name the service by its index.
        let is_near = [error.path.as_str(), split(&error.path).0].contains(&parent) || names(split(parent).1);
        !other.is_error() && is_near && meant.is_some_and(names)
    })
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
        let mut details = json!({
            "specPath": rejection.spec_path,
            "path": diagnostic.path,
            "line": diagnostic.location.map(|position| position.line),
            "column": diagnostic.location.map(|position| position.column),
            "hint": forbidden.or(hint),
        });
        let correction = diagnostic.correction.as_ref();
        if let Some(holder) = correction.and_then(|correction| correction.conflicts_with.as_ref()) {
            details["conflictsWith"] = json!(holder);
        }
        if rejection.is_compose {
            details["ofCompose"] = json!(true);
        }
        let error = StructuredError::new(code, message).details(details);
        let line = diagnostic.location.map(|position| position.line);
        let diagnostic = misspelled_key(diagnostic, rejection.diagnostics).unwrap_or(diagnostic);
        let edit = edit_of(diagnostic, rejection.spec_path);
        error_location.finish(error.edit(edit).spec(rejection.spec_path, line), at)
    };
    rejection
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .take(MAX_ERRORS)
        .map(error)
        .collect()
}
