//! Party that stopped the container of a failed run, after its health check failed.

use crate::failed_run::{FailureCause, Stopper};
use crate::observed::{Container, ContainerState};
use crate::state::ServiceHistory;
use crate::state::observe::RunObserver;

/// Records the stop of the last failed run. A run that ended without a stop has none.
pub(super) fn record(history: &mut ServiceHistory, container: &Container, observer: &RunObserver<'_>) {
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
