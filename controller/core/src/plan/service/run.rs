//! Run of a current container: start, restart, probe, evidence and external stops.

use std::time::Duration;

use super::{ServicePlanner, remove};
use crate::action::{Action, ActionKind, Cause};
use crate::connectivity;
use crate::desired::{InjectedFile, ProbeHandler};
use crate::failed_run::host_view::HostView;
use crate::failed_run::{FailedRun, FailureCause};
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState};
use crate::plan::{Decision, holds, port_references, ready};
use crate::probe::{self, ProbeStatus};
use crate::remedy;
use crate::state::ServiceHistory;
use crate::state::restart::{self, RestartDecision as Restart};
use crate::time::Timestamp;
use crate::wait::WaitReason;

/// Minimum run time before a container without a health check is ready.
const MIN_RUN_TIME: Duration = Duration::from_secs(1);

/// Maximum of this time after a failed run.
const MAX_MIN_RUN_TIME: Duration = Duration::from_secs(30);

pub(super) fn check(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    if service_history(planner).is_some_and(|history| history.is_restart_requested(container)) {
        return plan_requested_restart(planner, container);
    }
    match container.state {
        ContainerState::Created => plan_run(planner, container),
        ContainerState::Running | ContainerState::Restarting => match plan_running(planner, container) {
            // An unhealthy container is restarted before it receives its files.
            decision @ (Decision::Settled
            | Decision::Wait(WaitReason::Probe | WaitReason::MinimumRunTime { .. })) => {
                let missing = missing_files(planner, container);
                missing.map_or(decision, |action| Decision::Do(action, Cause::SpecChanged))
            }
            decision => decision,
        },
        ContainerState::Paused => match check_external_stop(planner) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => Decision::Do(
                Action::UnpauseContainer {
                    id: container.id.clone(),
                },
                Cause::StoppedExternally,
            ),
        },
        ContainerState::Exited => plan_ended(planner, container),
        ContainerState::Removing | ContainerState::Dead => Decision::Wait(WaitReason::Removal),
    }
}

/// Stops the run whose restart was requested, then starts the container again.
fn plan_requested_restart(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    if container.state == ContainerState::Exited {
        return plan_start(planner, container, Cause::RestartRequested);
    }
    planner.stop(container, Cause::RestartRequested)
}

/// Stops a container of a service that a person stopped. The hold of the service keeps it so.
pub(super) fn stop_on_request(planner: &ServicePlanner<'_>) -> Option<Decision> {
    if !holds::is_stopped(planner.input, &planner.service.name) {
        return None;
    }
    let mut owned = planner.owned.iter();
    let up = owned.find(|container| container.state.is_up() && planner.can_replace(container))?;
    Some(planner.stop(up, Cause::StopRequested))
}

/// Collects the evidence of the newest failure, if it is missing and its container still exists.
pub(super) fn collect_evidence(planner: &ServicePlanner<'_>) -> Option<Action> {
    let (last, earlier) = service_history(planner)?.failures.split_last()?;
    let earlier = earlier.iter().rfind(|run| run.container == last.container);
    let container = planner.input.observed.containers.get(&last.container)?;
    let (port, http) = match planner.service.probe.as_ref().map(|probe| &probe.kind) {
        Some(ProbeHandler::Http { port, .. }) => (Some(*port), true),
        Some(ProbeHandler::Tcp { port } | ProbeHandler::DockerOrTcp { port }) => (Some(*port), false),
        Some(ProbeHandler::Exec { command }) => (remedy::requested_port(planner.service, command), true),
        Some(ProbeHandler::Log { .. } | ProbeHandler::Docker) | None => (None, false),
    };
    (last.evidence.is_none() && container.state != ContainerState::Removing).then(|| {
        Action::CollectEvidence {
            run: Box::new(last.clone()),
            lines_since: last.first_line_at(earlier),
            port: port.filter(|_| last.cause == FailureCause::Unhealthy),
            http,
            by_engine: restart::is_caused_by_engine(last, planner.input.outages),
            targets: match last.cause {
                FailureCause::Unhealthy => {
                    connectivity::targets_of_failure(&planner.accepted.desired, planner.service)
                }
                FailureCause::Exited => Vec::new(),
            },
            host: Box::new(HostView::of(planner.accepted, planner.service)),
        }
    })
}

/// Plans the collection of the missing evidence; `None` if none is missing.
pub(super) fn plan_evidence(planner: &ServicePlanner<'_>) -> Option<Decision> {
    let action = collect_evidence(planner)?;
    Some(match planner.input.backoff_of(&planner.subject) {
        // Nothing else happens to the container before.
        Some(WaitReason::Retry { until, failure }) if failure.verb == action.kind() => {
            Decision::Wait(WaitReason::Retry { until, failure })
        }
        Some(_) | None => Decision::Do(action, Cause::Failed),
    })
}

/// True if a service runs as desired, and the decision only reads the evidence of an earlier run.
pub(super) fn only_reads_evidence(planner: &ServicePlanner<'_>, decision: &Decision) -> bool {
    let kind = match decision {
        Decision::Do(action, _) => action.kind(),
        Decision::Wait(WaitReason::InFlight { verb }) => *verb,
        Decision::Wait(WaitReason::Retry { failure, .. }) => failure.verb,
        Decision::Wait(_) | Decision::Settled => return false,
    };
    let current = ready::current_container(planner.input, &planner.service.name);
    kind == ActionKind::CollectEvidence && matches!(planner.plan_container(current), Decision::Settled)
}

/// Applies the restart policy to the newest failure, if no run followed it. Returns the cause of the next run, or
/// its wait reason.
pub(super) fn next_run_cause(planner: &ServicePlanner<'_>) -> Result<Option<Cause>, WaitReason> {
    let Some(history) = service_history(planner) else {
        return Ok(None);
    };
    let is_of_other_revision = |last: &FailedRun| last.hash.as_ref().is_some_and(|hash| hash != planner.hash);
    if history
        .failures
        .last()
        .is_none_or(|last| last.followed_by_run || last.image_retagged || is_of_other_revision(last))
    {
        return Ok(None);
    }
    // A failure in the future was observed before the clock was set back, so its age is unknown.
    let is_in_future = history
        .failures
        .last()
        .is_some_and(|last| last.seen() > planner.input.now);
    let start = |until: Timestamp, attempt| {
        if until > planner.input.now && !is_in_future {
            return Err(WaitReason::RestartDelay { until, attempt });
        }
        let repeated = restart::is_repeated(&history.failures, planner.input.outages);
        Ok(Some(Cause::Restart { attempt, repeated }))
    };
    match restart_decision(planner, history) {
        Restart::WhenDependenciesReady => Ok(Some(Cause::EngineRestart)),
        Restart::Disabled => Err(WaitReason::RestartsDisabled),
        Restart::GaveUp(restarts) => Err(WaitReason::GaveUp { restarts }),
        Restart::Halted(budgets) => Err(WaitReason::Halted { budgets }),
        Restart::NotRunnable(exit_code) => Err(WaitReason::NotRunnable { exit_code }),
        Restart::ProbeNotRunnable => Err(WaitReason::ProbeNotRunnable),
        Restart::StartAt(until, attempt) => start(until, attempt),
        Restart::StartSlowly(failed_at, attempt) => {
            start(failed_at + planner.input.state.retries.slow_restart, attempt)
        }
    }
}

fn restart_decision(planner: &ServicePlanner<'_>, history: &ServiceHistory) -> Restart {
    let policy = &planner.accepted.desired.restart;
    restart::decide_restart(policy, history, planner.input.outages)
}

fn plan_running(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    if planner.service.one_shot {
        return Decision::Wait(WaitReason::Completion);
    }
    if let Some(service) = restarted_dependency(planner, container) {
        return planner.stop(container, Cause::DependencyRestarted { service });
    }
    if let Some(decision) = plan_memory_restart(planner, container) {
        return decision;
    }
    let (health, outages) = (planner.input.health, planner.input.outages);
    match probe::probe_status(planner.service.probe.as_ref(), container, health, outages) {
        None => min_run_time_end(planner, container).map_or(Decision::Settled, |until| {
            Decision::Wait(WaitReason::MinimumRunTime { until })
        }),
        Some(ProbeStatus::Healthy) => Decision::Settled,
        Some(ProbeStatus::Starting) if probe::is_never_probed(planner.service.probe.as_ref(), container) => {
            Decision::Wait(WaitReason::NoHealthcheck)
        }
        Some(ProbeStatus::Starting) => Decision::Wait(WaitReason::Probe),
        Some(ProbeStatus::Unhealthy) => plan_unhealthy(planner, container),
    }
}

/// Dependency that runs since after the start of this run, and whose starts restart the service.
fn restarted_dependency(planner: &ServicePlanner<'_>, container: &Container) -> Option<ServiceName> {
    let started_at = |container: &Container| container.inspect.as_ref()?.started_at;
    let own = started_at(container)?;
    let dependencies = planner.service.depends_on.iter();
    let restarted = dependencies.filter(|it| it.restart).find(|it| {
        let other = ready::current_container(planner.input, &it.service);
        let other = other.filter(|other| other.state == ContainerState::Running);
        other.and_then(started_at).is_some_and(|at| at > own)
    });
    restarted.map(|it| it.service.clone())
}

/// Time from which a container without a health check is ready; `None` if it is ready now.
///
/// A run after a failed run must last as long as the failed one, because the failure may repeat.
fn min_run_time_end(planner: &ServicePlanner<'_>, container: &Container) -> Option<Timestamp> {
    let info = container.inspect.as_ref()?;
    let started_at = info.started_at?;
    let last = service_history(planner).and_then(|history| history.failures.last());
    let repeatable = last.filter(|last| {
        last.hash.as_ref().is_none_or(|hash| hash == planner.hash)
            && last.memory_used.is_none()
            && info.finished_at.is_none_or(|ended_at| ended_at == last.at)
            && !restart::is_caused_by_engine(last, planner.input.outages)
    });
    let failed_after = repeatable.map_or(Duration::ZERO, FailedRun::run_duration);
    let until = started_at + failed_after.clamp(MIN_RUN_TIME, MAX_MIN_RUN_TIME);
    let now = planner.input.now;
    // The clock of the engine may be ahead: its age is then unknown.
    let is_in_future = started_at > now + MIN_RUN_TIME;
    (until > now && !is_in_future).then_some(until)
}

/// Handles an unhealthy container: a probe failure within the budget costs a restart.
fn plan_unhealthy(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    if is_image_retagged(planner, container) {
        return planner.stop(container, Cause::ImageRetagged);
    }
    let attempt = match next_run_cause(planner) {
        Ok(Some(Cause::Restart { attempt, .. })) => attempt,
        Ok(Some(_)) => 0,
        Ok(None) | Err(WaitReason::RestartsDisabled) => {
            return Decision::Wait(WaitReason::Unhealthy { until: None });
        }
        Err(WaitReason::RestartDelay { until, .. }) => {
            return Decision::Wait(WaitReason::Unhealthy { until: Some(until) });
        }
        Err(wait) => return Decision::Wait(wait),
    };
    planner.stop(container, Cause::Unhealthy { attempt })
}

/// Restarts a container that uses more memory than the file allows. It works, so it runs on when the budget is exhausted.
fn plan_memory_restart(planner: &ServicePlanner<'_>, container: &Container) -> Option<Decision> {
    if !has_excess_memory(planner, container) {
        return None;
    }
    match next_run_cause(planner) {
        Ok(Some(Cause::Restart { attempt, .. })) => {
            Some(planner.stop(container, Cause::MemoryHigh { attempt }))
        }
        Err(wait @ WaitReason::RestartDelay { .. }) => Some(Decision::Wait(wait)),
        Ok(_) | Err(_) => None,
    }
}

/// True if the last run of the container failed because of its memory use, and no run followed.
fn has_excess_memory(planner: &ServicePlanner<'_>, container: &Container) -> bool {
    let last = service_history(planner).and_then(|history| history.failures.last());
    last.is_some_and(|last| {
        last.memory_used.is_some() && !last.followed_by_run && last.container == container.id
    })
}

fn plan_ended(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    let Some(info) = &container.inspect else {
        return Decision::Wait(WaitReason::Inspection);
    };
    if planner.service.one_shot && info.exit_code == 0 {
        return Decision::Settled;
    }
    let stopped_at = container
        .stopped_by_other
        .filter(|_| container.is_stopped_externally(planner.service.stop_grace));
    if let Some(at) = stopped_at {
        // An engine that shuts down reports its stops like those of a person.
        if planner.input.outages.iter().any(|outage| outage.is_near(at)) {
            return plan_start(planner, container, Cause::EngineRestart);
        }
        return match check_external_stop(planner) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => plan_start(planner, container, Cause::StoppedExternally),
        };
    }
    plan_run(planner, container)
}

/// Starts the container for the first time or again.
fn plan_run(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    if container.state == ContainerState::Exited && is_image_retagged(planner, container) {
        return remove(container, Cause::ImageRetagged);
    }
    match next_run_cause(planner) {
        Err(wait) => Decision::Wait(wait),
        // It never failed, its end was forgiven, or Argus stopped it.
        Ok(None) => plan_start(planner, container, Cause::Ready),
        Ok(Some(cause)) => plan_start(planner, container, cause),
    }
}

/// True if Argus gave up and the image name now refers to another image.
fn is_image_retagged(planner: &ServicePlanner<'_>, container: &Container) -> bool {
    let last = service_history(planner).and_then(|history| history.failures.last());
    last.is_some_and(|last| last.image_retagged && !last.followed_by_run && last.container == container.id)
}

fn check_start(planner: &ServicePlanner<'_>) -> Result<(), WaitReason> {
    ready::check_start(planner.input, planner.service).and_then(|()| planner.check_binding())
}

/// Copies the service's files into the container, unless that is known to be done.
fn missing_files(planner: &ServicePlanner<'_>, container: &Container) -> Option<Action> {
    let (desired, ports) = (&planner.accepted.desired, &planner.input.ports.ports);
    let of_mock = planner.service.injected_file.as_ref();
    let of_mock = of_mock.map(|file| port_references::rewrite_file(file, desired, planner.service, ports));
    let files: &[InjectedFile] = match &of_mock {
        Some(file) => std::slice::from_ref(file.as_ref()),
        // A change of them replaces the container, so only its first run needs them.
        None if container.state == ContainerState::Created => &planner.spec.process.files,
        None => &[],
    };
    if files.is_empty() {
        return None;
    }
    let copied = service_history(planner).and_then(|history| history.copied_files.as_ref());
    let is_copied =
        copied.is_some_and(|(id, digest)| *id == container.id && *digest == InjectedFile::digest_of(files));
    (!is_copied).then(|| Action::CopyFile {
        id: container.id.clone(),
        files: files.to_vec(),
    })
}

/// True if a new container follows the run that ended. From the second failure in a row on, the writable layer may cause the failure. After
/// excessive memory use, the service starts with a clean state. Next to covers, the program can have put links into that layer, which would
/// lead the mounts of another start past the covers.
fn is_replaced_after_a_run(planner: &ServicePlanner<'_>, container: &Container, cause: &Cause) -> bool {
    matches!(cause, Cause::Restart { attempt: 2.., .. })
        || has_excess_memory(planner, container)
        || planner.service.has_covers()
}

/// Starts the container, or removes it if a new one is to start.
fn plan_start(planner: &ServicePlanner<'_>, container: &Container, cause: Cause) -> Decision {
    if let Err(wait) = check_start(planner) {
        return Decision::Wait(wait);
    }
    if container.state == ContainerState::Exited && is_replaced_after_a_run(planner, container, &cause) {
        return remove(container, cause);
    }
    // The service reads its files at the start.
    if let Some(action) = missing_files(planner, container) {
        return Decision::Do(action, planner.input.cause(&planner.subject, cause));
    }
    // A refused port that is still assigned was free in a later check.
    let refused = planner
        .input
        .state
        .action_failures
        .get(&planner.subject)
        .is_some_and(|failure| matches!(failure.error, crate::outcome::ActionError::PortTaken(_)));
    let cause = match cause {
        Cause::Ready if refused => Cause::PortFree,
        Cause::Ready => planner.input.cause(&planner.subject, Cause::Ready),
        other => other,
    };
    Decision::Do(
        Action::StartContainer {
            id: container.id.clone(),
        },
        cause,
    )
}

pub(super) fn service_history<'a>(planner: &'a ServicePlanner<'_>) -> Option<&'a ServiceHistory> {
    planner.input.history()?.service(&planner.service.name)
}

fn check_external_stop(planner: &ServicePlanner<'_>) -> Result<(), WaitReason> {
    let since = service_history(planner)
        .and_then(|history| history.stopped_externally_since)
        .unwrap_or(planner.input.now);
    let until = since + planner.input.state.delays.external_stop;
    if until > planner.input.now {
        Err(WaitReason::StoppedExternally { until })
    } else {
        Ok(())
    }
}
