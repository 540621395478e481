//! Readiness of services, for their dependents and for the status.

use std::collections::BTreeSet;

use super::{PlanInput, drift, volume};
use crate::action::Subject;
use crate::desired::{Accepted, Condition, Dependency, Service};
use crate::failed_run::FailedRun;
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState};
use crate::probe::{self, ProbeStatus};
use crate::state::restart::{self, RestartDecision};
use crate::wait::WaitReason;

/// Container that matches the desired state of its service.
pub(super) fn current_container<'a>(input: &PlanInput<'a>, service: &ServiceName) -> Option<&'a Container> {
    let (spec, hash) = input.rendered.get(service)?;
    input
        .observed
        .containers
        .of(service)
        .filter(|container| container.carries(hash))
        .filter(|container| !input.state.not_owned.contains(&container.id))
        // The data of another project is not used, even by a container that already mounts it.
        .filter(|container| {
            container.is_made_by(&input.identity.controller) || !volume::is_foreign_mounted(input, service)
        })
        .filter(|container| match container.state {
            ContainerState::Removing | ContainerState::Dead => false,
            ContainerState::Created
            | ContainerState::Running
            | ContainerState::Paused
            | ContainerState::Restarting
            | ContainerState::Exited => drift::first_difference(spec, container).is_none(),
        })
        .min_by_key(|container| {
            let up = container.state.is_up();
            (!up, container.created_at, container.id.clone())
        })
        .map(std::convert::AsRef::as_ref)
}

/// Checks that all dependencies of a service meet their conditions, and that no container could replace its bind sources.
pub(super) fn check_start(input: &PlanInput<'_>, service: &Service) -> Result<(), WaitReason> {
    let Some(accepted) = input.accepted else {
        return Ok(());
    };
    for dependency in &service.depends_on {
        let Some(other) = accepted.desired.services.get(&dependency.service) else {
            continue;
        };
        if !can_start_with(input, service, dependency, other) {
            return Err(WaitReason::Dependency {
                service: dependency.service.clone(),
                condition: dependency.condition,
                failing: is_dependency_met(input, other, dependency.condition),
            });
        }
    }
    input.obstacles.check_sources(service, accepted.allowed)
}

/// True if this dependency does not delay the start of the service: it meets its condition, or is not required and Argus gave it up.
fn can_start_with(
    input: &PlanInput<'_>,
    service: &Service,
    dependency: &Dependency,
    other: &Service,
) -> bool {
    let is_met = is_dependency_met(input, other, dependency.condition);
    is_met && !is_failing_again(input, service, other) || dependency.optional && is_given_up(input, other)
}

/// True if Argus gave the service up after failed runs, or an action for it or for its image fails persistently.
fn is_given_up(input: &PlanInput<'_>, service: &Service) -> bool {
    let history = input
        .history()
        .and_then(|history| history.services.get(&service.name));
    let policy = input.accepted.map(|accepted| &accepted.desired.restart);
    let failed_runs = history.zip(policy).is_some_and(|(history, policy)| {
        let is_last = history.failures.last().is_some_and(|last| !last.followed_by_run);
        let decision = restart::decide_restart(policy, history, input.outages);
        is_last
            && !matches!(
                decision,
                RestartDecision::StartAt(..) | RestartDecision::WhenDependenciesReady
            )
    });
    let subject = Subject::of_service(input.env, &service.name);
    let image = Subject::of_image(&service.image);
    failed_runs
        || [subject, image].iter().any(|subject| {
            let failure = input.state.action_failures.get(subject);
            failure.is_some_and(|failure| {
                failure.retry_at(&subject.to_string()).is_none() || failure.is_persistent()
            })
        })
}

/// True if this dependency explains the last failure of the service, and still fails or starts. It does not wait for a dependency
/// that was never healthy in its run.
fn is_failing_again(input: &PlanInput<'_>, service: &Service, dependency: &Service) -> bool {
    let history_of = |name: &ServiceName| input.history().and_then(|history| history.services.get(name));
    let last = history_of(&service.name).and_then(|history| history.failures.last());
    let is_explained = last
        .filter(|last| !last.followed_by_run)
        .and_then(FailedRun::explaining_dependency)
        .is_some_and(|failed| *failed == dependency.name);
    if !is_explained {
        return false;
    }
    let Some(container) = current_container(input, &dependency.name) else {
        return false;
    };
    let probe = dependency.probe.as_ref();
    match probe::probe_status(probe, container, input.health, input.outages) {
        None => false,
        Some(ProbeStatus::Healthy) => probe::is_failing(probe, container, input.health),
        Some(ProbeStatus::Starting) => !probe::is_never_probed(probe, container),
        Some(ProbeStatus::Unhealthy) => {
            history_of(&dependency.name).is_some_and(|history| history.was_healthy(container))
        }
    }
}

/// Checks that the old container of a service may stop: its replacement can start, or waits only for dependencies that are
/// replaced too. Their old containers stop after it.
pub(super) fn check_replacement(input: &PlanInput<'_>, service: &Service) -> Result<(), WaitReason> {
    match (check_start(input, service), input.accepted) {
        (Err(WaitReason::Dependency { .. }), Some(accepted))
            if is_replaced_with_dependencies(input, accepted, service) =>
        {
            input.obstacles.check_sources(service, accepted.allowed)
        }
        (checked, _) => checked,
    }
}

/// True if each dependency that is not met has a created container, which starts after the replacement of a running one: its
/// own, or that of one of its dependencies.
fn is_replaced_with_dependencies(input: &PlanInput<'_>, accepted: &Accepted, service: &Service) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![service];
    while let Some(service) = next.pop() {
        for dependency in &service.depends_on {
            let Some(other) = accepted.desired.services.get(&dependency.service) else {
                continue;
            };
            let is_met = can_start_with(input, service, dependency, other);
            if is_met || !seen.insert(&other.name) {
                continue;
            }
            let has_old = || {
                input
                    .observed
                    .containers
                    .of(&other.name)
                    .any(|it| it.state.is_up())
            };
            if !is_created(input, accepted, other) || (check_start(input, other).is_ok() && !has_old()) {
                return false;
            }
            next.push(other);
        }
    }
    true
}

/// True if the container of a service is created, and nothing but its dependencies and its old container delays its start.
fn is_created(input: &PlanInput<'_>, accepted: &Accepted, service: &Service) -> bool {
    let subject = Subject::of_service(input.env, &service.name);
    current_container(input, &service.name).is_some_and(|it| it.state == ContainerState::Created)
        && !input.ports.blocked.contains_key(&service.name)
        && input.backoff_of(&subject).is_none()
        && input.requests.hold(input.env, &service.name, input.now).is_none()
        && input.obstacles.check_sources(service, accepted.allowed).is_ok()
}

fn is_dependency_met(input: &PlanInput<'_>, other: &Service, condition: Condition) -> bool {
    let is_done = is_completed(input, other);
    let Some(container) = current_container(input, &other.name) else {
        return is_done;
    };
    let running = container.state == ContainerState::Running;
    match condition {
        Condition::Started => running || is_done,
        Condition::Completed => is_done,
        Condition::Healthy => {
            is_done
                || (running
                    && !other.one_shot
                    && probe::probe_status(other.probe.as_ref(), container, input.health, input.outages)
                        .is_none_or(|status| status == ProbeStatus::Healthy))
        }
    }
}

/// True if the service completed with exit code 0 in its desired state. An exit that is not recorded completes only a one-shot:
/// another service can have exited at the stop of its engine.
pub(super) fn is_completed(input: &PlanInput<'_>, service: &Service) -> bool {
    if !service.is_completable() {
        return false;
    }
    let Some((_, hash)) = input.rendered.get(&service.name) else {
        return false;
    };
    let history = input
        .history()
        .and_then(|history| history.services.get(&service.name));
    let persisted = history.is_some_and(|history| history.completed.as_ref() == Some(hash));
    let seen = || {
        current_container(input, &service.name).is_some_and(|container| {
            container.state == ContainerState::Exited
                && !history.is_some_and(|history| history.is_restart_requested(container))
                && container.inspect.as_ref().is_some_and(|info| info.exit_code == 0)
        })
    };
    persisted || (service.one_shot && seen())
}
