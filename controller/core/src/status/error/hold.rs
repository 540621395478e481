//! Errors of holds.

use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use super::ErrorScope;
use crate::outcome::one_line;
use crate::status::StatusInput;
use crate::time::Timestamp;

/// Error of a hold, with its holder, its end and its reason.
pub(super) fn error(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    until: Option<Timestamp>,
    why: &str,
) -> StructuredError {
    let mut holds = input.requests.holds.iter();
    let hold = holds.find(|hold| {
        let is_of_scope = hold
            .service
            .as_ref()
            .is_none_or(|service| Some(service.as_str()) == error_scope.service);
        hold.environment == *input.env && is_of_scope && hold.reason == why && hold.until == until
    });
    let holder = hold
        .and_then(|hold| hold.holder.as_deref())
        .map(one_line)
        .filter(|holder| !holder.is_empty());
    let until = until.map(|at| at.to_string());
    let by = holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(" by `{holder}`"));
    let end = until
        .as_ref()
        .map_or_else(String::new, |until| format!(" until {until}"));
    let reason = if why.is_empty() {
        String::new()
    } else {
        format!(": {}", one_line(why))
    };
    let error = StructuredError::new(Code::Held, format!("it is on hold{by}{end}{reason}"))
        .details(json!({ "until": until, "reason": why, "holder": holder }));
    match input.accepted.filter(|accepted| accepted.desired.hold) {
        // No command ends a hold of the file.
        Some(accepted) => {
            let edit = accepted.lines.edit(
                &accepted.spec_path,
                "argus.hold",
                "the file holds the environment",
            );
            error.suggest(&[]).edit(edit.suggest("false"))
        }
        None => error,
    }
}
