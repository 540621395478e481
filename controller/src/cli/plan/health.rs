//! What the probes of a controller at work say, from its status files: a plan asks none of its own.

use argus_core::observed::World;
use argus_core::probe::{Health, HealthBook, Verdict};
use argus_crds::status::Health as Told;
use argus_reconciler::state::StateDir;

use crate::cli::status;
use crate::exit::Failure;

/// The verdicts on the containers that run; none where nobody probes them.
pub(super) fn told(state: &StateDir, world: &World) -> Result<HealthBook, Failure> {
    let mut book = HealthBook::new();
    if !status::is_alive(state) {
        return Ok(book);
    }
    let all = status::all(state)?;
    let rows = all
        .iter()
        .filter(|status| !status.stale)
        .flat_map(|status| &status.services);
    for row in rows {
        let verdict = match row.health {
            Told::Healthy => Verdict::Healthy,
            Told::Unhealthy => Verdict::Unhealthy,
            Told::Starting | Told::Unknown | Told::None => continue,
        };
        let id = row.container_id.as_deref();
        let Some(container) = id.and_then(|id| world.containers().find(|found| found.id.as_str() == id))
        else {
            continue;
        };
        let health = Health {
            verdict,
            started_at: container.facts.as_ref().and_then(|facts| facts.started_at),
            ..Health::default()
        };
        book.insert(container.id.clone(), health);
    }
    Ok(book)
}
