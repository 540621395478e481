//! Redaction: removes the secrets of an environment from its status.

use argus_crds::error::{Call, SpecEdit, StructuredError};
use argus_crds::status::EnvironmentStatus;
use serde_json::{Map, Value};

use crate::secrets::Secrets;

use super::StatusInput;

/// Details with words, names and times of Argus, which programs read.
const OURS: &[&str] = &[
    "kind",
    "event",
    "verb",
    "containerId",
    "startedAt",
    "endedAt",
    "failingSince",
    "revision",
    "specHash",
    "imageId",
    "signal",
    "evidence",
    "failedDependency",
    "protocol",
    "stoppedBy",
    "stoppedAt",
    "healthTransitions",
    "suggestions",
    "until",
    "since",
    "nextTry",
];

/// Secret values of the environment.
pub(super) fn secrets(input: &StatusInput<'_>) -> Secrets {
    input
        .accepted
        .map(|accepted| accepted.desired.secret_values())
        .unwrap_or_default()
}

/// Secret values of the environment that its edits do not show.
pub(super) fn edit_secrets(input: &StatusInput<'_>) -> Secrets {
    let accepted = input.accepted;
    accepted
        .map(|accepted| crate::remedy::edit_secrets(&accepted.desired))
        .unwrap_or_default()
}

/// Removes the secrets from an error, and those of edits from their values. Names of its objects and actions stay.
pub(super) fn error(secrets: &Secrets, of_edits: &Secrets, error: StructuredError) -> StructuredError {
    let value = |text: Option<String>| text.map(|text| of_edits.redacted(&text));
    let text = |text: Option<String>| text.map(|text| secrets.redacted(&text));
    let redacted = |(name, value): (String, Value)| (name, secrets.redacted_json(value, OURS));
    let call = |call: Call| Call {
        arguments: call.arguments.into_iter().map(redacted).collect(),
        causes: call.causes.iter().map(|cause| secrets.redacted(cause)).collect(),
        ..call
    };
    let edit = |edit: SpecEdit| SpecEdit {
        now: value(edit.now),
        suggest: value(edit.suggest),
        hint: text(edit.hint),
        reason: secrets.redacted(&edit.reason),
        ..edit
    };
    let redacted_error = StructuredError {
        message: secrets.redacted(&error.message),
        details: match secrets.redacted_json(Value::Object(error.details), OURS) {
            Value::Object(details) => details,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        },
        stdout_tail: text(error.stdout_tail),
        stderr_tail: text(error.stderr_tail),
        debug: error.debug.into_iter().map(call).collect(),
        ..error
    };
    redacted_error.map_edits(edit)
}

/// Removes the secrets from the rest of a status, whose errors are redacted already.
pub(super) fn status(input: &StatusInput<'_>, status: &mut EnvironmentStatus) {
    let secrets = secrets(input);
    for row in &mut status.services {
        if let Some(on) = &mut row.waiting_on {
            on.message = secrets.redacted(&on.message);
        }
        row.image = row.image.as_deref().map(|image| secrets.redacted(image));
        for label in row.labels.values_mut() {
            *label = secrets.redacted(label);
        }
    }
    for note in &mut status.notes {
        *note = secrets.redacted(note);
    }
    for check in status.preflight.iter_mut().flat_map(|report| &mut report.checks) {
        check.message = secrets.redacted(&check.message);
        let details = check.details.take();
        check.details = details.map(|details| secrets.redacted_json(details, OURS));
    }
    for link in status
        .connectivity
        .iter_mut()
        .flat_map(|checked| &mut checked.links)
    {
        link.error = link.error.as_deref().map(|error| secrets.redacted(error));
    }
    if let Some(breaker) = &mut status.breaker {
        breaker.last_failure = breaker.last_failure.as_deref().map(|text| secrets.redacted(text));
        for failure in &mut breaker.last_failures {
            failure.error = secrets.redacted(&failure.error);
        }
        for change in &mut breaker.history {
            change.reason = secrets.redacted(&change.reason);
        }
    }
    for condition in &mut status.conditions {
        condition.message = secrets.redacted(&condition.message);
    }
    for test in &mut status.tests {
        test.holder = test.holder.as_deref().map(|holder| secrets.redacted(holder));
        test.purpose = test.purpose.as_deref().map(|purpose| secrets.redacted(purpose));
    }
    for suite in &mut status.test_results {
        for case in &mut suite.failed_cases {
            *case = secrets.redacted(case);
        }
    }
    for hold in &mut status.holds {
        hold.holder = hold.holder.as_deref().map(|holder| secrets.redacted(holder));
        hold.reason = secrets.redacted(&hold.reason);
    }
    for diagnostic in &mut status.diagnostics {
        *diagnostic = secrets.redacted_diagnostic(diagnostic.clone());
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;
    use serde_json::json;

    use super::*;

    #[test]
    fn call_details_contain_no_secrets() {
        let secrets: Secrets = serde_json::from_value(json!(["wolpertinger"])).unwrap();
        let arguments = json!({ "image": "registry/wolpertinger:1", "ports": ["wolpertinger", 1] });
        let call = Call::new("pull-image", arguments.as_object().cloned().unwrap())
            .outcome(["no `registry/wolpertinger:1` here".to_owned()]);
        let redacted_error = error(
            &secrets,
            &secrets,
            StructuredError::new(Code::ImageNotFound, "x").with_call(call),
        );
        let text = serde_json::to_string(&redacted_error).unwrap();
        assert!(!text.contains("wolpertinger"), "{text}");
        assert_eq!(text.matches("[redacted]").count(), 3, "{text}");
    }
}
