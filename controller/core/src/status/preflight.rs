//! Preflight part of a status.

use argus_crds::error::{Call, Code, Reason, Severity, StructuredError};
use argus_crds::status::{CheckResult, PreflightReport};
use serde_json::json;

use super::StatusInput;
use super::error::ErrorScope;
use crate::outcome::one_line;
use crate::preflight::{Fact, disk_details, size};
use crate::wait::WaitReason;

/// Preflight report under the environment's own policy.
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

/// Error of the check that blocks the creation of objects, reported once for all waiting services. Without one, the warning of a
/// disk that is nearly full.
pub(super) fn errors(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let first = waits.iter().find_map(|wait| match &wait.on {
        WaitReason::Preflight {
            check,
            code: Some(code),
            why,
            until,
        } => Some((check, *code, why, *until)),
        _ => None,
    });
    let Some((check, code, why, until)) = first else {
        return low_disk(input, waits.is_empty()).into_iter().collect();
    };
    let check_status =
        report(input).and_then(|report| report.checks.into_iter().find(|found| found.name == *check));
    let mut error = StructuredError::new(code, one_line(why))
        .stage("preflight")
        .with_call(Call::new("preflight", json!({ "check": check })).outcome([why.clone()]));
    error = error.details(json!({ "check": check }));
    if let Some(details) = check_status.and_then(|check_status| check_status.details) {
        error = error.details(details);
    }
    if code == Code::PrereqMissing {
        error = error.reason(Reason::MissingPrerequisite);
    }
    if until.is_some() && error.retryable {
        error = error.retry_after(crate::preflight::snapshot::RECHECK_DELAY.as_secs());
    }
    vec![ErrorScope::environment(input).finish(error, input.now)]
}

/// Warning of a disk with less than twice the required space or inodes. Creation continues. A settled environment creates nothing,
/// so it has the warning of a full disk too.
fn low_disk(input: &StatusInput<'_>, is_settled: bool) -> Option<StructuredError> {
    let settings = &input.accepted?.desired.preflight;
    let preflight = input.preflight.filter(|_| input.engine.reachable)?;
    let outcome = preflight.disk(settings, input.disk_full, input.now)?;
    let is_low = outcome.result == CheckResult::Warn || (is_settled && outcome.result == CheckResult::Fail);
    let (true, Fact::Known(disk)) = (is_low, &preflight.host.disk) else {
        return None;
    };
    // The amount is in the details only: with it, the message would change with every check.
    let message = format!(
        "the disk of `{}` is nearly full: creation stops below {} of free space",
        disk.path,
        size(settings.disk_space_threshold)
    );
    let error = StructuredError::new(Code::DiskSpaceLow, message)
        .severity(Severity::Warning)
        .stage("preflight")
        .details(disk_details(disk, settings.disk_space_threshold));
    Some(ErrorScope::environment(input).finish(error, input.now))
}

/// Adds the known disk usage to the error of a full disk.
pub(super) fn with_usage(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    let disk = input.preflight.map(|preflight| &preflight.host.disk);
    let (Code::DiskSpaceLow, Some(Fact::Known(disk)), Some(accepted)) = (error.code, disk, input.accepted)
    else {
        return error;
    };
    error.details(disk_details(
        disk,
        accepted.desired.preflight.disk_space_threshold,
    ))
}
