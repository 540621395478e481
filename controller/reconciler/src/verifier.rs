//! The verifier: looks who reaches whom.

use argus_backend::{Backend, NO_PROGRESS};
use argus_core::connectivity::{Found, Look, Signature};

use crate::clock::Clock;

/// One look at all links of an environment, from one service after the other.
pub async fn look<B: Backend>(backend: &B, signature: Signature, clock: Clock) -> Look {
    let mut links = Vec::new();
    for (from, aims) in &signature.aims {
        let seen = match signature.runs.get(from) {
            None => Err(format!("`{from}` does not run")),
            Some((id, _)) => {
                // The first look on an engine builds the image to look with.
                let looked = tokio::time::timeout(NO_PROGRESS, backend.look_from(id, aims)).await;
                looked
                    .unwrap_or_else(|_| Err(argus_core::outcome::ActError::TimedOut(String::new())))
                    .map_err(|error| error.to_string())
            }
        };
        for (at, aim) in aims.iter().enumerate() {
            let seen = match &seen {
                Ok(seen) => seen
                    .get(at)
                    .cloned()
                    .ok_or_else(|| "nothing was said of it".to_owned()),
                Err(why) => Err(why.clone()),
            };
            links.push(Found {
                from: from.clone(),
                aim: aim.clone(),
                seen,
            });
        }
    }
    let at = clock.now();
    Look {
        signature,
        at,
        since: at,
        links,
        is_current: true,
    }
}
