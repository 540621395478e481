//! Reclaimable space on an engine's disk: outdated images that Argus built, and the unused build cache.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::PoisonError;

use argus_core::desired::substitute_tag;
use argus_core::journal::{ChangedObject, EngineChange};
use argus_core::labels::BUILD_DIGEST;
use argus_core::outcome::ActionError;
use argus_core::prune::{BuiltImage, unused_images};
use argus_core::time::Timestamp;
use bollard::models::{ImageHistoryResponseItem, ImageSummary};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};
use hyper::Method;

use crate::Shared;
use crate::call::{self, CallError};
use crate::error::Op;
use crate::image::build::BUILD_TAG;
use crate::image::build::label::{history, is_ours, writes_our_label};
use crate::inspect::convert_time;
use crate::ownership::inspect_image;
use crate::raw_http;

/// Number of replaced and unused builds of a tag that the next build leaves.
const KEPT_BUILDS: usize = 1;

/// All images that Argus built. The label alone is not sufficient, because an image that is based on one of ours inherits
/// it. Only in our own images the last build step writes the label.
pub(crate) async fn list_built_images(shared: &Shared) -> Result<Vec<BuiltImage>, ActionError> {
    list_labelled(shared, BUILD_DIGEST, |_| true).await
}

/// All images that Argus built, that have this label, and whose tag is wanted. The tag is empty in images of old versions.
async fn list_labelled(
    shared: &Shared,
    label: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<BuiltImage>, ActionError> {
    let client = shared.connection.client()?;
    let everything = ListImagesOptionsBuilder::default().all(true).build();
    let labelled = ListImagesOptionsBuilder::default()
        .filters(&HashMap::from([("label", vec![label.to_owned()])]))
        .build();
    let containers = ListContainersOptionsBuilder::default().all(true).build();
    let (everything, labelled, containers) = futures::try_join!(
        call::run(Op::List, shared.times.read, client.list_images(Some(everything))),
        call::run(Op::List, shared.times.read, client.list_images(Some(labelled))),
        call::run(
            Op::List,
            shared.times.read,
            client.list_containers(Some(containers))
        ),
    )?;
    let parents = everything.into_iter().map(|image| image.parent_id);
    let run = containers.into_iter().filter_map(|container| container.image_id);
    let used: BTreeSet<String> = parents.chain(run).collect();
    let mut found = Vec::new();
    for image in labelled {
        if !is_wanted(built_as(&image)) {
            continue;
        }
        if let Some(history) = history(shared, &image.id).await?
            && let Some(built) = read(&image, &history, &used)
        {
            found.push(built);
        }
    }
    // `BuildKit` gives an image the creation time of its newest layer, so builds that differ in their settings only have the same one.
    let mut times: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for image in &found {
        *times.entry(image.created_at).or_default() += 1;
    }
    for image in &mut found {
        if times[&image.created_at] > 1 {
            image.tagged_at = Box::pin(last_tag_time(shared, &image.id)).await?;
        }
    }
    Ok(found)
}

/// Returns the time at which an image got its last tag.
async fn last_tag_time(shared: &Shared, id: &str) -> Result<Option<Timestamp>, ActionError> {
    let client = shared.connection.client()?;
    match call::run_raw(Op::Inspect, shared.times.read, client.inspect_image(id)).await {
        Ok(found) => Ok(convert_time(
            found.metadata.and_then(|metadata| metadata.last_tag_time),
        )),
        Err(error) if error.has_status(404) => Ok(None),
        Err(error) => Err(error.classify(Op::Inspect)),
    }
}

fn read(
    image: &ImageSummary,
    history: &[ImageHistoryResponseItem],
    used: &BTreeSet<String>,
) -> Option<BuiltImage> {
    is_ours(history).then_some(())?;
    let steps = own_steps(history).map(|step| (layer_key(step), u64::try_from(step.size).unwrap_or(0)));
    Some(BuiltImage {
        id: image.id.clone(),
        built_as: built_as(image).to_owned(),
        tags: image
            .repo_tags
            .iter()
            .filter(|tag| *tag != "<none>:<none>")
            .cloned()
            .collect(),
        created_at: Timestamp(image.created.saturating_mul(1000)),
        tagged_at: None,
        used: used.contains(&image.id),
        layer_sizes: steps.collect::<BTreeMap<_, _>>(),
    })
}

/// Tag that an image was built with.
fn built_as(image: &ImageSummary) -> &str {
    image.labels.get(BUILD_TAG).map_or("", String::as_str)
}

/// The steps of a build, without those of its base image. A base image of the classic builder has a tag or was pulled. `BuildKit` does not
/// show where its base image ends, so steps of `BuildKit` in a base image count as well.
fn own_steps(history: &[ImageHistoryResponseItem]) -> impl Iterator<Item = &ImageHistoryResponseItem> {
    let own = |(at, step): &(usize, &ImageHistoryResponseItem)| {
        *at == 0 || is_buildkit(step) || (step.tags.is_empty() && step.id.starts_with("sha256:"))
    };
    history.iter().enumerate().take_while(own).map(|(_, step)| step)
}

fn is_buildkit(step: &ImageHistoryResponseItem) -> bool {
    step.comment.starts_with("buildkit")
}

/// Returns the same text for a layer that several images share.
fn layer_key(step: &ImageHistoryResponseItem) -> String {
    if is_buildkit(step) {
        // These steps have no ids. A step from the build cache keeps its time.
        format!("{} {}", step.created, step.created_by)
    } else {
        step.id.clone()
    }
}

/// Returns true if the image without the last steps, which wrote our labels, is our own build by `BuildKit`.
async fn has_own_parent(shared: &Shared, history: &[ImageHistoryResponseItem]) -> Result<bool, ActionError> {
    let built = history.iter().find(|step| !writes_our_label(step));
    let Some(parent) = built.filter(|step| is_buildkit(step) && step.id.starts_with("sha256:")) else {
        return Ok(false);
    };
    let labels = inspect_image(shared, &parent.id).await?;
    Ok(labels.is_some_and(|labels| labels.contains_key(BUILD_DIGEST)))
}

/// Removes an image by id, together with its intermediate steps when a build on this engine created all of them.
///
/// The removal is not forced: the engine refuses it while a container, a tag or another image uses the image.
pub(crate) async fn remove_image(shared: &Shared, id: &str) -> Result<(), ActionError> {
    let Some(history) = history(shared, id).await? else {
        return Ok(());
    };
    if !is_ours(&history) {
        return Err(ActionError::NotOwned(format!("image `{id}`")));
    }
    let is_classic = |step: &ImageHistoryResponseItem| step.created_by.contains("/bin/sh -c");
    let all_steps = own_steps(&history).all(is_classic) || has_own_parent(shared, &history).await?;
    let client = shared.connection.client()?;
    let options = RemoveImageOptionsBuilder::default()
        .force(false)
        .noprune(!all_steps)
        .build();
    let call = client.remove_image(id, Some(options), None);
    match call::run_raw(Op::RemoveImage, shared.times.write, call).await {
        Ok(_) => Ok(()),
        Err(error) if error.has_status(404) => Ok(()),
        Err(CallError::Response(409, why)) => Err(ActionError::Busy(why)),
        Err(error) => Err(error.classify(Op::RemoveImage)),
    }
}

/// Bounds what builds of these tags leave: replaced builds that nothing needs, and the build cache if it has a limit.
///
/// A failure is only logged, because the images are complete. The next build tries again.
pub(crate) async fn limit(shared: &Shared, tags: &BTreeSet<String>) {
    if let Err(error) = remove_replaced(shared, tags).await {
        tracing::warn!(?tags, %error, "cannot remove replaced builds");
    }
    let Some(keep) = shared.build_cache_limit else {
        return;
    };
    let pruned = prune_build_cache(shared, keep).await;
    if !matches!(pruned, Ok(0)) {
        let change = EngineChange::removed(ChangedObject::BuildCache, "unused build cache");
        shared.record_change(change.failed(pruned.is_err()));
    }
    if let Err(error) = pruned {
        tracing::warn!(%error, "cannot limit the build cache");
    }
}

async fn remove_replaced(shared: &Shared, tags: &BTreeSet<String>) -> Result<(), ActionError> {
    let is_wanted = |built_as: &str| {
        let mut tags = tags.iter();
        tags.any(|tag| tag == built_as || substitute_tag(tag) == built_as)
    };
    let images = list_labelled(shared, BUILD_TAG, is_wanted).await?;
    let kept = shared.kept_images.lock();
    let kept = kept.unwrap_or_else(PoisonError::into_inner).clone();
    for image in find_replaced(&images, &kept) {
        let removed = remove_image(shared, &image.id).await;
        let change = EngineChange::removed(ChangedObject::Image, &image.id);
        shared.record_change(change.failed(removed.is_err()));
        match removed {
            // A container uses it since the list.
            Ok(()) | Err(ActionError::Busy(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Replaced and unused builds, without the newest of each tag. `kept` are the references and ids of images that a rollback needs.
fn find_replaced<'a>(images: &'a [BuiltImage], kept: &BTreeSet<String>) -> Vec<&'a BuiltImage> {
    let mut unused = unused_images(images, kept);
    unused.sort_by_key(|image| Reverse((image.created_at, image.tagged_at)));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    unused.retain(|image| {
        let count = counts.entry(image.built_as.as_str()).or_default();
        *count += 1;
        *count > KEPT_BUILDS
    });
    unused
}

/// Removes the unused build cache beyond `keep` bytes, and returns the freed bytes. The name of the limit depends on the version of the
/// engine.
pub(crate) async fn prune_build_cache(shared: &Shared, keep: u64) -> Result<u64, ActionError> {
    let path = format!("/build/prune?all=true&keep-storage={keep}&reserved-space={keep}");
    let endpoint = shared.connection.endpoint();
    let pruning = raw_http::call(endpoint, Method::POST, &path);
    let pruned = tokio::time::timeout(shared.times.write, pruning).await;
    let pruned = pruned.map_err(|_| {
        ActionError::Unknown(format!("no answer within {} s", shared.times.write.as_secs()))
    })??;
    Ok(pruned["SpaceReclaimed"].as_u64().unwrap_or(0))
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
