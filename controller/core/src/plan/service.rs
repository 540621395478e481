//! Plan of one service: chooses its current container, removes the extra ones, and plans the next action.

use std::sync::Arc;
use std::time::Duration;

use super::{Decision, Plan, PlanInput, drift, held_port, image, network, port, ready, render, volume};
use crate::action::{Action, Cause, ContainerSpec, Subject};
use crate::desired::{Accepted, Service};
use crate::ident::{ContainerSpecHash, ResourceName};
use crate::observed::{Container, ContainerState};
use crate::outcome::ActionError;
use crate::wait::WaitReason;

mod attach;
mod owner;
mod refused;
mod run;

/// Interval of the checks of a name that another container holds.
const NAME_RETRY: Duration = Duration::from_secs(10);

/// One service with the inputs of its plan.
struct ServicePlanner<'a> {
    input: &'a PlanInput<'a>,
    accepted: &'a Accepted,
    service: &'a Service,
    spec: &'a ContainerSpec,
    hash: &'a ContainerSpecHash,
    subject: Subject,
    owned: Vec<&'a Arc<Container>>,
}

pub(super) fn plan(input: &PlanInput<'_>, accepted: &Accepted, service: &Service, plan: &mut Plan) {
    let Some((spec, hash)) = input.rendered.get(&service.name) else {
        return;
    };
    let owned = input
        .observed
        .containers
        .of(&service.name)
        .filter(|container| !input.state.not_owned.contains(&container.id))
        .collect();
    let subject = Subject::of_service(input.env, &service.name);
    let planner = ServicePlanner {
        input,
        accepted,
        service,
        spec,
        hash,
        subject: subject.clone(),
        owned,
    };
    let is_replaced_but_running =
        |container: &&Arc<Container>| container.state.is_up() && !container.carries(hash);
    if planner.owned.iter().any(is_replaced_but_running) {
        plan.replaced_but_running.insert(service.name.clone());
    }
    let replacement = refused::replace_container(&planner);
    let decision = replacement.unwrap_or_else(|| planner.plan_service());
    if run::only_reads_evidence(&planner, &decision) {
        plan.reading_evidence.insert(service.name.clone());
    }
    plan.add(subject, decision);
}

impl ServicePlanner<'_> {
    /// Plans the next action. A changed spec replaces the container in this sequence, one action per pass:
    ///
    /// 1. **Create** the new container; under a temporary name, because the old one still holds the final name.
    /// 2. **Stop** the old container, once the dependencies and ports of the new one allow its start.
    /// 3. **Remove** the old container.
    /// 4. **Rename** the new container to its final name.
    /// 5. **Start** the new container.
    ///
    /// The old container therefore runs until its replacement can start, and a failed pull or create costs no downtime.
    /// It stops earlier only if it holds a host port that now belongs to another service, or if its dependencies are replaced
    /// too: they stop after it.
    /// An old container that does not run is removed before the first step. Its name is then free for the new one.
    fn plan_service(&self) -> Decision {
        let current = ready::current_container(self.input, &self.service.name);
        let blocked = self.input.blocked_by(&self.subject);
        if let Some(wait) = blocked {
            // A failed call does not affect a container that runs as desired.
            let is_action_failure = matches!(
                wait,
                WaitReason::Failed { .. } | WaitReason::Retry { .. } | WaitReason::NameTaken { .. }
            );
            if !is_action_failure || current.is_none_or(|container| !container.state.is_up()) {
                return Decision::Wait(self.with_container_name(wait));
            }
        }
        run::plan_evidence(self).unwrap_or_else(|| self.plan_container(current))
    }

    /// Plans the next action on the containers themselves.
    fn plan_container(&self, current: Option<&Container>) -> Decision {
        let extra: Vec<&Container> = self
            .owned
            .iter()
            .map(AsRef::as_ref)
            .filter(|container| current.is_none_or(|current| current.id != container.id))
            .collect();
        if let Some(other) = extra.iter().find(|other| !self.can_replace(other)) {
            return Decision::Wait(self.wait_for_owner(other));
        }
        let decision = match current {
            _ if let Some(decision) = run::stop_on_request(self) => decision,
            _ if let Some(decision) = attach::leave_defective_network(self) => decision,
            None => self.plan_create(&extra),
            Some(current) => match self.remove_extra(current, &extra) {
                Decision::Settled => self.plan_current(current),
                decision => decision,
            },
        };
        match (decision, self.input.backoff_of(&self.subject)) {
            // Another action may resolve what one action cannot: a container that cannot be started can be replaced.
            (Decision::Do(action, cause), Some(WaitReason::Failed { failure }))
                if failure.verb != action.kind() =>
            {
                Decision::Do(action, cause)
            }
            (Decision::Do(..), Some(wait)) => Decision::Wait(self.with_container_name(wait)),
            (decision, _) => decision,
        }
    }

    fn with_container_name(&self, wait: WaitReason) -> WaitReason {
        self.input
            .with_engine_name(wait, self.service.container_name.as_str())
    }

    /// Plans the creation of the container: removes stopped old containers first.
    fn plan_create(&self, extra: &[&Container]) -> Decision {
        if extra.is_empty() && ready::is_completed(self.input, self.service) {
            return Decision::Settled;
        }
        let removing = extra.iter().find(|c| c.state == ContainerState::Removing);
        if removing.is_some_and(|removing| removing.name == self.service.container_name.as_str()) {
            return Decision::Wait(WaitReason::Removal);
        }
        // The removal of a failed container resets neither its delay nor its budget.
        if let Err(wait) = run::next_run_cause(self).and_then(|_| self.check_create()) {
            return Decision::Wait(wait);
        }
        // A stopped container serves no requests, and its name becomes free for the new one.
        if let Some(stopped) = extra
            .iter()
            .find(|c| !c.state.is_up() && c.state != ContainerState::Removing)
        {
            return remove(stopped, self.creation_cause(extra));
        }
        let final_name = self.service.container_name.clone();
        let held = self.container_named(final_name.as_str());
        let name = held.map_or(final_name, |_| self.temporary_name());
        let spec = render::stamped(
            self.spec,
            self.hash,
            &self.accepted.desired,
            self.input.identity,
            self.input.now,
        );
        let action = Action::CreateContainer {
            name,
            spec: Box::new(spec),
        };
        Decision::Do(
            action,
            self.input.cause(&self.subject, self.creation_cause(extra)),
        )
    }

    /// True if a port may return to the requested one, which only fresh facts show.
    fn has_moved_port(&self) -> bool {
        let (desired, ports) = (&self.accepted.desired, &self.input.ports.ports);
        let moved = held_port::moved_ports(desired, self.input.observed, ports);
        moved.iter().any(|(service, _)| **service == self.service.name)
    }

    /// True if the new container stands for another start of the container that Argus removed after its run.
    fn is_next_start(&self) -> bool {
        let history = run::service_history(self);
        let newest = history.and_then(|history| history.newest_run.as_ref()?.hash.as_ref());
        self.service.has_covers() && newest == Some(self.hash)
    }

    fn check_create(&self) -> Result<(), WaitReason> {
        // The checks of the engine and its disk never block a start.
        let is_start = self.is_next_start();
        if !is_start {
            self.input.check_facts(&self.accepted.desired, None)?;
        }
        let name = self.service.container_name.as_str();
        self.input.obstacles.check_container(name)?;
        if let Some(blocked) = self.input.ports.blocked.get(&self.service.name)
            && matches!(
                blocked,
                WaitReason::PortsExhausted { .. } | WaitReason::Obstacle { .. }
            )
        {
            return Err(blocked.clone());
        }
        let desired = &self.accepted.desired;
        network::check_service(self.input, desired, self.service)?;
        let volumes = self.service.mounts.iter().filter_map(|mount| match mount {
            crate::desired::Mount::Volume { name, .. } => Some(name),
            crate::desired::Mount::Bind { .. } => None,
        });
        for name in volumes {
            if !volume::exists(self.input, name) {
                return Err(WaitReason::Volume { name: name.clone() });
            }
        }
        image::check_image(self.input, self.service)?;
        if is_start {
            return Ok(());
        }
        // Last, so that a long pull or build does not request new facts again and again.
        let is_replacement = self.owned.iter().any(|container| !container.carries(self.hash));
        self.input
            .check_preflight(desired, is_replacement || self.has_moved_port())
    }

    /// Cause of a new container, from the differences of the old one.
    fn creation_cause(&self, extra: &[&Container]) -> Cause {
        let Some(old) = extra.first() else {
            return Cause::Missing;
        };
        let same_hash = old.carries(self.hash);
        if same_hash {
            let what =
                drift::first_difference(self.spec, old).unwrap_or_else(|| "partially removed".to_owned());
            return Cause::Drift { what };
        }
        let has_moved = self.spec.bindings.iter().any(|binding| {
            let old_label = old
                .labels
                .get(crate::labels::PORTS)
                .map(String::as_str)
                .unwrap_or_default();
            !old_label
                .split(',')
                .any(|entry| entry.contains(&format!("={}@", binding.host)))
        });
        let refusal = self
            .input
            .state
            .action_failures
            .get(&self.subject)
            .and_then(|failure| match &failure.error {
                ActionError::PortTaken(refusal) => Some(refusal.port),
                _ => None,
            });
        match refusal {
            Some(from) if has_moved => Cause::PortMoved { from },
            _ => Cause::SpecChanged,
        }
    }

    /// Container of this environment with this name.
    fn container_named(&self, name: &str) -> Option<&Arc<Container>> {
        self.input
            .observed
            .containers
            .values()
            .find(|container| container.name == name)
    }

    fn temporary_name(&self) -> ResourceName {
        let short: String = self.hash.as_str().chars().take(8).collect();
        let base: String = self.service.container_name.as_str().chars().take(100).collect();
        ResourceName::new(format!("{base}.argus-{short}"))
            .unwrap_or_else(|_| self.service.container_name.clone())
    }

    /// Removes extra containers; a running one only once its replacement can start.
    fn remove_extra(&self, current: &Container, extra: &[&Container]) -> Decision {
        let Some(other) = extra.iter().find(|c| c.state != ContainerState::Removing) else {
            return Decision::Settled;
        };
        let cause = if other.carries(self.hash) {
            Cause::Duplicate
        } else {
            Cause::Replaced
        };
        if !other.state.is_up() || other.state == ContainerState::Paused {
            return remove(other, cause);
        }
        if !current.state.is_up()
            && !self.is_blocking(other)
            && let Err(wait) =
                ready::check_replacement(self.input, self.service).and_then(|()| self.check_ports())
        {
            return Decision::Wait(wait);
        }
        self.stop(other, cause)
    }

    fn stop(&self, container: &Container, cause: Cause) -> Decision {
        let (id, grace) = (container.id.clone(), self.service.stop_grace);
        Decision::Do(Action::StopContainer { id, grace }, cause)
    }

    /// True if an old container holds a host port that now belongs to another service, or could replace a desired bind source,
    /// because the new container may wait for that service.
    fn is_blocking(&self, old: &Container) -> bool {
        if self.input.obstacles.can_replace_a_source(old) {
            return true;
        }
        let Some(info) = &old.inspect else { return false };
        info.config.bindings.iter().any(|(_, bound)| {
            self.input.ports.ports.iter().any(|(key, number)| {
                let assigned = key.container.protocol == bound.protocol && *number == bound.number;
                assigned && key.service != self.service.name
            })
        })
    }

    /// Plans the only container: its name, then its network, then its run.
    fn plan_current(&self, current: &Container) -> Decision {
        if current.name != self.service.container_name.as_str() {
            let action = Action::RenameContainer {
                id: current.id.clone(),
                to: self.service.container_name.clone(),
            };
            let what = format!("name is {}", current.name);
            let cause = if current.name.contains(".argus-") {
                Cause::Replaced
            } else {
                Cause::Drift { what }
            };
            if let Some(holder) = self.container_named(self.service.container_name.as_str()) {
                return Decision::Wait(WaitReason::NameTaken {
                    name: self.service.container_name.to_string(),
                    conflicting_object: format!(
                        "container {} of this environment, which will be removed",
                        holder.id
                    ),
                    until: self.input.now + NAME_RETRY,
                    attempts: Vec::new(),
                    compose_project: None,
                });
            }
            return Decision::Do(action, self.input.cause(&self.subject, cause));
        }
        // A completed one-shot needs no network.
        if current.state == ContainerState::Exited && ready::is_completed(self.input, self.service) {
            return Decision::Settled;
        }
        match attach::check(self, current) {
            Decision::Settled => run::check(self, current),
            decision => decision,
        }
    }

    fn check_ports(&self) -> Result<(), WaitReason> {
        match self.input.ports.blocked.get(&self.service.name) {
            Some(blocked) => Err(blocked.clone()),
            None => Ok(()),
        }
    }

    /// Checks that no other container of this environment holds a needed host port, and that its port may be tried now.
    fn check_binding(&self) -> Result<(), WaitReason> {
        self.check_ports()?;
        for binding in &self.spec.bindings {
            let requested = crate::ident::ProtocolPort::new(binding.host, binding.protocol);
            let holder = self.input.observed.containers.values().find(|other| {
                other.state.is_up()
                    && !self.owned.iter().any(|owned| owned.id == other.id)
                    && other
                        .inspect
                        .as_ref()
                        .is_some_and(|info| info.config.bindings.iter().any(|(_, host)| *host == requested))
            });
            if let Some(holder) = holder {
                let service = holder.owner().and_then(|owner| owner.service);
                return Err(WaitReason::PortTaken {
                    port: requested,
                    owner: crate::outcome::PortOwner::Environment {
                        environment: self.input.env.to_string(),
                        service: service.map(|name| name.to_string()).unwrap_or_default(),
                    },
                    until: self.input.now + port::PORT_RETRY,
                });
            }
        }
        Ok(())
    }
}

pub(super) fn remove(container: &Container, cause: Cause) -> Decision {
    let (id, name) = (container.id.clone(), container.name.clone());
    Decision::Do(Action::RemoveContainer { id, name }, cause)
}
