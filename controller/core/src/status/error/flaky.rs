//! Errors of flaky services: their probe results change too often.

use argus_crds::error::{Code, StructuredError};
use serde_json::json;

use crate::ident::ServiceName;
use crate::state::{ServiceHistory, restart};
use crate::status::StatusInput;

use super::ErrorScope;

/// Services whose probe results are unreliable.
pub(super) fn all(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let services = input.history.services.iter();
    let error = |(name, history): (&ServiceName, &ServiceHistory)| {
        let excess = restart::excess_transitions(&history.health_transitions, input.now);
        let unsteady = input
            .observed
            .containers
            .values()
            .filter(|container| container.is_of(name))
            .any(|container| {
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
        Some(error_scope.finish(
            error,
            history.health_transitions.last().copied().unwrap_or(input.now),
        ))
    };
    services.filter_map(error).collect()
}
