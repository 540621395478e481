//! Failures that a dependency explains: their remedies, and the warning about its health check.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::Diagnostic;
use argus_crds::error::{ActionId, Severity, SpecEdit, StructuredError};
use serde_json::json;

use super::probe_result;
use crate::desired::{Accepted, Role, Service};
use crate::failed_run::DependencyState;
use crate::ident::ServiceName;
use crate::observed::Container;
use crate::probe::{self, ProbeStatus};
use crate::status::StatusInput;
use crate::status::redact;
use crate::wait::WaitReason;

/// Detail of a failure with the name of the dependency that explains it.
const DEPENDENCY: &str = "failedDependency";

/// Replaces the remedies of a failure with those of the dependency that explains it: its health check, if that fails now, and its log.
pub(super) fn with_remedies(
    input: &StatusInput<'_>,
    error: StructuredError,
    name: &ServiceName,
) -> StructuredError {
    let error = error
        .details(json!({ DEPENDENCY: name.as_str() }))
        .suggest(&[ActionId::InspectLogs]);
    let step = format!("find the cause in `{name}` with `argus why {}/{name}`", input.env);
    match edit(input, name) {
        Some(edit) => error.edit(edit.hint(step)),
        None => error.details(json!({ "hint": step })),
    }
}

/// Puts the failure of a dependency before those that it explains, and the warnings after all errors.
pub(super) fn sort_causes_first(errors: &mut [StructuredError]) {
    let is_warning = |error: &StructuredError| error.severity == Severity::Warning;
    let failures = errors.iter().filter(|error| !is_warning(error));
    let causes: BTreeMap<String, Option<String>> = failures
        .filter_map(|error| {
            Some((
                error.service.clone()?,
                dependency_of(error).map(ToOwned::to_owned),
            ))
        })
        .collect();
    // Number of failures behind this one. Those of earlier revisions can form a cycle.
    let depth = |error: &StructuredError| {
        let failed = |name: &str| causes.get_key_value(name).map(|(name, _)| name);
        let first = dependency_of(error).and_then(failed);
        let behind = std::iter::successors(first, |name| failed(causes.get(*name)?.as_deref()?));
        behind.take(causes.len()).count()
    };
    errors.sort_by_cached_key(|error| (is_warning(error), depth(error)));
}

fn dependency_of(error: &StructuredError) -> Option<&str> {
    error.details.get(DEPENDENCY)?.as_str()
}

/// Describes a dependency that explains a failure.
pub(super) fn describe(name: &ServiceName, state: Option<DependencyState>) -> String {
    let name = format!("its dependency `{name}`");
    match state {
        Some(DependencyState::Unhealthy) => format!("the health check of {name} failed"),
        Some(DependencyState::Restarted) => format!("{name} restarted"),
        Some(DependencyState::Ended(code)) => format!("{name} had ended with exit code {code}"),
        Some(DependencyState::Absent) => format!("{name} did not run"),
        None => format!("{name} was not ready"),
    }
}

fn edit(input: &StatusInput<'_>, name: &ServiceName) -> Option<SpecEdit> {
    let (accepted, service, container) = running(input, name)?;
    let probe = service.probe.as_ref();
    let fails = match probe::probe_status(probe, container, input.health, input.outages)? {
        ProbeStatus::Unhealthy => true,
        ProbeStatus::Healthy => probe::is_failing(probe, container, input.health),
        ProbeStatus::Starting => false,
    };
    if !fails || service.role == Role::Mock {
        return None;
    }
    let (file, key) = (&accepted.spec_path, "container.healthcheck");
    let reason = format!("the health check of `{name}` failed after it had succeeded");
    let edit = accepted.lines.edit_service(file, name.as_str(), key, reason);
    Some(edit.likely())
}

/// Warnings about health checks that fail while their services still count as healthy and others wait for them, with their last results.
pub(in crate::status) fn failing_checks(input: &StatusInput<'_>) -> impl Iterator<Item = Diagnostic> {
    let waits = input.plan.into_iter().flat_map(|plan| &plan.waits);
    let names: BTreeSet<&ServiceName> = waits
        .filter_map(|wait| match &wait.on {
            WaitReason::Dependency {
                service,
                failing: true,
                ..
            } => Some(service),
            _ => None,
        })
        .collect();
    names.into_iter().filter_map(|name| failing_check(input, name))
}

fn failing_check(input: &StatusInput<'_>, name: &ServiceName) -> Option<Diagnostic> {
    let (accepted, service, container) = running(input, name)?;
    let probe = service.probe.as_ref();
    if !probe::is_failing(probe, container, input.health) {
        return None;
    }
    let results = probe::recent_output(container, input.health);
    let last = redact::secrets(input).redacted(probe::last_result(&results)?);
    let result = probe_result::describe(probe, &last, None);
    let key = accepted.lines.service_key(name.as_str(), "container.healthcheck");
    let hint = format!("read its log with `argus logs {} {name}`", input.env);
    Some(Diagnostic::warning(key, format!("the health check of `{name}` fails: {result}")).hint(hint))
}

/// A service with its running container.
fn running<'a>(
    input: &StatusInput<'a>,
    name: &ServiceName,
) -> Option<(&'a Accepted, &'a Service, &'a Container)> {
    let accepted = input.accepted?;
    let service = accepted.desired.services.get(name)?;
    let mut containers = input.observed.containers.of(name);
    let container = containers.find(|container| container.state.is_up())?;
    Some((accepted, service, container.as_ref()))
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;

    use super::*;

    #[test]
    fn causes_come_before_the_failures_they_explain() {
        let failed = |service: &str, by: Option<&str>| {
            let error = StructuredError::new(Code::ContainerCrash, service).service(service);
            error.details(json!({ DEPENDENCY: by }))
        };
        let mut warning = failed("cache", None);
        warning.severity = Severity::Warning;
        // `absent` has no error of its own, and that of `cache` is a warning.
        let mut errors = [
            warning,
            failed("api", Some("queue")),
            failed("bot", Some("absent")),
            failed("db", None),
            failed("log", Some("cache")),
            failed("queue", Some("db")),
        ];
        sort_causes_first(&mut errors);
        assert_eq!(
            errors.each_ref().map(|error| error.message.as_str()),
            ["bot", "db", "log", "queue", "api", "cache"]
        );
    }
}
