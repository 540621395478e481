//! Tag and labels of a built image.
//!
//! An image inherits the labels of the image that it is based on. The last step in the history of an image shows which labels are its own.
//! A builder adds the labels of a request without a step. So the last instruction of the Dockerfile adds those of Argus, where `BuildKit`
//! gets the Dockerfile apart from the context; otherwise the classic builder adds them in a second build of one line.

use std::io;

use argus_core::desired::Build;
use argus_core::labels::BUILD_DIGEST;
use argus_core::outcome::{ActionError, Done};
use bollard::models::ImageHistoryResponseItem;
use bollard::query_parameters::{BuildImageOptions, BuilderVersion, TagImageOptionsBuilder};
use bytes::Bytes;
use futures::StreamExt as _;

use super::{BUILD_LABELS, BUILD_TAG, Log, classify, context_error};
use crate::Shared;
use crate::call;
use crate::error::{Op, build_interrupted};
use crate::ownership::check_reference;

const DOCKERFILE: &str = "Dockerfile";

/// Labels of Argus.
pub(super) fn own_labels(build: &Build) -> [(String, String); 2] {
    [
        (BUILD_DIGEST.to_owned(), build.digest.to_string()),
        (BUILD_TAG.to_owned(), build.tag.clone()),
    ]
}

/// Instruction that adds all labels in one step. Neither a digest nor a tag contains a quote or a dollar sign.
pub(super) fn instruction(build: &Build) -> String {
    let labels = own_labels(build).map(|(name, value)| format!("{name}=\"{value}\""));
    format!("LABEL {}", labels.join(" "))
}

/// Tags a built image, and labels it if its last step did not.
pub(super) async fn add(shared: &Shared, build: &Build, image: &str) -> Result<Done, ActionError> {
    let history = history(shared, image).await?.unwrap_or_default();
    let digest = format!("{BUILD_DIGEST}={}", build.digest);
    let is_labelled = history
        .first()
        .is_some_and(|step| step.created_by.contains(&digest));
    if is_labelled || has_triggers(shared, image).await? {
        return tag(shared, build, image).await;
    }
    let client = shared.connection.client()?;
    let options = BuildImageOptions {
        dockerfile: DOCKERFILE.to_owned(),
        t: Some(build.tag.clone()),
        forcerm: true,
        version: BuilderVersion::BuilderV1,
        ..BuildImageOptions::default()
    };
    let context = pack(image, build).map_err(|why| context_error(&build.context, &why))?;
    let mut responses = client.build_image(options, None, Some(bollard::body_full(context)));
    loop {
        match tokio::time::timeout(shared.progress_timeout, responses.next()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(failure))) => return Err(classify(&failure, build, &Log::default())),
            Ok(None) => return Ok(Done::Applied),
            Err(_) => {
                let message = "no response to the labels of the image".to_owned();
                return Err(build_interrupted(message));
            }
        }
    }
}

/// Returns whether an image has `ONBUILD` instructions. An image that is based on it does not have them.
async fn has_triggers(shared: &Shared, image: &str) -> Result<bool, ActionError> {
    let client = shared.connection.client()?;
    let inspected = call::run(Op::Inspect, shared.times.read, client.inspect_image(image)).await?;
    let triggers = inspected.config.and_then(|config| config.on_build);
    Ok(triggers.is_some_and(|triggers| !triggers.is_empty()))
}

/// Returns whether the labels of an image are its own, and not those of the image that it is based on.
pub(crate) async fn is_own(shared: &Shared, image: &str) -> Result<bool, ActionError> {
    let history = history(shared, image).await?.unwrap_or_default();
    Ok(is_ours(&history) || has_triggers(shared, image).await?)
}

/// True when the last step writes our labels.
pub(crate) fn is_ours(history: &[ImageHistoryResponseItem]) -> bool {
    history.first().is_some_and(writes_our_label)
}

/// True for a step that writes a label of Argus.
pub(crate) fn writes_our_label(step: &ImageHistoryResponseItem) -> bool {
    step.created_by.contains("LABEL") && step.created_by.contains(BUILD_LABELS)
}

/// Steps of an image, the last one first; `None` when the engine does not have it.
pub(crate) async fn history(
    shared: &Shared,
    image: &str,
) -> Result<Option<Vec<ImageHistoryResponseItem>>, ActionError> {
    check_reference(image)?;
    let client = shared.connection.client()?;
    let call = client.image_history(image);
    call::run_accepting(Op::Inspect, shared.times.read, call, |error| {
        error.has_status(404)
    })
    .await
}

/// Tags an image that needs no second build. The triggers of `ONBUILD` would run in it.
async fn tag(shared: &Shared, build: &Build, image: &str) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    // The part after the last colon is a tag, unless it is the port of a registry.
    let (repository, tag) = match build.tag.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        Some(_) | None => (build.tag.as_str(), "latest"),
    };
    let options = TagImageOptionsBuilder::default()
        .repo(repository)
        .tag(tag)
        .build();
    let tagged = client.tag_image(image, Some(options));
    call::run(Op::Build, shared.times.write, tagged).await?;
    Ok(Done::Applied)
}

/// A context with a Dockerfile that adds the labels.
fn pack(image: &str, build: &Build) -> io::Result<Bytes> {
    let text = format!("FROM {image}\n{}\n", instruction(build));
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, DOCKERFILE, text.as_bytes())?;
    archive.into_inner().map(Bytes::from)
}
