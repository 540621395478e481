//! What a container that is as it shall be needs in order to run, or to run again.

use std::time::Duration;

use super::Look;
use crate::memory::ServiceMemory;
use crate::memory::restart::{self, Verdict as Restart};
use crate::observed::{Container, ContainerState};
use crate::plan::{Act, Cause, Decision, WaitingOn, ready};
use crate::probe::Verdict;

/// What a person stopped or paused is left so for this long.
const BY_HAND_GRACE: Duration = Duration::from_secs(10);

pub(super) fn check(look: &Look<'_>, container: &Container) -> Decision {
    match container.state {
        ContainerState::Created => start(look, container, Cause::Ready),
        ContainerState::Running | ContainerState::Restarting => running(look, container),
        ContainerState::Paused => match by_hand(look) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => Decision::Do(
                Act::UnpauseContainer {
                    id: container.id.clone(),
                },
                Cause::ByHand,
            ),
        },
        ContainerState::Exited => ended(look, container),
        ContainerState::Removing | ContainerState::Dead => Decision::Wait(WaitingOn::Removal),
    }
}

fn running(look: &Look<'_>, container: &Container) -> Decision {
    if look.service.one_shot {
        return Decision::Wait(WaitingOn::Completion);
    }
    match ready::verdict(look.service.probe.as_ref(), container, look.input.health) {
        None | Some(Verdict::Healthy) => Decision::Settled,
        Some(Verdict::Starting) => Decision::Wait(WaitingOn::Probe),
        Some(Verdict::Unhealthy) => Decision::Wait(WaitingOn::Unhealthy),
    }
}

fn ended(look: &Look<'_>, container: &Container) -> Decision {
    let Some(facts) = &container.facts else {
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
        // An engine that goes down stops everything in the words of a person.
        if restart::around_an_outage(at, look.input.outages) {
            return start(look, container, Cause::EngineRestart);
        }
        return match by_hand(look) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => start(look, container, Cause::ByHand),
        };
    }
    let deaths = kept(look).map(|kept| kept.deaths.as_slice()).unwrap_or_default();
    if deaths.is_empty() {
        // Its end was forgiven, or was our own doing.
        return start(look, container, Cause::Ready);
    }
    match restart::verdict(&look.accepted.desired.restart, deaths, look.input.outages) {
        Restart::EngineRestart => start(look, container, Cause::EngineRestart),
        Restart::Stay => Decision::Wait(WaitingOn::NotRestarted),
        Restart::GaveUp(restarts) => Decision::Wait(WaitingOn::GaveUp { restarts }),
        Restart::At(until, attempt) if until > look.input.now => {
            Decision::Wait(WaitingOn::Backoff { until, attempt })
        }
        Restart::At(_, attempt) => start(look, container, Cause::Restart { attempt }),
    }
}

fn start(look: &Look<'_>, container: &Container, cause: Cause) -> Decision {
    if let Err(wait) = ready::may_start(look.input, look.service).and_then(|()| look.may_bind()) {
        return Decision::Wait(wait);
    }
    // A refused port that is still assigned was seen free since.
    let refused = look
        .input
        .memory
        .failures
        .get(&look.subject)
        .is_some_and(|failure| matches!(failure.error, crate::outcome::ActError::PortTaken(_)));
    let cause = match cause {
        Cause::Ready if refused => Cause::PortFree,
        Cause::Ready => look.input.cause(&look.subject, Cause::Ready),
        other => other,
    };
    Decision::Do(
        Act::StartContainer {
            id: container.id.clone(),
        },
        cause,
    )
}

fn kept<'a>(look: &'a Look<'_>) -> Option<&'a ServiceMemory> {
    look.input.kept()?.services.get(&look.service.name)
}

fn by_hand(look: &Look<'_>) -> Result<(), WaitingOn> {
    let since = kept(look).and_then(|kept| kept.by_hand).unwrap_or(look.input.now);
    let until = since + BY_HAND_GRACE;
    if until > look.input.now {
        Err(WaitingOn::ByHand { until })
    } else {
        Ok(())
    }
}
