//! Errors of removals that failed, or that need the removal of a container.

use argus_crds::error::{Class, Code, StructuredError};

use crate::status::StatusInput;
use crate::wait::{Wait, WaitReason};

/// Error of an object that containers use, which Argus does not remove.
pub(super) fn in_use(object: &str, containers: &str) -> StructuredError {
    let message =
        format!("cannot remove {object}: it is in use by {containers}, which Argus does not remove");
    StructuredError::new(Code::CleanupFailed, message).class(Class::Human)
}

/// Reported errors of removals that are tried again now. They stay until the attempt ends.
pub(super) fn retried_errors(input: &StatusInput<'_>, errors: &[StructuredError]) -> Vec<StructuredError> {
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
