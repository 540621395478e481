//! Health of containers for a plan. The command does not probe; it uses the results of a running controller.

use argus_core::ident::ContainerId;
use argus_core::observed::Store;
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::time::Timestamp;
use argus_crds::status;
use argus_reconciler::state_dir::StateDir;

use crate::local_state::status::is_alive;
use crate::local_state::status::read_environments;
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::settings::Settings;

/// Healthy containers of the status files. All others stay undecided until the controller has probed them.
pub(super) async fn read_probe_states(
    settings: &Settings,
    store: &Store,
    now: Timestamp,
) -> Result<HealthStates, Failure> {
    let state = settings.state.clone();
    let healthy = blocking_io::read(move || Ok(list_healthy_containers(&state))).await?;
    let of_this_run = |id: ContainerId| {
        let facts = store.container(&id)?.inspect.as_ref();
        let health = ProbedHealth {
            status: ProbeStatus::Healthy,
            since: now,
            started_at: facts.and_then(|facts| facts.started_at),
            ..ProbedHealth::default()
        };
        Some((id, health))
    };
    Ok(healthy.into_iter().filter_map(of_this_run).collect())
}

fn list_healthy_containers(state: &StateDir) -> Vec<ContainerId> {
    if !is_alive(state) {
        return Vec::new();
    }
    let fresh = read_environments(state).unwrap_or_default().into_iter();
    let rows = fresh
        .filter(|status| !status.stale)
        .flat_map(|status| status.services);
    rows.filter(|row| row.health == status::Health::Healthy)
        .filter_map(|row| ContainerId::new(row.container_id?).ok())
        .collect()
}
