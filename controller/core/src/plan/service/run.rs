//! Run of a current container: start, restart, probe, evidence and external stops.

use std::time::Duration;

use super::ServicePlanner;
use crate::desired::ProbeKind;
use crate::diagnose::FailureCause;
use crate::observed::{Container, ContainerState};
use crate::plan::{Action, Cause, Decision, WaitingOn, port_references, ready};
use crate::probe::ProbeStatus;
use crate::state::restart::{self, RestartDecision as Restart};
use crate::state::{FailedRun, ServiceHistory};

/// Time for which an external stop or pause is left alone.
const EXTERNAL_STOP_GRACE: Duration = Duration::from_secs(10);

pub(super) fn check(look: &ServicePlanner<'_>, container: &Container) -> Decision {
    match container.state {
        ContainerState::Created => again(look, container),
        ContainerState::Running | ContainerState::Restarting => match running(look, container) {
            // An unhealthy container is restarted before it receives its file.
            decision @ (Decision::Settled | Decision::Wait(WaitingOn::Probe)) => {
                let misplaced = misplaced(look, container);
                misplaced.map_or(decision, |act| Decision::Do(act, Cause::SpecChanged))
            }
            decision => decision,
        },
        ContainerState::Paused => match by_hand(look) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => Decision::Do(
                Action::UnpauseContainer {
                    id: container.id.clone(),
                },
                Cause::StoppedExternally,
            ),
        },
        ContainerState::Exited => ended(look, container),
        ContainerState::Removing | ContainerState::Dead => Decision::Wait(WaitingOn::Removal),
    }
}

/// Collects the evidence of the newest failure, if it is missing and its container still exists.
pub(super) fn evidence(look: &ServicePlanner<'_>) -> Option<Action> {
    let last = kept(look)?.failures.last()?;
    let container = look.input.observed.containers.get(&last.container)?;
    let port = match look.service.probe.as_ref().map(|probe| &probe.kind) {
        Some(ProbeKind::Http { port, .. } | ProbeKind::Tcp { port }) => Some(*port),
        Some(ProbeKind::Exec { .. } | ProbeKind::Docker) | None => None,
    };
    (last.evidence.is_none() && container.state != ContainerState::Removing).then(|| {
        Action::CollectEvidence {
            id: last.container.clone(),
            number: last.number,
            since: last.started_at,
            exit_code: (last.cause != FailureCause::Unhealthy).then_some(last.exit_code),
            port: port.filter(|_| last.cause == FailureCause::Unhealthy),
            probe_said: last.probe_output.clone(),
        }
    })
}

/// Applies the restart policy to the newest failure, if no run followed it. Returns the cause of the next run, or
/// its wait reason.
pub(super) fn may_follow(look: &ServicePlanner<'_>) -> Result<Option<Cause>, WaitingOn> {
    let Some(kept) = kept(look) else { return Ok(None) };
    let of_another = |last: &FailedRun| last.hash.as_ref().is_some_and(|hash| hash != look.hash);
    if kept
        .failures
        .last()
        .is_none_or(|last| last.followed_by_run || last.image_replaced || of_another(last))
    {
        return Ok(None);
    }
    // A failure in the future was observed before the clock was set back, so its age is unknown.
    let lies_ahead = kept
        .failures
        .last()
        .is_some_and(|last| last.seen() > look.input.now);
    match verdict(look, kept) {
        Restart::EngineRestart => Ok(Some(Cause::EngineRestart)),
        Restart::Stay => Err(WaitingOn::NotRestarted),
        Restart::GaveUp(restarts) => Err(WaitingOn::GaveUp { restarts }),
        Restart::Halted(repetitions) => Err(WaitingOn::Halted { repetitions }),
        Restart::NotRunnable(exit_code) => Err(WaitingOn::NotRunnable { exit_code }),
        Restart::At(until, attempt) if until > look.input.now && !lies_ahead => {
            Err(WaitingOn::Backoff { until, attempt })
        }
        Restart::At(_, attempt) => Ok(Some(Cause::Restart { attempt })),
    }
}

fn verdict(look: &ServicePlanner<'_>, kept: &ServiceHistory) -> Restart {
    let policy = &look.accepted.desired.restart;
    restart::decide(
        policy,
        &kept.failures,
        look.input.outages,
        &kept.health_transitions,
    )
}

fn running(look: &ServicePlanner<'_>, container: &Container) -> Decision {
    if look.service.one_shot {
        return Decision::Wait(WaitingOn::Completion);
    }
    let (health, outages) = (look.input.health, look.input.outages);
    match ready::probe_status(look.service.probe.as_ref(), container, health, outages) {
        None | Some(ProbeStatus::Healthy) => Decision::Settled,
        Some(ProbeStatus::Starting) if ready::is_never_probed(look.service.probe.as_ref(), container) => {
            Decision::Wait(WaitingOn::NoHealthcheck)
        }
        Some(ProbeStatus::Starting) => Decision::Wait(WaitingOn::Probe),
        Some(ProbeStatus::Unhealthy) => unhealthy(look, container),
    }
}

/// Handles an unhealthy container: a probe failure within the budget costs a restart.
fn unhealthy(look: &ServicePlanner<'_>, container: &Container) -> Decision {
    if is_superseded(look, container) {
        let (id, grace) = (container.id.clone(), look.service.stop_grace);
        return Decision::Do(Action::StopContainer { id, grace }, Cause::ImageChanged);
    }
    let attempt = match may_follow(look) {
        Ok(Some(Cause::Restart { attempt })) => attempt,
        Ok(Some(_)) => 0,
        Ok(None) | Err(WaitingOn::NotRestarted) => {
            return Decision::Wait(WaitingOn::Unhealthy { until: None });
        }
        Err(WaitingOn::Backoff { until, .. }) => {
            return Decision::Wait(WaitingOn::Unhealthy { until: Some(until) });
        }
        Err(wait) => return Decision::Wait(wait),
    };
    let act = Action::StopContainer {
        id: container.id.clone(),
        grace: look.service.stop_grace,
    };
    Decision::Do(act, Cause::Unhealthy { attempt })
}

fn ended(look: &ServicePlanner<'_>, container: &Container) -> Decision {
    let Some(facts) = &container.inspect else {
        return Decision::Wait(WaitingOn::InFlight {
            verb: "inspect".to_owned(),
        });
    };
    if look.service.one_shot && facts.exit_code == 0 {
        return Decision::Settled;
    }
    let hand = container
        .stopped_by_other
        .filter(|_| container.stopped_by_hand(look.service.stop_grace));
    if let Some(at) = hand {
        // An engine that shuts down reports its stops like those of a person.
        if restart::around_an_outage(at, look.input.outages) {
            return start(look, container, Cause::EngineRestart);
        }
        return match by_hand(look) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => start(look, container, Cause::StoppedExternally),
        };
    }
    again(look, container)
}

/// Starts the container for the first time or again. From the second failure in a row on, it is created again, because
/// its own writable layer may cause the failure.
fn again(look: &ServicePlanner<'_>, container: &Container) -> Decision {
    if container.state == ContainerState::Exited && is_superseded(look, container) {
        return super::remove(container, Cause::ImageChanged);
    }
    match may_follow(look) {
        Err(wait) => Decision::Wait(wait),
        // It never failed, its end was forgiven, or Argus stopped it.
        Ok(None) => start(look, container, Cause::Ready),
        Ok(Some(Cause::Restart { attempt })) if attempt > 1 && container.state == ContainerState::Exited => {
            match may_start(look) {
                Err(wait) => Decision::Wait(wait),
                Ok(()) => super::remove(container, Cause::Restart { attempt }),
            }
        }
        Ok(Some(cause)) => start(look, container, cause),
    }
}

/// True if Argus gave up and the image name now refers to another image.
fn is_superseded(look: &ServicePlanner<'_>, container: &Container) -> bool {
    let last = kept(look).and_then(|kept| kept.failures.last());
    last.is_some_and(|last| last.image_replaced && !last.followed_by_run && last.container == container.id)
}

fn may_start(look: &ServicePlanner<'_>) -> Result<(), WaitingOn> {
    ready::check_start(look.input, look.service).and_then(|()| look.check_binding())
}

/// Copies the service's file into the container, unless that is known to be done.
fn misplaced(look: &ServicePlanner<'_>, container: &Container) -> Option<Action> {
    let (desired, ports) = (&look.accepted.desired, &look.input.ports.ports);
    let file = port_references::file(look.service.file.as_ref()?, desired, look.service, ports);
    let placed = kept(look).and_then(|kept| kept.copied_files.as_ref());
    let there = placed.is_some_and(|(id, digest)| *id == container.id && *digest == file.digest());
    (!there).then(|| Action::CopyFile {
        id: container.id.clone(),
        file: file.into_owned(),
    })
}

fn start(look: &ServicePlanner<'_>, container: &Container, cause: Cause) -> Decision {
    if let Err(wait) = may_start(look) {
        return Decision::Wait(wait);
    }
    // The service reads its file at the start.
    if let Some(act) = misplaced(look, container) {
        return Decision::Do(act, look.input.cause(&look.subject, cause));
    }
    // A refused port that is still assigned was free in a later check.
    let refused = look
        .input
        .state
        .action_failures
        .get(&look.subject)
        .is_some_and(|failure| matches!(failure.error, crate::outcome::ActionError::PortTaken(_)));
    let cause = match cause {
        Cause::Ready if refused => Cause::PortFree,
        Cause::Ready => look.input.cause(&look.subject, Cause::Ready),
        other => other,
    };
    Decision::Do(
        Action::StartContainer {
            id: container.id.clone(),
        },
        cause,
    )
}

fn kept<'a>(look: &'a ServicePlanner<'_>) -> Option<&'a ServiceHistory> {
    look.input.kept()?.services.get(&look.service.name)
}

fn by_hand(look: &ServicePlanner<'_>) -> Result<(), WaitingOn> {
    let since = kept(look)
        .and_then(|kept| kept.stopped_externally_since)
        .unwrap_or(look.input.now);
    let until = since + EXTERNAL_STOP_GRACE;
    if until > look.input.now {
        Err(WaitingOn::StoppedExternally { until })
    } else {
        Ok(())
    }
}
