//! The collector: what carries our labels and is not desired goes, whatever the reason that it is not.

use std::time::Duration;

use super::{Act, Cause, Decision, Plan, PlanInput, Subject, WaitingOn};
use crate::ident::ResourceName;
use crate::labels;
use crate::memory::expectation::is_up;
use crate::observed::{Container, ContainerState, Network};

/// What a new revision removes is removed after the revision has been stable for this long.
pub(super) const STABILITY: Duration = Duration::from_secs(2);
/// A stray is asked to end, and killed after this.
const GRACE: Duration = Duration::from_secs(10);

pub(super) fn plan(input: &PlanInput<'_>, plan: &mut Plan) {
    for container in input.observed.containers.values() {
        if let Some(cause) = unwanted(input, container) {
            let subject = Subject::StrayContainer {
                id: container.id.clone(),
            };
            let decision = collect(input, &subject, container, cause);
            plan.take(subject, decision);
        }
    }
    for network in input.observed.networks.values() {
        if let Some(cause) = unwanted_network(input, network) {
            let subject = Subject::StrayNetwork {
                id: network.id.clone(),
            };
            let decision = release(input, &subject, network, cause);
            plan.take(subject, decision);
        }
    }
    if input.accepted.is_none() {
        volumes(input, plan);
    }
}

/// Why nobody desires this container; `None` when somebody does, or when it is not ours to judge.
fn unwanted(input: &PlanInput<'_>, container: &Container) -> Option<Cause> {
    if input.memory.not_ours.contains(&container.id) {
        return None;
    }
    if !container.is_made_by(&input.site.controller) {
        return None;
    }
    let Some(accepted) = input.accepted else {
        return Some(Cause::EnvironmentRemoved);
    };
    let service = container.labels.get(labels::SERVICE);
    let desired = service.is_some_and(|service| accepted.desired.services.contains_key(service.as_str()));
    (!desired).then_some(Cause::ServiceRemoved)
}

fn unstable(input: &PlanInput<'_>) -> Option<WaitingOn> {
    let accepted = input.accepted?;
    if accepted.disputed {
        return Some(WaitingOn::File);
    }
    let until = accepted.accepted_at + STABILITY;
    (until > input.now).then_some(WaitingOn::Stability { until })
}

fn collect(input: &PlanInput<'_>, subject: &Subject, container: &Container, cause: Cause) -> Decision {
    if let Some(wait) = unstable(input).or_else(|| input.barred(subject)) {
        return Decision::Wait(wait);
    }
    let id = container.id.clone();
    let cause = input.cause(subject, cause);
    match container.state {
        ContainerState::Removing => Decision::Wait(WaitingOn::Removal),
        ContainerState::Paused => Decision::Do(
            Act::RemoveContainer {
                id,
                name: container.name.clone(),
            },
            cause,
        ),
        state if is_up(state) => Decision::Do(Act::StopContainer { id, grace: GRACE }, cause),
        _ => Decision::Do(
            Act::RemoveContainer {
                id,
                name: container.name.clone(),
            },
            cause,
        ),
    }
}

fn unwanted_network(input: &PlanInput<'_>, network: &Network) -> Option<Cause> {
    network
        .owner()
        .filter(|owner| owner.controller == input.site.controller)?;
    let Some(accepted) = input.accepted else {
        return Some(Cause::EnvironmentRemoved);
    };
    let kept = super::network::of(input, &accepted.desired);
    match kept {
        Some(kept) if kept.id == network.id => accepted
            .desired
            .services
            .is_empty()
            .then_some(Cause::ServiceRemoved),
        _ => Some(Cause::SpecChanged),
    }
}

fn release(input: &PlanInput<'_>, subject: &Subject, network: &Network, cause: Cause) -> Decision {
    let attached = input.observed.containers.values().any(|container| {
        container
            .networks
            .values()
            .any(|at| at.network.as_ref() == Some(&network.id))
    });
    if attached {
        return Decision::Wait(WaitingOn::Containers);
    }
    if let Some(wait) = unstable(input).or_else(|| input.barred(subject)) {
        return Decision::Wait(wait);
    }
    let act = Act::RemoveNetwork {
        id: network.id.clone(),
        name: network.name.clone(),
    };
    Decision::Do(act, input.cause(subject, cause))
}

/// Volumes are kept, but for those whose spec said otherwise while it was there to say so.
fn volumes(input: &PlanInput<'_>, plan: &mut Plan) {
    for volume in input.observed.volumes.values() {
        let ours = volume
            .owner()
            .is_some_and(|owner| owner.controller == input.site.controller);
        let by_label = volume
            .labels
            .get(labels::DELETION)
            .is_some_and(|word| word == "Delete");
        let Ok(name) = ResourceName::new(volume.name.clone()) else {
            continue;
        };
        // The last file that was accepted decides; the label only where nobody remembers it.
        let told = input
            .kept()
            .and_then(|kept| kept.delete_volumes)
            .unwrap_or(by_label);
        if !ours || !told {
            continue;
        }
        let subject = Subject::Volume {
            environment: input.env.clone(),
            name: name.clone(),
        };
        let decision = if !input.observed.containers.is_empty() {
            Decision::Wait(WaitingOn::Containers)
        } else if let Some(wait) = input.barred(&subject) {
            Decision::Wait(wait)
        } else {
            Decision::Do(
                Act::RemoveVolume { name },
                input.cause(&subject, Cause::EnvironmentRemoved),
            )
        };
        plan.take(subject, decision);
    }
}
