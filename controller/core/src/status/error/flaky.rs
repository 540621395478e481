//! Errors of flaky services, whose probe results change too often, and of flaky tests.

use std::sync::Arc;

use argus_crds::error::{ActionId, Code, StructuredError};
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
pub(super) fn all(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let mut errors = services(input);
    errors.extend(tests(input));
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
        let error_scope = ErrorScope {
            service: Some(name.as_str()),
            ..ErrorScope::environment(input)
        };
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
