//! Age and size of orphans.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::preflight;
use argus_core::time::Timestamp;
use argus_crds::status::Orphan;
use argus_docker::Docker;
use argus_reconciler::clock;
use futures::StreamExt as _;

use crate::engine;
use crate::settings::Settings;

/// Maximum number of containers that are measured at the same time.
const PARALLEL: usize = 8;

/// Measures the sizes of the orphans that exist. Without an engine that answers, they stay unknown.
pub(super) async fn measure_sizes(items: &mut [Orphan], settings: &Settings) {
    if items.iter().all(|orphan| orphan.result == "removed") {
        return;
    }
    let Ok(docker) = engine::connect_docker(settings).await else {
        return;
    };
    let volumes = if items.iter().any(|orphan| orphan.kind == "volume") {
        docker.volume_sizes().await
    } else {
        BTreeMap::new()
    };
    let ids: Vec<Option<ContainerId>> = items.iter().map(container_of).collect();
    let sizes: Vec<Option<u64>> = futures::stream::iter(ids)
        .map(|id| container_size(docker.clone(), id))
        .buffered(PARALLEL)
        .collect()
        .await;
    for (orphan, size) in items.iter_mut().zip(sizes) {
        let is_volume = orphan.kind == "volume";
        orphan.size_bytes = size.or_else(|| volumes.get(&orphan.name).copied().filter(|_| is_volume));
    }
}

fn container_of(orphan: &Orphan) -> Option<ContainerId> {
    let is_container = orphan.kind == "container" && orphan.result != "removed";
    ContainerId::new(orphan.id.clone()).ok().filter(|_| is_container)
}

async fn container_size(docker: Docker, id: Option<ContainerId>) -> Option<u64> {
    docker.container_size(&id?).await
}

/// Time since the creation of an orphan, such as `3h`; empty if it is unknown.
pub(crate) fn format_age(orphan: &Orphan) -> String {
    let at = orphan.created_at.as_deref().and_then(Timestamp::parse);
    at.map(|at| short(clock::now().since(at))).unwrap_or_default()
}

/// Size of an orphan, such as `1.5 MB`; empty if it is unknown.
pub(crate) fn format_size(orphan: &Orphan) -> String {
    orphan.size_bytes.map(preflight::size).unwrap_or_default()
}

/// Duration in one unit.
fn short(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit() {
        let ages = [0, 59, 60, 3_599, 3_600, 172_799, 172_800];
        let ages = ages.map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "47h", "2d"]);
        assert_eq!(
            format_age(&Orphan::default()) + &format_size(&Orphan::default()),
            ""
        );
    }
}
