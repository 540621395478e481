//! Plans without actions: before the first sync, and for environments of other controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Inputs, Planner, ReconcileResult};
use crate::action::Subject;
use crate::desired::Accepted;
use crate::ident::{EnvName, ServiceName};
use crate::lease::Ownership;
use crate::plan::Plan;
use crate::plan::orphan::Projects;
use crate::time::Timestamp;
use crate::wait::{LeaseHolder, Wait, WaitReason};

/// Leases of other controllers at the last planning pass.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLeaseInputs {
    /// Version of the leases.
    version: u64,
    /// Time at which a lease expires or changes its meaning.
    until: Option<Timestamp>,
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
        for (env, accepted) in inputs.specs {
            let plan = self.plan_waiting(env, accepted, &on);
            result.plans.insert(env.clone(), Arc::new(plan));
        }
        result
    }

    /// Invalidates all plans after a change of the leases or of the projects.
    pub(super) fn observe_leases(&mut self, inputs: &Inputs<'_>) {
        let leases = inputs.leases;
        let mut projects = BTreeMap::<&str, bool>::new();
        for accepted in inputs.specs.values() {
            let clean = projects.entry(&accepted.desired.project).or_insert(true);
            *clean &= accepted.desired.clean_orphans;
        }
        let last = &self.peers.projects;
        let is_same = last.len() == projects.len()
            && last
                .iter()
                .all(|(project, clean)| projects.get(project.as_str()) == Some(clean));
        let over = self.peers.until.is_some_and(|until| until <= inputs.now);
        if !is_same {
            let owned = projects
                .into_iter()
                .map(|(project, clean)| (project.to_owned(), clean));
            self.peers.projects = owned.collect();
        }
        if over || self.peers.version != leases.version() || !is_same {
            self.invalidate_all();
        }
        self.peers.version = leases.version();
        self.peers.until = leases.next_change(inputs.now);
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
                controller: LeaseHolder::of(lease, inputs.leases),
                until: None,
            },
        };
        Some(accepted.map_or_else(Plan::default, |accepted| self.plan_waiting(env, accepted, &on)))
    }

    fn plan_waiting(&self, env: &EnvName, accepted: &Accepted, on: &WaitReason) -> Plan {
        let wait = |service: &ServiceName| Wait {
            subject: Subject::Service {
                environment: env.clone(),
                service: service.clone(),
            },
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
