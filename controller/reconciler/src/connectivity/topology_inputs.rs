//! Inputs of the check of one environment, and the state of its links, read before a test begins.

use std::sync::Arc;

use argus_core::connectivity::{self, ConnectivityInput};
use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::observed::{Observed, Outage};
use argus_core::plan::Plan;
use argus_core::probe::HealthStates;
use argus_core::state::EnvHistory;
use argus_core::time::Timestamp;
use argus_crds::error::StructuredError;

use crate::snapshot::Snapshot;

/// Inputs of a [`CheckRequest`](argus_core::connectivity::CheckRequest). While they are unchanged, the request is not computed again.
#[derive(Debug, Clone)]
pub(super) struct TopologyInputs {
    accepted: Arc<Accepted>,
    observed: Arc<Observed>,
    plan: Arc<Plan>,
    health: Arc<HealthStates>,
    outages: Vec<Outage>,
}

impl TopologyInputs {
    pub(super) fn of(snapshot: &Snapshot, env: &EnvName) -> Option<Self> {
        Some(Self {
            accepted: snapshot.desired.get(env)?.clone(),
            observed: snapshot.store.of(env)?.clone(),
            plan: snapshot.plans.get(env)?.clone(),
            health: snapshot.health.clone(),
            outages: snapshot.store.outages().to_vec(),
        })
    }

    pub(super) fn is_starting(&self, history: Option<&EnvHistory>) -> bool {
        let services = &self.accepted.desired.services;
        self.plan.is_starting(services, history, &self.outages)
    }

    /// Progress of the start. It changes with each service that comes up.
    pub(super) fn start_progress(&self) -> impl PartialEq + use<> {
        self.plan.start_progress(&self.accepted.desired.services)
    }

    pub(super) fn topology(&self, engine_returned_at: Option<Timestamp>) -> ConnectivityInput<'_> {
        ConnectivityInput {
            desired: &self.accepted.desired,
            observed: &self.observed,
            hashes: Some(&self.plan.hashes),
            health: &self.health,
            outages: &self.outages,
            engine_returned_at,
        }
    }

    /// Probe results of other environments do not count.
    fn has_same_health(&self, other: &Self) -> bool {
        let mut containers = self.observed.containers.keys();
        Arc::ptr_eq(&self.health, &other.health)
            || containers.all(|id| self.health.get(id) == other.health.get(id))
    }
}

impl PartialEq for TopologyInputs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.accepted, &other.accepted)
            && Arc::ptr_eq(&self.observed, &other.observed)
            && Arc::ptr_eq(&self.plan, &other.plan)
            && self.outages == other.outages
            && self.has_same_health(other)
    }
}

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
