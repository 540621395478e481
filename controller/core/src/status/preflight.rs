//! What the last look at engine and disk adds to a status.

use argus_crds::error::{Call, Code, Reason, StructuredError};
use argus_crds::status::PreflightReport;
use serde_json::json;

use super::StatusInput;
use super::error::Place;
use super::wait::one_line;
use crate::plan::WaitingOn;
use crate::preflight::{Observation, disk_details};

/// The report under the environment's own policy.
pub(super) fn report(input: &StatusInput<'_>) -> Option<PreflightReport> {
    let reason = one_line(input.engine.reason);
    input.preflight?.report(
        &input.accepted?.desired.preflight,
        (!input.engine.reachable).then_some(reason.as_str()),
        input.disk_full,
        Vec::new(),
        input.previous.and_then(|previous| previous.preflight.as_ref()),
        input.now,
    )
}

/// What keeps the environment from making anything, told once however many services wait for it.
pub(super) fn errors(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let first = waits.iter().find_map(|wait| match &wait.on {
        WaitingOn::Preflight {
            check,
            code: Some(code),
            why,
            until,
        } => Some((check, *code, why, *until)),
        _ => None,
    });
    let Some((check, code, why, until)) = first else {
        return Vec::new();
    };
    let verdict =
        report(input).and_then(|report| report.checks.into_iter().find(|found| found.name == *check));
    let mut error = StructuredError::new(code, one_line(why))
        .stage("preflight")
        .with_call(
            Call::new(
                "survey",
                [("check".to_owned(), json!(check))].into_iter().collect(),
            )
            .outcome([why.clone()]),
        );
    error = error.details(json!({ "check": check }));
    if let Some(details) = verdict.and_then(|verdict| verdict.details) {
        error = error.details(details);
    }
    if code == Code::PrereqMissing {
        error = error.reason(Reason::MissingPrerequisite);
    }
    if until.is_some() {
        error = error.retry_after(crate::preflight::snapshot::AGAIN.as_secs());
    }
    vec![Place::environment(input).finish(error, input.now)]
}

/// The error of a full disk tells how full it is, as far as that is known.
pub(super) fn with_usage(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    let disk = input.preflight.map(|preflight| &preflight.host.disk);
    let (Code::DiskSpaceLow, Some(Observation::Known(disk)), Some(accepted)) =
        (error.code, disk, input.accepted)
    else {
        return error;
    };
    error.details(disk_details(
        disk,
        accepted.desired.preflight.disk_space_threshold,
    ))
}
