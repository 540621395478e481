//! Garbage collection: removes everything with Argus labels that is not desired, for whatever reason.

use std::time::Duration;

use super::orphan::{self, Orphan, OrphanDecision, OrphanKind, OwnerStatus};
use super::{Decision, Plan, PlanInput, in_use, service, volume};
use crate::action::{Action, Cause, Subject};
use crate::desired::Mount;
use crate::desired::networks::EnvNetwork;
use crate::ident::ResourceName;
use crate::labels::{self, ObjectLabels};
use crate::observed::{Container, ContainerState, Network, Volume};
use crate::time::Timestamp;
use crate::wait::WaitReason;

/// Minimum age of a revision before Argus removes what the revision dropped.
pub(super) const STABILITY_WINDOW: Duration = Duration::from_secs(2);
/// Stop grace period of an extra container without its own setting.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Stop grace period of orphans: many unresponsive containers must be gone soon, and nothing waits for their output.
const ORPHAN_STOP_GRACE: Duration = Duration::from_secs(3);

pub(super) fn plan(input: &PlanInput<'_>, plan: &mut Plan) {
    for container in input.observed.containers.values() {
        let Some(unwanted) = classify_container(input, container) else {
            continue;
        };
        let subject = Subject::ExtraContainer {
            id: container.id.clone(),
        };
        unwanted.add_to(input, plan, subject, |cause, subject| {
            plan_container_removal(input, subject, container, cause)
        });
    }
    for network in input.observed.networks.values() {
        let Some(unwanted) = classify_network(input, network) else {
            continue;
        };
        let subject = Subject::ExtraNetwork {
            id: network.id.clone(),
        };
        let is_attached = |container: &Container| {
            let mut attachments = container.networks.values();
            attachments.any(|at| at.network.as_ref() == Some(&network.id))
        };
        let object = format!("network `{}`", network.name);
        let wait = in_use::wait(input, plan, object, is_attached, is_attached);
        unwanted.add_to(input, plan, subject, |cause, subject| {
            plan_network_removal(input, subject, network, cause, wait)
        });
    }
    plan_volumes(input, plan);
}

/// An object that no environment desires.
enum Undesired {
    /// An object of this controller, with the cause of its removal.
    Own(Cause),
    /// An object of a dead controller; `Err` if it may not be removed.
    Orphan(Box<Orphan>, Result<(), OrphanDecision>),
}

impl Undesired {
    fn orphan(
        input: &PlanInput<'_>,
        owner: &ObjectLabels,
        kind: OrphanKind,
        what: (&str, &str, Option<Timestamp>),
    ) -> Self {
        let (id, name, created_at) = what;
        let orphan = Orphan {
            kind,
            id: id.to_owned(),
            name: name.to_owned(),
            environment: owner.environment.to_string(),
            project: owner.project.clone(),
            controller: owner.controller.clone(),
            run: owner.run.clone(),
            created_at,
            decision: OrphanDecision::Removing,
        };
        Self::Orphan(Box::new(orphan), orphan::can_remove(input, owner, id, created_at))
    }

    /// Adds the decision to the plan.
    fn add_to(
        self,
        input: &PlanInput<'_>,
        plan: &mut Plan,
        subject: Subject,
        decide: impl FnOnce(Cause, &Subject) -> Decision,
    ) {
        match self {
            Self::Own(cause) => {
                let decision = decide(input.cause(&subject, cause), &subject);
                plan.add(subject, decision);
            }
            Self::Orphan(mut orphan, Err(decision)) => {
                orphan.decision = decision;
                plan.orphans.push(*orphan);
            }
            Self::Orphan(mut orphan, Ok(())) => {
                let cause = Cause::Orphan {
                    controller: orphan.controller.clone(),
                };
                let decision = decide(input.cause(&subject, cause), &subject);
                if let Decision::Wait(on) = &decision {
                    orphan.decision = orphan::decide_orphan(on);
                }
                plan.orphans.push(*orphan);
                plan.add(subject, decision);
            }
        }
    }
}

/// Classifies a container; `None` if it is desired or belongs to another controller.
fn classify_container(input: &PlanInput<'_>, container: &Container) -> Option<Undesired> {
    if input.state.not_owned.contains(&container.id) {
        return None;
    }
    let service = container.labels.get(labels::SERVICE);
    let desired = |accepted: &crate::desired::Accepted| {
        service.is_some_and(|service| accepted.desired.services.contains_key(service.as_str()))
    };
    // This check runs for every container in every pass, so it reads only two labels.
    let maker = labels::maker(&container.labels);
    if input.accepted.is_some_and(desired) && !is_in_the_way(input, container) {
        return None;
    }
    match orphan::owner_status(input, maker) {
        OwnerStatus::OtherController => None,
        OwnerStatus::DeadController if is_adopted(input, container) => {
            Some(Undesired::Own(removal_cause(input, Cause::ServiceRemoved)))
        }
        OwnerStatus::Own => Some(Undesired::Own(removal_cause(input, Cause::ServiceRemoved))),
        OwnerStatus::DeadController => {
            let what = (
                container.id.as_str(),
                container.name.as_str(),
                Some(container.created_at),
            );
            Some(Undesired::orphan(
                input,
                &container.owner()?,
                OrphanKind::Container,
                what,
            ))
        }
    }
}

/// Returns whether a container of the project in another folder keeps a volume whose removal was requested. Its service waits for that volume.
fn is_in_the_way(input: &PlanInput<'_>, container: &Container) -> bool {
    if input.requests.foreign_volume_removal.is_empty() || container.is_made_by(&input.identity.controller) {
        return false;
    }
    container.owner().is_some_and(|owner| {
        let is_requested = input
            .requests
            .is_volume_removal_requested(&owner.project, true, input.now);
        let is_mounted = |service| volume::is_foreign_mounted(input, &service);
        is_requested && owner.service.is_some_and(is_mounted)
    })
}

fn removal_cause(input: &PlanInput<'_>, removed: Cause) -> Cause {
    match input.accepted {
        Some(_) => removed,
        None => absence_cause(input),
    }
}

/// Cause for an environment that is not desired.
fn absence_cause(input: &PlanInput<'_>) -> Cause {
    if input.requests.expired.contains(input.env) {
        Cause::Expired
    } else {
        Cause::EnvironmentRemoved
    }
}

fn classify_network(input: &PlanInput<'_>, network: &Network) -> Option<Undesired> {
    let owner = network.owner()?;
    let is_it = |declared: &EnvNetwork<'_>| {
        let current = super::network::find(input, declared);
        current.is_some_and(|current| current.id == network.id)
    };
    let cause = match input.accepted.map(|accepted| &accepted.desired) {
        _ if is_external_network(input, &network.name) => return None,
        None => absence_cause(input),
        Some(desired) if desired.used_networks().any(|used| is_it(&used)) => return None,
        Some(desired) if desired.declared_networks().any(|declared| is_it(&declared)) => {
            Cause::ServiceRemoved
        }
        Some(_) => Cause::SpecChanged,
    };
    match orphan::owner_status(input, labels::maker(&network.labels)) {
        OwnerStatus::OtherController => None,
        OwnerStatus::Own => Some(Undesired::Own(cause)),
        OwnerStatus::DeadController => {
            let what = (
                network.id.as_str(),
                network.name.as_str(),
                Some(network.created_at),
            );
            Some(Undesired::orphan(input, &owner, OrphanKind::Network, what))
        }
    }
}

fn removal_delay(input: &PlanInput<'_>) -> Option<WaitReason> {
    let accepted = input.accepted?;
    if accepted.has_pending_edit {
        return Some(WaitReason::SpecPending);
    }
    let until = accepted.accepted_at + STABILITY_WINDOW;
    (until > input.now).then_some(WaitReason::StabilityWindow { until })
}

/// True if this controller adopted the container of a dead controller.
fn is_adopted(input: &PlanInput<'_>, container: &Container) -> bool {
    let history = input.history();
    history.is_some_and(|history| history.adopted.contains(&container.id))
}

/// Stop grace period; `None` if it is not known yet. It comes from the container's configuration on the engine, because
/// no file declares it any more.
fn stop_grace_of(input: &PlanInput<'_>, container: &Container) -> Option<Duration> {
    match orphan::owner_status(input, labels::maker(&container.labels)) {
        OwnerStatus::DeadController if !is_adopted(input, container) => Some(ORPHAN_STOP_GRACE),
        OwnerStatus::DeadController | OwnerStatus::Own | OwnerStatus::OtherController => {
            let info = container.inspect.as_ref()?;
            Some(info.config.stop_grace.unwrap_or(STOP_GRACE))
        }
    }
}

fn plan_container_removal(
    input: &PlanInput<'_>,
    subject: &Subject,
    container: &Container,
    cause: Cause,
) -> Decision {
    if let Some(wait) = removal_delay(input).or_else(|| input.blocked_by(subject)) {
        return Decision::Wait(wait);
    }
    match container.state {
        ContainerState::Removing => Decision::Wait(WaitReason::Removal),
        state if state.is_up() && state != ContainerState::Paused => {
            let id = container.id.clone();
            match stop_grace_of(input, container) {
                Some(grace) => Decision::Do(Action::StopContainer { id, grace }, cause),
                None => Decision::Wait(WaitReason::Inspection),
            }
        }
        _ => service::remove(container, cause),
    }
}

fn plan_network_removal(
    input: &PlanInput<'_>,
    subject: &Subject,
    network: &Network,
    cause: Cause,
    wait: Option<WaitReason>,
) -> Decision {
    let delay = || removal_delay(input).or_else(|| input.blocked_by(subject));
    if let Some(wait) = wait.or_else(delay) {
        return Decision::Wait(wait);
    }
    let action = Action::RemoveNetwork {
        id: network.id.clone(),
        name: network.name.clone(),
    };
    Decision::Do(action, cause)
}

/// Plans the removal of volumes. A volume is kept unless its spec requested the removal. Those of an environment with a file stay, except the
/// volumes of the project in another folder whose removal a person requested.
fn plan_volumes(input: &PlanInput<'_>, plan: &mut Plan) {
    let is_declared = input.accepted.is_some();
    for volume in input.observed.volumes.values() {
        if is_declared && !input.is_foreign(labels::maker(&volume.labels)) {
            continue;
        }
        let Ok(name) = ResourceName::new(volume.name.clone()) else {
            continue;
        };
        if is_declared && !volume::is_foreign(input, &name, volume) {
            continue;
        }
        let Some(unwanted) = classify_volume(input, volume) else {
            continue;
        };
        let subject = Subject::Volume {
            environment: input.env.clone(),
            name: name.clone(),
        };
        if matches!(unwanted, Undesired::Orphan(_, Ok(()))) {
            // The wait of the file for this removal.
            plan.waits.retain(|wait| wait.subject != subject);
        }
        let object = format!("volume `{name}`");
        let is_awaited = |container: &Container| !is_declared || is_in_the_way(input, container);
        let wait = in_use::wait(input, plan, object, is_awaited, |container| {
            mounts(container, &name)
        });
        unwanted.add_to(input, plan, subject, |cause, subject| {
            match wait.or_else(|| input.blocked_by(subject)) {
                Some(wait) => Decision::Wait(wait),
                None => Decision::Do(Action::RemoveVolume { name }, cause),
            }
        });
    }
}

/// Returns whether a container mounts a volume, as far as is known.
fn mounts(container: &Container, volume: &ResourceName) -> bool {
    let is_volume = |mount: &Mount| matches!(mount, Mount::Volume { name, .. } if name == volume);
    let info = container.inspect.as_ref();
    info.is_none_or(|info| info.config.mounts.iter().any(is_volume))
}

fn is_unconfirmed(decision: &Result<(), OrphanDecision>) -> bool {
    matches!(decision, Err(OrphanDecision::Unconfirmed { .. }))
}

/// Returns whether the last accepted file declared the network as external.
fn is_external_network(input: &PlanInput<'_>, name: &str) -> bool {
    let history = input.history();
    history.is_some_and(|history| history.external_networks.contains(name))
}

/// Returns whether the last accepted file declared the volume as external.
fn is_external(input: &PlanInput<'_>, name: &str) -> bool {
    let history = input.history();
    history.is_some_and(|history| history.external_volumes.contains(name))
}

fn classify_volume(input: &PlanInput<'_>, volume: &Volume) -> Option<Undesired> {
    let owner = volume.owner()?;
    if is_external(input, &volume.name) {
        return None;
    }
    let by_label = volume
        .labels
        .get(labels::DELETION)
        .is_some_and(|word| word == "Delete");
    // The last accepted file or a request decides; the label counts only if the state does not know the file.
    let delete = input
        .history()
        .and_then(|history| history.delete_volumes)
        .unwrap_or(by_label);
    let maker = labels::maker(&volume.labels);
    let is_declared = input.accepted.is_some();
    let status = match orphan::owner_status(input, maker) {
        OwnerStatus::Own if is_declared => return None,
        // A file with the same name in another folder does not decide about this data.
        OwnerStatus::Own if input.is_foreign(maker) => OwnerStatus::DeadController,
        status => status,
    };
    match status {
        OwnerStatus::OtherController => None,
        OwnerStatus::Own => delete.then(|| Undesired::Own(absence_cause(input))),
        OwnerStatus::DeadController => {
            let what = (volume.name.as_str(), volume.name.as_str(), volume.created_at());
            let is_foreign = input.is_foreign(maker);
            let is_kept = (is_declared || !by_label)
                && !input
                    .requests
                    .is_volume_removal_requested(&owner.project, is_foreign, input.now);
            Some(match Undesired::orphan(input, &owner, OrphanKind::Volume, what) {
                Undesired::Orphan(orphan, decision) if is_kept && !is_unconfirmed(&decision) => {
                    Undesired::Orphan(orphan, Err(OrphanDecision::KeptVolume { is_foreign }))
                }
                unwanted => unwanted,
            })
        }
    }
}
