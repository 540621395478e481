//! State of an environment's links, read before a test begins.

use argus_core::connectivity;
use argus_core::ident::EnvName;
use argus_crds::error::StructuredError;

use super::topology_inputs;
use crate::snapshot::Snapshot;

/// State of the links of an environment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LinkState {
    /// No link fails, or the links are not checked now.
    Fine,
    /// All services are up, and the check is not done yet.
    Pending,
    /// At least one link fails.
    Broken(Box<StructuredError>),
}

/// Returns the state of the links of `env` in `snapshot`.
pub(crate) fn link_state(snapshot: &Snapshot, env: &EnvName) -> LinkState {
    let wanted = snapshot
        .desired
        .get(env)
        .is_some_and(|accepted| accepted.desired.verify_connectivity);
    let Some(inputs) = topology_inputs(snapshot, env).filter(|_| wanted && snapshot.links.helpers_allowed)
    else {
        return LinkState::Fine;
    };
    // The time of the last reconnect identifies a check; it does not affect the state of the links.
    let topology = inputs.topology(None);
    let check = snapshot.links.checks.get(env).filter(|check| check.is_current);
    match check {
        Some(check) => connectivity::errors(check, &topology)
            .into_iter()
            .next()
            .map_or(LinkState::Fine, |error| {
                LinkState::Broken(Box::new(error.environment(env.as_str())))
            }),
        // A service that is not up has no check; its own status reports the reason.
        None if topology.due_key().is_none() => LinkState::Fine,
        None => LinkState::Pending,
    }
}
