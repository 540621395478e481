//! How the links of an environment stand, for a test that is about to begin.

use argus_core::connectivity;
use argus_core::ident::EnvName;
use argus_crds::error::StructuredError;

use super::ingredients;
use crate::snapshot::Snapshot;

/// What a test that begins now would find.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LinkState {
    /// Everybody reaches whom he names, or nobody looks.
    Fine,
    /// All are up, and the look that follows from that is not done.
    Pending,
    /// Somebody does not reach whom he names.
    Broken(Box<StructuredError>),
}

/// Of this environment, by an outlook.
pub(crate) fn link_state(snapshot: &Snapshot, env: &EnvName) -> LinkState {
    let wanted = snapshot
        .desired
        .get(env)
        .is_some_and(|accepted| accepted.desired.verify_links);
    let Some(seen) = ingredients(snapshot, env).filter(|_| wanted && snapshot.links.helpers) else {
        return LinkState::Fine;
    };
    // Since when the engine is back tells one look from another, and nothing of how things stand.
    let scene = seen.scene(None);
    let look = snapshot.links.checks.get(env).filter(|look| look.is_current);
    match look {
        Some(look) => connectivity::errors(look, &scene)
            .into_iter()
            .next()
            .map_or(LinkState::Fine, |error| {
                LinkState::Broken(Box::new(error.environment(env.as_str())))
            }),
        // Who is not up is not looked at, and says so himself.
        None if scene.due().is_none() => LinkState::Fine,
        None => LinkState::Pending,
    }
}
