//! Warnings of services that became healthy only after failures of their health check.

use argus_crds::error::{Class, Code, Severity, StructuredError};
use argus_crds::status::{ServiceState, ServiceStatus};
use serde_json::json;

use super::ErrorScope;
use crate::remedy::EditContext;
use crate::status::StatusInput;

/// One warning per service, until its next clean start.
pub(super) fn all(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Vec<StructuredError> {
    let ready = services.iter().filter(|row| row.state == ServiceState::Ready);
    ready.filter_map(|row| of(input, row)).collect()
}

fn of(input: &StatusInput<'_>, row: &ServiceStatus) -> Option<StructuredError> {
    let accepted = input.accepted?;
    let service = accepted.desired.services.get(row.name.as_str())?;
    let history = input.history.services.get(row.name.as_str())?;
    let number = history.late_recovery?;
    let healthy = history.healthy_run.as_ref()?;
    let failed_run = history
        .failures
        .iter()
        .find(|failed_run| failed_run.number == number)?;
    let took = healthy.since.since(healthy.started_at?);
    let edits = EditContext {
        accepted,
        service,
        history: input.history,
        volumes: &input.observed.volumes,
    };
    let message = format!(
        "it became healthy {} s after its start, and failed its health check before",
        took.as_secs()
    );
    let error = StructuredError::new(Code::HealthCheckTimeout, message)
        .severity(Severity::Warning)
        .details(json!({ "run": number, "tookMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX) }));
    let error = match edits.start_period_of(took.max(failed_run.run_duration())) {
        Some(edit) => error.edit(edit),
        None => error,
    };
    let error_scope = ErrorScope {
        service: Some(&row.name),
        container: row.container_id.as_deref(),
        ..ErrorScope::environment(input)
    };
    Some(error_scope.finish(error.class(Class::Permanent), healthy.since))
}
