//! Removable images and build cache.

use std::collections::BTreeSet;

use argus_core::journal::{ChangedObject, EngineChange};
use argus_core::prune::{BuiltImage, freed_bytes, unused_images};
use argus_crds::ByteSize;
use argus_reconciler::reconciler::PersistedState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::preflight::facts::FactCollector;
use crate::engine::{self, engine_failure};
use crate::local_state::status::read_or_default;
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::settings::Settings;

/// Removable images and cache, and the result of the removal.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PruneReport {
    pub(crate) images: Vec<Row>,
    pub(crate) images_bytes: u64,
    pub(crate) build_cache_bytes: u64,
    total_bytes: u64,
    /// True after the removal.
    pub(crate) applied: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) built_as: String,
    pub(crate) created_at: String,
    /// True if the image was removed.
    pub(crate) removed: bool,
    /// Error of the removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// Finds replaced images and measures the build cache. `listed` restricts the images to these ids.
pub(crate) async fn create_report(
    settings: &Settings,
    images_only: bool,
    listed: Option<&[String]>,
) -> Result<PruneReport, Failure> {
    let collector = FactCollector::new(settings).await?;
    let docker = collector.docker();
    let images = docker
        .built_images()
        .await
        .map_err(|error| engine_failure("cannot list the images", &error))?;
    let cache = if images_only {
        0
    } else {
        docker
            .build_cache()
            .await
            .map_err(|error| engine_failure("cannot measure the build cache", &error))?
            .saturating_sub(kept_cache(settings))
    };
    let (wanted, known) = list_used_images(&collector, settings).await?;
    let mut unused = unused_images(&images, &wanted);
    // An unreadable spec may use any tagged image, so only untagged images are removed.
    unused.retain(|image| known || image.tags.is_empty());
    retain_listed(&mut unused, listed);
    let freed = freed_bytes(&images, &unused);
    Ok(PruneReport {
        images: unused.into_iter().map(create_row).collect(),
        images_bytes: freed,
        build_cache_bytes: cache,
        total_bytes: freed.saturating_add(cache),
        applied: false,
    })
}

/// Keeps the images that a person has seen in a list.
fn retain_listed(unused: &mut Vec<&BuiltImage>, listed: Option<&[String]>) {
    unused.retain(|image| listed.is_none_or(|listed| listed.contains(&image.id)));
}

/// Removes the images and the build cache of a report, records the results in it, and passes each change to `record`.
pub(super) async fn remove_images(
    settings: &Settings,
    images_only: bool,
    found: &mut PruneReport,
    mut record: impl FnMut(EngineChange),
) -> Result<(), Failure> {
    let docker = engine::connect_docker(settings).await?;
    // Newest first, because layers are removed together with the last image that contains them.
    for row in &mut found.images {
        row.message = docker
            .remove_image(&row.id)
            .await
            .err()
            .map(|error| error.to_string());
        row.removed = row.message.is_none();
        record(EngineChange::removed(ChangedObject::Image, &row.id).failed(!row.removed));
    }
    if !images_only {
        let pruned = docker.prune_build_cache(kept_cache(settings)).await;
        let change = EngineChange::removed(ChangedObject::BuildCache, "unused build cache");
        record(change.failed(pruned.is_err()));
        found.build_cache_bytes =
            pruned.map_err(|error| engine_failure("cannot remove the build cache", &error))?;
    }
    found.applied = true;
    Ok(())
}

/// Bytes of the build cache that stay.
fn kept_cache(settings: &Settings) -> u64 {
    settings.build_cache_limit.map_or(0, ByteSize::bytes)
}

/// References of all images that the desired state and the overrides use. The flag is true if the specs are readable.
pub(crate) async fn list_used_images(
    collector: &FactCollector,
    settings: &Settings,
) -> Result<(BTreeSet<String>, bool), Failure> {
    let path = settings.state.state_json();
    let persisted: PersistedState = blocking_io::read(move || Ok(read_or_default(&path))).await?;
    let desired = collector.read_desired().await;
    let known = desired.is_ok();
    let wanted = persisted.overrides.used_images(&desired.unwrap_or_default());
    Ok((wanted, known))
}

pub(crate) fn create_row(image: &BuiltImage) -> Row {
    Row {
        id: image.id.clone(),
        built_as: image.built_as.clone(),
        created_at: image.created_at.to_string(),
        removed: false,
        message: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_core::time::Timestamp;

    use super::*;

    #[test]
    fn only_listed_images_are_removed() {
        let image = |id: &str| BuiltImage {
            id: id.to_owned(),
            built_as: "shop:argus".to_owned(),
            tags: Vec::new(),
            created_at: Timestamp(1),
            used: false,
            tagged_at: None,
            layer_sizes: BTreeMap::new(),
        };
        let all = [image("a"), image("b")];
        let left = |listed: Option<&[String]>| {
            let mut unused: Vec<&BuiltImage> = all.iter().collect();
            retain_listed(&mut unused, listed);
            unused.iter().map(|image| image.id.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(left(None), ["a", "b"]);
        assert_eq!(left(Some(&["b".to_owned(), "c".to_owned()])), ["b"]);
        assert_eq!(left(Some(&[])), [""; 0]);
    }
}
