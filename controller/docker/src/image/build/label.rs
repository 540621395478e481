//! Tag and labels of a built image.
//!
//! An image inherits the labels of the image that it is based on. The last step in the history of an image shows which labels are its own.
//! `BuildKit` adds labels without a step, so the classic builder adds those of Argus in a second build of one line.

use std::collections::HashMap;
use std::io;

use argus_core::desired::Build;
use argus_core::outcome::{ActionError, Done};
use bollard::query_parameters::{BuildImageOptions, BuilderVersion, TagImageOptionsBuilder};
use bytes::Bytes;
use futures::StreamExt as _;

use super::{BUILD_DIGEST, BUILD_TAG, Log, classify, context_error};
use crate::Shared;
use crate::call::{self, READ_TIMEOUT, WRITE_TIMEOUT};
use crate::error::Op;

const DOCKERFILE: &str = "Dockerfile";

/// Labels of Argus.
pub(super) fn own_labels(build: &Build) -> HashMap<String, String> {
    [
        (BUILD_DIGEST.to_owned(), build.digest.to_string()),
        (BUILD_TAG.to_owned(), build.tag.clone()),
    ]
    .into()
}

/// Tags and labels a built image.
pub(super) async fn add(shared: &Shared, build: &Build, image: &str) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    let inspect = client.inspect_image(image);
    let inspected = call::run(Op::Inspect, READ_TIMEOUT, inspect).await?;
    let triggers = inspected.config.and_then(|config| config.on_build);
    if triggers.is_some_and(|triggers| !triggers.is_empty()) {
        return tag(shared, build, image).await;
    }
    let options = BuildImageOptions {
        dockerfile: DOCKERFILE.to_owned(),
        t: Some(build.tag.clone()),
        forcerm: true,
        labels: Some(own_labels(build)),
        version: BuilderVersion::BuilderV1,
        ..BuildImageOptions::default()
    };
    let context = pack(image).map_err(|why| context_error(&build.context, &why))?;
    let mut responses = client.build_image(options, None, Some(bollard::body_full(context)));
    loop {
        match tokio::time::timeout(shared.progress_timeout, responses.next()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(failure))) => return Err(classify(&failure, build, &Log::default())),
            Ok(None) => return Ok(Done::Applied),
            Err(_) => {
                return Err(ActionError::BuildInterrupted {
                    message: "no response to the labels of the image".to_owned(),
                    log: String::new(),
                });
            }
        }
    }
}

/// Tags an image with `ONBUILD` instructions, which a second build would run. It has the labels, but no step for them.
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
    call::run(Op::Build, WRITE_TIMEOUT, tagged).await?;
    Ok(Done::Applied)
}

/// A context with a Dockerfile of one line.
fn pack(image: &str) -> io::Result<Bytes> {
    let text = format!("FROM {image}\n");
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, DOCKERFILE, text.as_bytes())?;
    archive.into_inner().map(Bytes::from)
}
