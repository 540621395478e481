//! Dependency that was not ready when a run failed.
//!
//! A service that depends on a database often ends when the database restarts. The database is then the cause: the failure
//! uses no budget, and the next run waits for the database.

use std::time::Duration;

use crate::desired::{Condition, Probe, Service};
use crate::failed_run::{DependencyState, FailedRun};
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState};
use crate::probe::{self, HealthStates, ProbeStatus};
use crate::time::Timestamp;

use super::observe::RunObserver;
use super::run_end;

/// Maximum time between a restart of a dependency and a failure that it explains.
const MAX_REACTION_TIME: Duration = Duration::from_secs(10);

/// Returns the dependency that was not ready when the run of this container failed, with its state.
pub(super) fn find(
    observer: &RunObserver<'_>,
    container: &Container,
    at: Timestamp,
) -> Option<(ServiceName, DependencyState)> {
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    let dependencies = observer.service.depends_on.iter();
    let failed = dependencies.filter_map(|dependency| {
        let other = observer.desired.services.get(&dependency.service)?;
        let is_completed = other.one_shot || run_end::is_completed(observer, other);
        // The run began without an optional dependency that had ended before it.
        let was_used = !dependency.optional || has_run_since(observer, other, started_at);
        let is_failed = dependency.condition != Condition::Completed
            && !is_completed
            && was_used
            && !is_ready(observer, other, started_at, at);
        is_failed.then(|| (other.name.clone(), state_of(observer, other)))
    });
    // A dependency that only restarted may have failed because of another one.
    failed.min_by_key(|(_, state)| *state == DependencyState::Restarted)
}

/// True if a container of the service runs, or has ended during the failed run.
fn has_run_since(observer: &RunObserver<'_>, service: &Service, run_started_at: Option<Timestamp>) -> bool {
    let mut containers = observer.observed.containers.of(&service.name);
    containers.any(|container| {
        let ended_at = container.inspect.as_ref().and_then(|info| info.finished_at);
        container.state == ContainerState::Running || ended_at > run_started_at
    })
}

/// State of a dependency that was not ready.
fn state_of(observer: &RunObserver<'_>, dependency: &Service) -> DependencyState {
    let (health, outages) = (observer.context.health, observer.context.outages);
    let probe = dependency.probe.as_ref();
    let find = |state| {
        let mut containers = observer.observed.containers.of(&dependency.name);
        containers.find(|container| container.state == state)
    };
    if let Some(container) = find(ContainerState::Running) {
        let is_unhealthy =
            probe::probe_status(probe, container, health, outages) == Some(ProbeStatus::Unhealthy);
        return if is_unhealthy || is_failing(container, probe, health) {
            DependencyState::Unhealthy
        } else {
            DependencyState::Restarted
        };
    }
    let ended = find(ContainerState::Exited).and_then(|container| container.inspect.as_ref());
    ended.map_or(DependencyState::Absent, |info| {
        DependencyState::Ended(info.exit_code)
    })
}

/// True if a container of the dependency explains no failure: it runs, has not just restarted during the failed run, and its
/// probe does not fail after successes. A dependency that was never healthy, or has no result yet, explains nothing.
fn is_ready(
    observer: &RunObserver<'_>,
    dependency: &Service,
    run_started_at: Option<Timestamp>,
    at: Timestamp,
) -> bool {
    let (health, outages) = (observer.context.health, observer.context.outages);
    let probe = dependency.probe.as_ref();
    let history = observer
        .before
        .and_then(|before| before.services.get(&dependency.name));
    observer
        .observed
        .containers
        .of(&dependency.name)
        .any(|container| {
            let is_explained = match probe::probe_status(probe, container, health, outages) {
                None | Some(ProbeStatus::Healthy) => false,
                Some(ProbeStatus::Starting) => has_started_since(container, run_started_at),
                Some(ProbeStatus::Unhealthy) => history.is_some_and(|history| history.was_healthy(container)),
            };
            container.state == ContainerState::Running
                && !is_explained
                && !is_failing(container, probe, health)
                && !has_restarted(container, run_started_at, at)
        })
}

/// True if the last probe of a healthy container failed.
fn is_failing(container: &Container, probe: Option<&Probe>, health: &HealthStates) -> bool {
    probe::probe_status(probe, container, health, &[]) == Some(ProbeStatus::Healthy)
        && probe::is_failing(probe, container, health)
}

/// True if the dependency started during the failed run.
fn has_started_since(dependency: &Container, run_started_at: Option<Timestamp>) -> bool {
    let started_at = dependency.inspect.as_ref().and_then(|info| info.started_at);
    started_at.is_some_and(|at| run_started_at.is_some_and(|run| at > run))
}

/// True if the dependency ended or started shortly before the failure. A new container has no earlier end.
fn has_restarted(dependency: &Container, run_started_at: Option<Timestamp>, at: Timestamp) -> bool {
    let Some((info, run_started_at)) = dependency.inspect.as_ref().zip(run_started_at) else {
        return false;
    };
    let mut changes = [info.finished_at, info.started_at].into_iter().flatten();
    changes.any(|change| change > run_started_at && change <= at && at.since(change) <= MAX_REACTION_TIME)
}

/// Drops the oldest failures above a limit, first those that a dependency explains, because they use no budget.
pub(super) fn drop_surplus(failures: &mut Vec<FailedRun>, limit: usize) {
    while failures.len() > limit {
        let explained = failures
            .iter()
            .take(limit)
            .position(|failed_run| failed_run.explaining_dependency().is_some());
        failures.remove(explained.unwrap_or(0));
    }
}
