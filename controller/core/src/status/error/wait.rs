//! Errors of waits: holds, names that another object holds, bind sources that a container can replace, and removals.

use argus_crds::error::{ActionId, Class, Code, StructuredError};
use serde_json::json;

use super::ErrorScope;
use crate::desired::Role;
use crate::outcome::one_line;
use crate::quoting::shell_word;
use crate::remedy::next_name;
use crate::status::StatusInput;
use crate::time::Timestamp;
use crate::wait::{Wait, WaitReason, WritableSource};

/// Error of a hold, with its holder, its end and its reason.
pub(super) fn hold(
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

/// Adds another name to an error. A container that Argus does not own keeps its name.
pub(super) fn with_other_name(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    error: StructuredError,
    name: &str,
) -> StructuredError {
    let Some(accepted) = input.accepted else {
        return error;
    };
    let (file, reason) = (
        &accepted.spec_path,
        format!("another object has the name `{name}`"),
    );
    let edit = match super::service_of(input, error_scope) {
        Some(service) if service.role == Role::Mock => return error,
        Some(service) => accepted
            .lines
            .edit_service(file, service.name.as_str(), "container.name", reason),
        None => {
            let mut networks = accepted.desired.declared_networks();
            let Some(network) = networks.find(|network| network.name.as_str() == name) else {
                return error;
            };
            accepted.lines.edit(file, &network.name_path(), reason)
        }
    };
    let other = next_name(edit.now.as_deref().unwrap_or(name));
    error.edit(edit.suggest(other))
}

/// Reports whether the file of the environment is a Compose file.
pub(super) fn is_compose(input: &StatusInput<'_>) -> bool {
    input.accepted.is_some_and(|accepted| accepted.lines.is_compose())
}

/// Adds the ways to start next to a volume of a Compose project. The first one uses its data, and none deletes them.
pub(super) fn with_compose_volume(
    input: &StatusInput<'_>,
    error: StructuredError,
    project: &str,
) -> StructuredError {
    let details = json!({
        "composeProject": project,
        "ofCompose": is_compose(input),
        "fix": "end the Compose project (its volume stays), run `argus allow`, and restart the controller",
        "fixCommand": format!("docker compose -p {} down", shell_word(project)),
    });
    error
        .details(details)
        .suggest(&[ActionId::AllowInPolicy, ActionId::SetNamespace])
}

/// Error of a wait for a container that stays: such as one of a fork, of an earlier revision after a rollback, or on hold.
pub(super) fn writable_source(input: &StatusInput<'_>, on: &WritableSource) -> StructuredError {
    let (mount, writer) = (&on.mount, &on.writer);
    let (container, environment) = (&writer.container, &writer.environment);
    let message = format!(
        "`{mount}` is below `{}`, which container `{container}` of environment `{environment}` can write",
        writer.mount
    );
    let fix = if environment == input.env {
        "run `argus allow` and restart the controller".to_owned()
    } else if writer.is_of_other {
        format!(
            "run `argus allow` and restart the controller, or stop the controller that has `{environment}`"
        )
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

/// Error of an object that containers use, which Argus does not remove.
pub(super) fn in_use(object: &str, containers: &str) -> StructuredError {
    let message =
        format!("cannot remove {object}: it is in use by {containers}, which Argus does not remove");
    StructuredError::new(Code::CleanupFailed, message).class(Class::Human)
}

/// Reported errors of removals that are tried again now. They stay until the attempt ends.
pub(super) fn retried_removals(input: &StatusInput<'_>, errors: &[StructuredError]) -> Vec<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let is_tried = |wait: &Wait| {
        wait.subject.orphan_id().is_some()
            && matches!(
                wait.on,
                WaitReason::InFlight { .. }
                    | WaitReason::EffectPending { .. }
                    | WaitReason::RelistPending { .. }
            )
    };
    let Some(previous) = input.previous.filter(|_| waits.iter().any(is_tried)) else {
        return Vec::new();
    };
    let is_absent = |old: &&StructuredError| errors.iter().all(|error| error.message != old.message);
    previous
        .errors
        .iter()
        .filter(|old| old.code == Code::CleanupFailed && old.service.is_none())
        .filter(is_absent)
        .cloned()
        .collect()
}
