//! A give-up that ends because the name of the image stands for another image by now.

use crate::memory::notice::Watcher;
use crate::memory::{ServiceMemory, restart};
use crate::observed::Container;

/// What was given up is tried anew once its image is another.
pub(super) fn note(kept: &mut ServiceMemory, container: &Container, seen: &Watcher<'_>) {
    if !seen.observed.retagged.contains(&container.id) {
        return;
    }
    let is_final = restart::is_final(seen.restart, &kept.deaths, seen.context.outages, &kept.flips);
    if let Some(last) = kept.deaths.last_mut()
        && is_final
        && last.container == container.id
        && !last.answered
    {
        last.superseded = true;
    }
}

/// What another image did counts for nothing when this one fails.
pub(super) fn forget(kept: &mut ServiceMemory) {
    if kept.deaths.last().is_some_and(|last| last.superseded) {
        kept.deaths.clear();
        kept.flips.clear();
    }
}
