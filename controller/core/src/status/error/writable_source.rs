//! Errors of bind sources that a container can replace.

use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use crate::status::StatusInput;
use crate::wait::WritableSource;

/// Error of a wait for a container that stays: such as one of a fork, of an earlier revision after a rollback, or on hold.
pub(super) fn error(input: &StatusInput<'_>, on: &WritableSource) -> StructuredError {
    let (mount, writer) = (&on.mount, &on.writer);
    let (container, environment) = (&writer.container, &writer.environment);
    let message = format!(
        "`{mount}` is below `{}`, which container `{container}` of environment `{environment}` can write",
        writer.mount
    );
    let fix = if environment == input.env {
        "run `argus allow` and restart the controller".to_owned()
    } else {
        format!(
            "run `argus allow` in the project of each environment and restart the controller, or run `argus down {environment}`"
        )
    };
    let error = StructuredError::new(Code::PolicyViolation, message).details(json!({
        "mount": mount,
        "writableMount": writer.mount,
        "container": container,
        "environment": environment,
        "fix": fix,
    }));
    match &writer.edit {
        Some(edit) => error.edit(edit.clone()),
        None => error,
    }
}
