//! What is safe to mend: what dead runs of this controller left goes.

use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::ident::{ContainerId, NetworkId};
use argus_core::outcome::ActError;
use argus_core::plan::Act;
use argus_core::preflight::{Facts, Orphan};
use argus_crds::status::PreflightFix;
use argus_docker::Docker;
use futures::StreamExt as _;

/// Removals at once.
const AT_ONCE: usize = 8;
/// No removal is waited for longer.
const LIMIT: Duration = Duration::from_secs(20);

/// Removes this controller's orphans: containers, then networks, each with a result of its own.
pub(super) async fn orphans(docker: &Docker, facts: &Facts) -> Vec<PreflightFix> {
    let none = Vec::new();
    let all = facts.orphans.known().unwrap_or(&none);
    let mut fixed = Vec::new();
    for kind in ["container", "network"] {
        let own = all.iter().filter(|orphan| orphan.own && orphan.kind == kind);
        let removals = own.map(|orphan| remove(docker, orphan));
        fixed.extend(
            futures::stream::iter(removals)
                .buffered(AT_ONCE)
                .collect::<Vec<_>>()
                .await,
        );
    }
    fixed
}

async fn remove(docker: &Docker, orphan: &Orphan) -> PreflightFix {
    let done = match act(orphan) {
        // The labels are looked at again right before.
        Some(act) => tokio::time::timeout(LIMIT, docker.act(&act, &()))
            .await
            .unwrap_or_else(|_| {
                Err(ActError::Unknown(format!(
                    "no answer within {} s",
                    LIMIT.as_secs()
                )))
            }),
        None => Err(ActError::Rejected("its id cannot be read".to_owned())),
    };
    let why = match done {
        Ok(_) | Err(ActError::Gone) => None,
        Err(why) => Some(why.to_string()),
    };
    PreflightFix {
        kind: orphan.kind.clone(),
        id: orphan.id.clone(),
        name: orphan.name.clone(),
        removed: why.is_none(),
        message: why,
    }
}

fn act(orphan: &Orphan) -> Option<Act> {
    let name = orphan.name.clone();
    if orphan.kind == "network" {
        let id = NetworkId::new(orphan.id.clone()).ok()?;
        return Some(Act::RemoveNetwork { id, name });
    }
    let id = ContainerId::new(orphan.id.clone()).ok()?;
    Some(Act::RemoveContainer { id, name })
}
