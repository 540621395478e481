//! End of a give-up because the image name now refers to another image.

use crate::observed::Container;
use crate::state::observe::RunObserver;
use crate::state::{ServiceHistory, restart};

/// Marks the last failure of a given-up service if its image was replaced.
pub(super) fn record(kept: &mut ServiceHistory, container: &Container, seen: &RunObserver<'_>) {
    if !seen.observed.retagged.contains(&container.id) {
        return;
    }
    let is_final = restart::is_final(
        seen.restart,
        &kept.failures,
        seen.context.outages,
        &kept.health_transitions,
    );
    if let Some(last) = kept.failures.last_mut()
        && is_final
        && last.container == container.id
        && !last.followed_by_run
    {
        last.image_replaced = true;
    }
}

/// Forgets the failures of the replaced image when the new image fails.
pub(super) fn clear(kept: &mut ServiceHistory) {
    if kept.failures.last().is_some_and(|last| last.image_replaced) {
        kept.failures.clear();
        kept.health_transitions.clear();
    }
}
