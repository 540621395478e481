//! Ends of runs: completions with exit code 0 that are no failures, and the party that stopped a container.
//!
//! Many servers exit with 0 when their engine stops. A service that only can complete must therefore run again, unless the engine ran
//! since its end, or the end was recorded before.

use crate::desired::Service;
use crate::failed_run::{FailureCause, Stopper};
use crate::observed::{Container, ContainerState, Outage};
use crate::state::ServiceHistory;
use crate::state::observe::RunObserver;
use crate::time::Timestamp;

/// Records the end of a run at this time as the completion of its service. Returns false for any other end.
pub(super) fn record_completion(
    observer: &RunObserver<'_>,
    history: &mut ServiceHistory,
    container: &Container,
    at: Timestamp,
) -> bool {
    let service = observer.service;
    let is_success = container.inspect.as_ref().is_some_and(|info| info.exit_code == 0);
    if is_success
        && (service.one_shot || (service.can_complete && !is_engine_stop(observer, history, container, at)))
    {
        history.completed = container.owner().and_then(|owner| owner.spec_hash);
        return true;
    }
    if service.can_complete {
        history.completed = None;
    }
    false
}

/// True if the engine possibly stopped the container.
fn is_engine_stop(
    observer: &RunObserver<'_>,
    history: &ServiceHistory,
    container: &Container,
    at: Timestamp,
) -> bool {
    let known = history.completed.as_ref();
    let is_recorded = known.is_some_and(|hash| container.carries(hash));
    let may_stop =
        |outage: &Outage| outage.may_stop_containers(at) || (!is_recorded && !outage.ran_since(at));
    observer.context.outages.iter().any(may_stop)
}

/// True if the last end of a service that can complete was its completion.
pub(super) fn is_completed(observer: &RunObserver<'_>, service: &Service) -> bool {
    let history = observer.before.and_then(|before| before.service(&service.name));
    service.can_complete && history.is_some_and(|history| history.completed.is_some())
}

/// Records the stop of the last failed run. A run that ended without a stop has none.
pub(super) fn record_stop(history: &mut ServiceHistory, container: &Container, observer: &RunObserver<'_>) {
    let is_ended = container.state == ContainerState::Exited;
    let (Some(info), Some(last)) = (
        container.inspect.as_ref().filter(|_| is_ended),
        history.failures.last_mut(),
    ) else {
        return;
    };
    if last.container != container.id || last.started_at != info.started_at {
        return;
    }
    if observer.is_caused_by_us(container) {
        // Argus also removes containers whose process ended before.
        if last.cause == FailureCause::Unhealthy {
            let at = info.finished_at.unwrap_or(observer.context.now);
            last.stopped = Some((Stopper::Argus, at));
        }
    } else if observer.is_stopped_externally(container)
        && let Some(at) = container.stopped_by_other
    {
        last.stopped = Some((Stopper::OtherClient, at));
    }
}
