//! Memory use above `argus.restart.memoryAbove`: a failure of a run that continues, like that of a health check.
//!
//! Only containers with a memory limit on an engine of this host are measured. The budget of such restarts is that of all failures.

use crate::failed_run::FailureCause;
use crate::observed::{Container, ContainerState};
use crate::state::ServiceHistory;
use crate::state::observe::RunObserver;

/// Records the failure of a running container, or that its use is normal again.
pub(super) fn record(observer: &RunObserver<'_>, history: &mut ServiceHistory, container: &Container) {
    if container.state != ContainerState::Running || observer.service.one_shot {
        return;
    }
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    let current_failure = history.failures.last_mut().filter(|last| {
        last.cause == FailureCause::Unhealthy
            && !last.followed_by_run
            && last.container == container.id
            && last.started_at == started_at
    });
    match (used_above_limit(observer, container), current_failure) {
        (Some(used), None) => {
            let cause = FailureCause::Unhealthy;
            observer.push_failure(history, container, observer.context.now, cause);
            let number = history.failure_count;
            let mut failures = history.failures.iter_mut();
            if let Some(failed_run) = failures.find(|failed_run| failed_run.number == number) {
                failed_run.memory_used = Some(used);
                // It does not explain the use.
                failed_run.failed_dependency = None;
            }
        }
        (None, Some(current_failure)) if current_failure.memory_used.is_some() => {
            (current_failure.followed_by_run, current_failure.recovered_at) =
                (true, Some(observer.context.now));
        }
        // A failed health check restarts it anyway.
        (Some(_), Some(_)) | (None, _) => {}
    }
}

/// Bytes that the current run uses, if the file allows less.
fn used_above_limit(observer: &RunObserver<'_>, container: &Container) -> Option<u64> {
    let percent = observer.desired.restart.memory_above?;
    let high = observer.observed.memory_high.get(&container.id)?;
    (high.is_of(container) && high.is_above(percent)).then_some(high.used)
}
