//! End of a give-up because the image name now refers to another image.

use crate::observed::Container;
use crate::state::observe::RunObserver;
use crate::state::{ServiceHistory, restart};

/// Marks the last failure of a given-up service if its image was replaced.
pub(super) fn record(history: &mut ServiceHistory, container: &Container, observer: &RunObserver<'_>) {
    if !observer.observed.image_retagged.contains(&container.id) {
        return;
    }
    let is_final = restart::has_given_up(&observer.desired.restart, history, observer.context.outages);
    if let Some(last) = history.failures.last_mut()
        && is_final
        && last.container == container.id
        && !last.followed_by_run
    {
        last.image_retagged = true;
    }
}

/// Forgets the failures of the replaced image when the new image fails.
pub(super) fn clear(history: &mut ServiceHistory) {
    if history.failures.last().is_some_and(|last| last.image_retagged) {
        history.failures.clear();
        history.ended_budgets.clear();
        history.health_transitions.clear();
    }
}
