//! Inputs of the check of one environment.

use std::sync::Arc;

use argus_core::connectivity::ConnectivityInput;
use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::observed::{Observed, Outage};
use argus_core::plan::Plan;
use argus_core::probe::HealthStates;
use argus_core::state::EnvHistory;
use argus_core::time::Timestamp;

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
