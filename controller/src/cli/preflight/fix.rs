//! What is safe to mend: what was left behind goes, by the same way as with `argus orphans --clean`.

use std::time::Duration;

use argus_core::preflight::PreflightFacts;
use argus_crds::status::PreflightFix;

use crate::cli::orphans;
use crate::exit::Failure;
use crate::settings::Settings;

/// No removal is waited for longer: what was left just now has a grace of 30 s, and may not listen to its stop.
const LIMIT: Duration = Duration::from_secs(60);

/// Removes what was found, each with a result of its own; nothing of projects whose specs are not held here.
pub(super) async fn orphans(
    settings: &Settings,
    facts: &PreflightFacts,
) -> Result<Vec<PreflightFix>, Failure> {
    if facts.orphans.known().is_none_or(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let left = orphans::of(settings, &[], Some(LIMIT)).await?;
    let fixed = left.into_iter().map(|orphan| PreflightFix {
        removed: orphan.result == "removed",
        kind: orphan.kind,
        id: orphan.id,
        name: orphan.name,
        message: orphan.message,
    });
    Ok(fixed.collect())
}
