//! Context of an error: controller, cause and place in the spec file.

use argus_crds::error::{Code, StructuredError};

use crate::desired::Accepted;
use crate::ident::ServiceName;
use crate::status::StatusInput;

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
