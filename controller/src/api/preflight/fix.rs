//! Safe repairs of `argus preflight --fix`: removal of orphans, as in `argus orphans --clean`.

use std::time::Duration;

use argus_core::preflight::PreflightFacts;
use argus_crds::status::{Orphan, PreflightFix};

use crate::api::orphans::{Clean, list_or_clean};
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::settings::Settings;

/// Maximum time for a removal. New orphans have a grace period of 30 s, and a container may ignore its stop signal.
const LIMIT: Duration = Duration::from_secs(60);

/// Removes the orphans of this controller's projects. Each has its own result.
pub(super) async fn remove_orphans(
    settings: &Settings,
    facts: &PreflightFacts,
) -> Result<Vec<PreflightFix>, Failure> {
    let is_clean = |orphans: &Vec<Orphan>| orphans.iter().all(Orphan::is_kept);
    if facts.orphans.known().is_none_or(is_clean) {
        return Ok(Vec::new());
    }
    let orphans = list_or_clean(
        &ControllerClient::remote(settings.clone()),
        &[],
        Some(Clean::within(LIMIT)),
    )
    .await?;
    let orphans = orphans.into_iter().filter(|orphan| !orphan.is_kept());
    let fixed = orphans.map(|orphan| PreflightFix {
        removed: orphan.result == "removed",
        kind: orphan.kind,
        id: orphan.id,
        name: orphan.name,
        message: orphan.message,
    });
    Ok(fixed.collect())
}
