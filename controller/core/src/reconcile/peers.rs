//! Plans without actions: before the first sync, and for environments of other controllers.
//! Invariant 5: no action before the first list and the first scan are complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Inputs, Planner, ReconcileResult};
use crate::action::Subject;
use crate::desired::Accepted;
use crate::ident::{EnvName, ServiceName};
use crate::labels;
use crate::lease::{LeaseHolder, Liveness, Ownership};
use crate::observed::Observed;
use crate::plan::Plan;
use crate::plan::orphan::Projects;
use crate::time::Timestamp;
use crate::wait::{Wait, WaitReason};

/// Leases of other controllers at the last planning pass.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLeaseInputs {
    /// Version of the leases.
    version: u64,
    /// Time at which a lease expires or changes its meaning.
    until: Option<Timestamp>,
    /// Accepted specs, by environment.
    specs: Vec<Arc<Accepted>>,
    /// Projects of all accepted specs.
    pub(super) projects: Projects,
}

impl Planner {
    /// Plans no action before the first complete list and scan; every service waits.
    pub(super) fn plan_before_sync(
        &mut self,
        inputs: &Inputs<'_>,
        mut result: ReconcileResult,
    ) -> ReconcileResult {
        self.invalidate_all();
        let on = if inputs.scanned {
            // The reason is empty while a connected engine has not been listed yet.
            let why = inputs.store.unreachable_reason().to_owned();
            WaitReason::Engine { why }
        } else {
            WaitReason::Specs
        };
        let plans = inputs.specs.iter().map(|(env, accepted)| {
            let plan = self.plan_waiting(env, accepted, &on);
            (env.clone(), Arc::new(plan))
        });
        result.plans = Arc::new(plans.collect());
        result
    }

    /// Invalidates all plans after a change of the leases or of the projects.
    pub(super) fn observe_leases(&mut self, inputs: &Inputs<'_>) {
        let leases = inputs.leases;
        let over = self.peers.until.is_some_and(|until| until <= inputs.now);
        let differs = self.update_projects(inputs) || self.peers.version != leases.version();
        if over || differs {
            self.invalidate_all();
        }
        self.peers.version = leases.version();
        self.peers.until = leases.next_change(inputs.now);
    }

    /// Reads the projects of the specs again if a spec changed. Returns true if a project differs.
    fn update_projects(&mut self, inputs: &Inputs<'_>) -> bool {
        let mut both = self.peers.specs.iter().zip(inputs.specs.values());
        let is_same =
            self.peers.specs.len() == inputs.specs.len() && both.all(|(old, new)| Arc::ptr_eq(old, new));
        if is_same {
            return false;
        }
        self.peers.specs = inputs.specs.values().cloned().collect();
        let mut by_name = BTreeMap::new();
        let mut has_new_folder = false;
        for accepted in &self.peers.specs {
            let desired = &accepted.desired;
            *by_name.entry(desired.project.clone()).or_insert(true) &= desired.clean_orphans;
            if let Some(folder) = &desired.folder {
                has_new_folder |= self.peers.projects.folders.insert(folder.clone());
            }
        }
        let differs = has_new_folder || self.peers.projects.by_name != by_name;
        self.peers.projects.by_name = by_name;
        differs
    }

    /// Plan of an environment that this controller does not own; `None` for its own.
    pub(super) fn plan_not_owned(
        &self,
        env: &EnvName,
        accepted: Option<&Accepted>,
        inputs: &Inputs<'_>,
    ) -> Option<Plan> {
        let on = match inputs.leases.ownership(env, accepted.is_some(), inputs.now) {
            Ownership::Own => return None,
            Ownership::Unclaimed => WaitReason::ControllerLease,
            Ownership::HeldByOther(lease) => WaitReason::LeaseHeldByOther {
                controller: Box::new(LeaseHolder::of(lease, inputs.leases)),
                until: None,
            },
        };
        Some(match accepted {
            Some(accepted) => self.plan_waiting(env, accepted, &on),
            None => self.plan_removal_waiting(env, &on, inputs),
        })
    }

    /// Plan of an environment that is not desired and not owned: one wait per remaining object of this controller.
    fn plan_removal_waiting(&self, env: &EnvName, on: &WaitReason, inputs: &Inputs<'_>) -> Plan {
        let Some(observed) = inputs.store.of(env) else {
            return Plan::default();
        };
        let controller = &self.identity.controller;
        let containers = observed.containers.values();
        let containers = containers
            .filter(|container| container.is_made_by(controller))
            .map(|container| Subject::ExtraContainer {
                id: container.id.clone(),
            });
        let networks = observed.networks.values();
        let networks = networks
            .filter(|network| network.is_made_by(controller))
            .map(|network| Subject::ExtraNetwork {
                id: network.id.clone(),
            });
        let wait = |subject| Wait {
            subject,
            on: on.clone(),
        };
        let waits: Vec<Wait> = containers.chain(networks).map(wait).collect();
        let is_held = matches!(on, WaitReason::LeaseHeldByOther { .. });
        Plan {
            is_left_to_others: (is_held && waits.is_empty()) || Self::is_left_to_others(observed, inputs),
            waits,
            ..Plan::default()
        }
    }

    /// True if all containers and networks are those of other live controllers, so that this controller removes none of them.
    pub(super) fn is_left_to_others(observed: &Observed, inputs: &Inputs<'_>) -> bool {
        let is_alive = |labels: &BTreeMap<String, String>| {
            let (controller, _) = labels::maker(labels);
            // Before the first list of the leases, no controller is known to be alive.
            matches!(inputs.leases.liveness(controller, inputs.now), Liveness::Alive(_))
        };
        let mut containers = observed.containers.values();
        let mut networks = observed.networks.values();
        containers.all(|it| is_alive(&it.labels)) && networks.all(|it| is_alive(&it.labels))
    }

    fn plan_waiting(&self, env: &EnvName, accepted: &Accepted, on: &WaitReason) -> Plan {
        let wait = |service: &ServiceName| Wait {
            subject: Subject::of_service(env, service),
            on: on.clone(),
        };
        Plan {
            waits: accepted.desired.services.keys().map(wait).collect(),
            revision: Some(accepted.desired.revision.clone()),
            ports: self
                .state
                .environments
                .get(env)
                .map(|history| history.ports.clone())
                .unwrap_or_default(),
            ..Plan::default()
        }
    }
}
