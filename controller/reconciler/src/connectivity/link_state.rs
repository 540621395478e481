//! State of an environment's links, read before a test begins.

use argus_core::connectivity;
use argus_core::ident::EnvName;
use argus_crds::error::StructuredError;

use super::topology_inputs::TopologyInputs;
use crate::snapshot::Snapshot;

/// State of the links of an environment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LinkState {
    /// A check of the current state found that all links work, or there are none.
    Verified,
    /// No check of the current state is done yet. Holds the reason, for the case that it does not end in time.
    Pending(String),
    /// A check of the current state cannot verify all links, for this reason.
    Unverified(String),
    /// At least one link fails.
    Broken(Box<StructuredError>),
}

/// Returns the state of the links of `env` in `snapshot`.
pub(crate) fn link_state(snapshot: &Snapshot, env: &EnvName) -> LinkState {
    let Some(accepted) = snapshot.desired.get(env) else {
        return LinkState::Verified;
    };
    if !accepted.desired.verify_connectivity {
        let reason = "its file disables connectivity checks";
        return LinkState::Unverified(reason.to_owned());
    }
    if connectivity::targets(&accepted.desired).is_empty() {
        return LinkState::Verified;
    }
    if !snapshot.links.helpers_allowed {
        return LinkState::Unverified("helper containers are disabled".to_owned());
    }
    // The snapshot can be newer than the check.
    let check = snapshot.links.checks.get(env);
    let check = check
        .zip(TopologyInputs::of(snapshot, env))
        .filter(|(check, inputs)| inputs.topology(None).is_current(check));
    let Some((check, inputs)) = check else {
        return LinkState::Pending("no connectivity check of the current state is done".to_owned());
    };
    let topology = inputs.topology(check.key.engine_returned_at);
    if let Some(error) = connectivity::errors(check, &topology).into_iter().next() {
        return LinkState::Broken(Box::new(error.environment(env.as_str())));
    }
    let unchecked = check
        .link_results
        .iter()
        .find_map(|link| link.result.as_ref().err());
    match unchecked {
        None => LinkState::Verified,
        Some(reason) if check.is_worth_repeating() => LinkState::Pending(reason.clone()),
        Some(reason) => LinkState::Unverified(reason.clone()),
    }
}
