//! Search for obstacles: which objects are about to be removed, and hold what an environment needs.

use std::collections::BTreeSet;

use super::Inputs;
use crate::action::Subject;
use crate::desired::{Desired, Port};
use crate::ident::{EnvName, ProtocolPort};
use crate::labels::{self, ObjectLabels};
use crate::lease::{Liveness, Ownership};
use crate::observed::{Container, Network, Observed};
use crate::plan::ControllerIdentity;
use crate::plan::obstacle::Obstacles;
use crate::plan::orphan::{Projects, check_project};
use crate::state::PlannerState;
use crate::state::port_labels::published_ports;

mod writers;

/// Finds the obstacles of this pass.
pub(super) fn find(
    inputs: &Inputs<'_>,
    state: &PlannerState,
    projects: &Projects,
    identity: &ControllerIdentity,
) -> Obstacles {
    let mut finder = Finder {
        inputs,
        state,
        projects,
        identity,
        is_range_needed: state.is_pool_exhausted(),
        needs: None,
        found: Obstacles::default(),
    };
    for (env, observed) in inputs.store.environments() {
        finder.visit(env, observed);
    }
    finder.find_writers();
    finder.found
}

/// Names and host ports that the desired environments request.
struct Needs<'a> {
    containers: BTreeSet<&'a str>,
    networks: BTreeSet<&'a str>,
    ports: BTreeSet<ProtocolPort>,
}

impl<'a> Needs<'a> {
    fn of(inputs: &Inputs<'a>) -> Self {
        let all = || inputs.specs.values().map(|accepted| &accepted.desired);
        let services = || all().flat_map(|desired| desired.services.values());
        Self {
            containers: services()
                .map(|service| service.container_name.as_str())
                .collect(),
            networks: all()
                .flat_map(Desired::declared_networks)
                .filter(|network| !network.external)
                .map(|network| network.name.as_str())
                .collect(),
            ports: services()
                .flat_map(|service| &service.ports)
                .filter_map(Port::requested_host)
                .collect(),
        }
    }
}

struct Finder<'a> {
    inputs: &'a Inputs<'a>,
    state: &'a PlannerState,
    projects: &'a Projects,
    identity: &'a ControllerIdentity,
    is_range_needed: bool,
    needs: Option<Needs<'a>>,
    found: Obstacles,
}

impl Finder<'_> {
    fn visit(&mut self, env: &EnvName, observed: &Observed) {
        let is_foreign = |container: &&Container| !container.is_made_by(&self.identity.controller);
        let containers = observed.containers.values().map(AsRef::as_ref);
        let containers: Vec<&Container> = containers.filter(is_foreign).collect();
        let networks = observed.networks.values();
        let networks: Vec<&Network> = networks
            .filter(|network| self.is_range_needed || !network.is_made_by(&self.identity.controller))
            .map(AsRef::as_ref)
            .collect();
        if (containers.is_empty() && networks.is_empty()) || !self.removes_objects_of(env) {
            return;
        }
        for network in networks {
            self.visit_network(env, network);
        }
        for container in containers {
            self.visit_container(env, container);
        }
    }

    /// Returns whether this controller removes objects of the environment, without waiting for a person.
    fn removes_objects_of(&self, env: &EnvName) -> bool {
        let Inputs {
            specs, requests, now, ..
        } = *self.inputs;
        let accepted = specs.get(env);
        let is_held = accepted.is_some_and(|accepted| accepted.desired.hold || accepted.has_pending_edit)
            || requests.environment_hold(env, now).is_some()
            || requests.restrictions.protected.contains(env);
        let ownership = self.inputs.leases.ownership(env, accepted.is_some(), now);
        !is_held && !matches!(ownership, Ownership::HeldByOther(_))
    }

    fn visit_container(&mut self, env: &EnvName, container: &Container) {
        if !self.is_container_going(env, container) {
            return;
        }
        let needs = self.needs.get_or_insert_with(|| Needs::of(self.inputs));
        let found = &mut self.found;
        let mut is_obstacle = false;
        if needs.containers.contains(container.name.as_str()) {
            found.containers.insert(container.name.clone());
            is_obstacle = true;
        }
        let published = if container.state.is_up() {
            published_ports(container)
        } else {
            Vec::new()
        };
        for port in published.into_iter().filter(|port| needs.ports.contains(port)) {
            found.ports.insert(port, container.name.clone());
            is_obstacle = true;
        }
        // A network is removed after the containers on it.
        let mut attachments = container.networks.values();
        is_obstacle |= attachments.any(|at| {
            let id = at.network.as_ref();
            id.is_some_and(|id| found.ids.contains(id.as_str()))
        });
        if is_obstacle {
            found.ids.insert(container.id.to_string());
        }
    }

    fn visit_network(&mut self, env: &EnvName, network: &Network) {
        let accepted = self.inputs.specs.get(env);
        let is_desired = accepted.is_some_and(|accepted| {
            let mut used = accepted.desired.used_networks();
            used.any(|used| used.name.as_str() == network.name)
        });
        let subject = Subject::ExtraNetwork {
            id: network.id.clone(),
        };
        if is_desired
            || !network
                .owner()
                .is_some_and(|owner| self.is_going(&owner, &subject))
        {
            return;
        }
        let is_range_needed = self.is_range_needed && !self.is_stuck(network);
        let needs = self.needs.get_or_insert_with(|| Needs::of(self.inputs));
        let found = &mut self.found;
        let is_name_needed = needs.networks.contains(network.name.as_str());
        if is_name_needed {
            found.networks.insert(network.name.clone());
        }
        if is_range_needed {
            found.range.get_or_insert_with(|| network.name.clone());
        }
        if is_name_needed || is_range_needed {
            found.ids.insert(network.id.to_string());
        }
    }

    /// Returns whether a container stays on the network, so that the network stays too.
    fn is_stuck(&self, network: &Network) -> bool {
        let is_attached = |container: &Container| {
            let mut attachments = container.networks.values();
            attachments.any(|at| at.network.as_ref() == Some(&network.id))
        };
        self.inputs.store.environments().iter().any(|(env, observed)| {
            let mut attached = observed.containers.values().filter(|at| is_attached(at));
            attached
                .any(|container| !self.removes_objects_of(env) || !self.is_container_going(env, container))
        })
    }

    /// Returns whether the container is about to be removed, if objects of its environment are.
    fn is_container_going(&self, env: &EnvName, container: &Container) -> bool {
        let accepted = self.inputs.specs.get(env);
        let is_desired = accepted.is_some_and(|accepted| {
            let service = container.labels.get(labels::SERVICE);
            service.is_some_and(|service| accepted.desired.services.contains_key(service.as_str()))
        });
        if is_desired || self.state.not_owned.contains(&container.id) {
            return false;
        }
        let subject = Subject::ExtraContainer {
            id: container.id.clone(),
        };
        let owner = container.owner();
        owner.is_some_and(|owner| self.is_going(&owner, &subject))
    }

    /// Returns whether the object is about to be removed. One whose removal failed holds up nothing.
    fn is_going(&self, owner: &ObjectLabels, subject: &Subject) -> bool {
        let Inputs {
            leases,
            requests,
            now,
            ..
        } = *self.inputs;
        let is_own = !owner.controller.is_empty() && owner.controller == self.identity.controller;
        let is_orphan = || {
            let is_dead = leases.liveness(&owner.controller, now) == Liveness::Dead;
            is_dead && check_project(self.projects, requests, &owner.project, now).is_ok()
        };
        !self.has_failed(subject) && (is_own || is_orphan())
    }

    fn has_failed(&self, subject: &Subject) -> bool {
        self.state.action_failures.contains_key(subject)
    }
}
