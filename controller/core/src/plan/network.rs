//! Networks of an environment: created when missing, replaced when defective. External ones only have to exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::networks::EnvNetwork;
use crate::desired::{Condition, Desired, Service};
use crate::labels;
use crate::observed::{Container, Network};
use crate::outcome::ActionError;
use crate::wait::WaitReason;

/// Observed network of the environment.
pub(super) fn find<'a>(input: &PlanInput<'a>, network: &EnvNetwork<'_>) -> Option<&'a Arc<Network>> {
    let observed = input.observed;
    observed.find_network(network.name)
}

/// Returns the reason to replace a network now. The engine cannot change an existing one, and Argus changes no external one.
pub(super) fn find_defect(
    input: &PlanInput<'_>,
    found: &Network,
    network: &EnvNetwork<'_>,
    desired: &Desired,
) -> Option<&'static str> {
    if network.external {
        return None;
    }
    if found.is_broken {
        return Some("its bridge is gone");
    }
    // A working network goes only if another one can be created, and all services may move to it.
    let is_held = |service| input.requests.hold(input.env, service, input.now).is_some();
    let can_replace =
        || input.check_preflight(desired, true).is_ok() && !desired.services.keys().any(is_held);
    let what = match network.key {
        None => "`network.internal` changed",
        Some(_) => "its key `internal` changed",
    };
    (is_changed(found, network) && can_replace()).then_some(what)
}

fn is_changed(found: &Network, network: &EnvNetwork<'_>) -> bool {
    found.labels.contains_key(labels::INTERNAL) != network.internal
}

/// Wait for the networks of a service, or for the container whose network it shares.
pub(super) fn check_service(
    input: &PlanInput<'_>,
    desired: &Desired,
    service: &Service,
) -> Result<(), WaitReason> {
    let rendered = input.rendered.get(&service.name);
    if let Some(shared) = rendered.and_then(|(spec, _)| spec.process.shared_network.as_ref())
        && shared.container.is_none()
    {
        return Err(WaitReason::Dependency {
            service: shared.owner.clone(),
            condition: Condition::Started,
            failing: false,
        });
    }
    let is_ready = |network: EnvNetwork<'_>| {
        if network.external {
            return is_found(input, &network);
        }
        let found = find(input, &network);
        found.is_some_and(|found| find_defect(input, found, &network, desired).is_none())
    };
    if desired.networks_of(service).all(is_ready) {
        Ok(())
    } else {
        Err(WaitReason::Network)
    }
}

/// Returns whether an external network exists, as far as is known.
fn is_found(input: &PlanInput<'_>, network: &EnvNetwork<'_>) -> bool {
    let known = &input.state.external_networks;
    known.contains(&(input.env.clone(), network.name.clone()))
}

/// Plans the networks of the services. An environment without containers needs no network.
pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    for network in desired.used_networks() {
        let subject = Subject::of_network(input.env, &network);
        let decision = if network.external {
            plan_external(input, &network, &subject)
        } else {
            plan_own(input, desired, &network, &subject)
        };
        plan.add(subject, decision);
    }
}

/// Checks that an external network exists, until it is found.
fn plan_external(input: &PlanInput<'_>, network: &EnvNetwork<'_>, subject: &Subject) -> Decision {
    if is_found(input, network) {
        return Decision::Settled;
    }
    match input.blocked_by(subject) {
        Some(wait) => Decision::Wait(wait),
        None => Decision::Do(
            Action::CreateNetwork {
                name: network.name.clone(),
                labels: BTreeMap::new(),
                external: true,
            },
            input.cause(subject, Cause::Missing),
        ),
    }
}

fn plan_own(
    input: &PlanInput<'_>,
    desired: &Desired,
    network: &EnvNetwork<'_>,
    subject: &Subject,
) -> Decision {
    let found = find(input, network);
    let defect = found.map(|found| (found, find_defect(input, found, network, desired)));
    if let Some((found, None)) = defect {
        if is_changed(found, network)
            && let Err(wait) = input.check_preflight(desired, true)
        {
            return Decision::Wait(wait);
        }
        return Decision::Settled;
    }
    let blocked = input.blocked_by(subject);
    if let Some((found, Some(defect))) = defect {
        return match blocked {
            Some(wait) => Decision::Wait(wait),
            None => remove_defective(input, found, defect),
        };
    }
    match blocked {
        Some(WaitReason::Retry { until, failure })
            if matches!(failure.error, ActionError::PoolExhausted(_)) =>
        {
            Decision::Wait(input.obstacles.range_or(WaitReason::Retry { until, failure }))
        }
        Some(wait) => Decision::Wait(input.with_engine_name(wait, network.name.as_str())),
        None => match check_create(input, desired, network) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => Decision::Do(
                create(input, desired, network),
                input.cause(subject, Cause::Missing),
            ),
        },
    }
}

fn check_create(
    input: &PlanInput<'_>,
    desired: &Desired,
    network: &EnvNetwork<'_>,
) -> Result<(), WaitReason> {
    input.obstacles.check_network(network.name.as_str())?;
    input.check_preflight(desired, false)
}

fn create(input: &PlanInput<'_>, desired: &Desired, network: &EnvNetwork<'_>) -> Action {
    let mut all = render::labels_of(desired, "network", input.identity, input.now);
    if network.internal {
        all.insert(labels::INTERNAL.into(), "true".into());
    }
    Action::CreateNetwork {
        name: network.name.clone(),
        labels: all,
        external: false,
    }
}

/// Removes a defective network, once the services have detached their running containers from it.
fn remove_defective(input: &PlanInput<'_>, network: &Network, defect: &str) -> Decision {
    let is_attached = |container: &Arc<Container>| {
        let mut attachments = container.networks.values();
        container.state.is_up() && attachments.any(|at| at.network.as_ref() == Some(&network.id))
    };
    if input.observed.containers.values().any(is_attached) {
        return Decision::Wait(WaitReason::Containers);
    }
    let action = Action::RemoveNetwork {
        id: network.id.clone(),
        name: network.name.clone(),
    };
    let what = defect.to_owned();
    Decision::Do(action, Cause::Drift { what })
}
