//! A give-up that ends because the name of the image stands for another image by now.

use crate::observed::Container;
use crate::state::observe::RunObserver;
use crate::state::{ServiceHistory, restart};

/// What was given up is tried anew once its image is another.
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

/// What another image did counts for nothing when this one fails.
pub(super) fn clear(kept: &mut ServiceHistory) {
    if kept.failures.last().is_some_and(|last| last.image_replaced) {
        kept.failures.clear();
        kept.health_transitions.clear();
    }
}
