//! Errors of flaky services, whose probe results change too often or come late, and of flaky tests.

use std::sync::Arc;

use argus_crds::error::{ActionId, Class, Code, Severity, StructuredError};
use argus_crds::status::{ServiceState, ServiceStatus};
use serde_json::json;

use crate::ident::ServiceName;
use crate::outcome::one_line;
use crate::state::{ServiceHistory, restart};
use crate::status::StatusInput;
use crate::test_results::Flip;

use super::ErrorScope;

/// Maximum number of reported cases.
const MAX_CASES: usize = 10;

/// Services whose probe results are unreliable, and tests whose results are.
pub(super) fn all(input: &StatusInput<'_>, rows: &[ServiceStatus]) -> Vec<StructuredError> {
    let mut errors = services(input);
    errors.extend(tests(input));
    errors.extend(late_recoveries(input, rows));
    errors
}

/// Tests that passed and failed without a change of the revision and of their suite.
fn tests(input: &StatusInput<'_>) -> Option<StructuredError> {
    let flips = input.requests.test_results.get(input.env)?.flips();
    let first = flips.first()?;
    let more = match flips.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let message = format!(
        "the case `{}` of the suite `{}` failed in {} of {} runs without a change{more}",
        one_line(first.case),
        one_line(first.suite),
        first.failures,
        first.runs,
    );
    let case = |flip: &Flip<'_>| {
        json!({
            "suite": one_line(flip.suite), "case": one_line(flip.case), "runs": flip.runs, "failures": flip.failures,
        })
    };
    let cases: Vec<_> = flips.iter().take(MAX_CASES).map(case).collect();
    let error = StructuredError::new(Code::FlakySuspected, message)
        .details(json!({
            "cases": cases,
            "suggestions": [
                "isolate the case: create its data in the case, or give each worker a copy of the environment (`--workers`)",
                "set a fixed seed for random data, and fixed times",
                "reduce the concurrency: `parallel: false` of the suite, or `tests.parallel.concurrency`",
            ],
        }))
        .suggest(&[ActionId::StabilizeTest, ActionId::InspectLogs]);
    Some(ErrorScope::environment(input).finish(error, first.at))
}

/// Services whose probe results are unreliable.
fn services(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let services = input.history.services.iter();
    let error = |(name, history): (&ServiceName, &Arc<ServiceHistory>)| {
        let excess = restart::excess_transitions(&history.health_transitions, input.now);
        let unsteady = input.observed.containers.of(name).any(|container| {
            input
                .health
                .get(&container.id)
                .is_some_and(|health| health.flapping)
        });
        if excess == 0 && !unsteady {
            return None;
        }
        let message = if excess > 0 {
            format!(
                "its health check flaps: {} recent changes",
                history.health_transitions.len()
            )
        } else {
            "more than half of its probes fail, although it recovers in between".to_owned()
        };
        let transitions: Vec<String> = history
            .health_transitions
            .iter()
            .map(ToString::to_string)
            .collect();
        let error_scope = ErrorScope::environment(input).of_service(name.as_str(), None);
        let error = StructuredError::new(Code::FlakySuspected, message).details(json!({
            "healthTransitions": transitions,
            "unsteady": unsteady,
            "suggestions": [
                "increase `timeout` or `retries` of its healthcheck",
                "pin its image by digest",
                "reduce the load on the host",
            ],
        }));
        let error = error.suggest(&[
            ActionId::FixHealthcheck,
            ActionId::RaiseTimeout,
            ActionId::InspectLogs,
        ]);
        Some(error_scope.finish(
            error,
            history.health_transitions.last().copied().unwrap_or(input.now),
        ))
    };
    services.filter_map(error).collect()
}

/// Services that became healthy only after failures of their health check; one warning each, until the next clean start.
fn late_recoveries(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Vec<StructuredError> {
    let ready = services.iter().filter(|row| row.state == ServiceState::Ready);
    ready.filter_map(|row| late_recovery(input, row)).collect()
}

fn late_recovery(input: &StatusInput<'_>, row: &ServiceStatus) -> Option<StructuredError> {
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
    let edits = super::context::edit_context(input, accepted, service);
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
    let error_scope = ErrorScope::environment(input).of_service(&row.name, row.container_id.as_deref());
    Some(error_scope.finish(error.class(Class::Permanent), healthy.since))
}
