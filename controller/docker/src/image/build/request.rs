//! The requests of builds. A build has a runtime of its own, whose end closes all its connections: neither the client nor the engine closes
//! a session first.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use argus_core::desired::Build;
use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::BuildInfo;
use bollard::query_parameters::{BuildImageOptions, BuilderVersion};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::runtime;
use tokio::sync::mpsc;

use super::label::own_labels;
use crate::Shared;

/// Part of the response to a build.
pub(super) type Report = Result<BuildInfo, Error>;

/// Options of a request to the classic builder that builds the image, without a tag.
pub(super) fn options(build: &Build, dockerfile: &str) -> BuildImageOptions {
    let settings = &build.options;
    // The labels of Argus also identify the image of an interrupted build.
    let labels = settings.labels.clone().into_iter().chain(own_labels(build));
    BuildImageOptions {
        dockerfile: dockerfile.to_owned(),
        forcerm: true,
        buildargs: Some(build.args.clone().into_iter().collect()),
        target: build.target.clone().unwrap_or_default(),
        platform: settings.platform.clone().unwrap_or_default(),
        networkmode: settings.network.clone(),
        cachefrom: Some(settings.cache_from.clone()).filter(|images| !images.is_empty()),
        labels: Some(labels.collect()),
        version: BuilderVersion::BuilderV1,
        ..BuildImageOptions::default()
    }
}

/// Name of a new session, which is unique on the engine.
pub(super) fn session_name(shared: &Shared, build: &Build) -> String {
    // Builds with the same digest can start at the same time.
    static BUILDS: AtomicU64 = AtomicU64::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let (process, now) = (std::process::id(), (shared.now)().0);
    format!("argus-{}-{process}-{now}-{number}", build.digest)
}

/// Starts a build by the classic builder. The end of the receiver cancels it. `client` must be new, because its connections end with the
/// build.
pub(super) fn send(
    client: Docker,
    options: BuildImageOptions,
    credentials: HashMap<String, DockerCredentials>,
    context: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> mpsc::Receiver<Report> {
    run(async move |reports| {
        let body = bollard::body_try_stream(context);
        let mut responses = pin!(client.build_image(options, Some(credentials), Some(body)));
        while let Some(response) = responses.next().await {
            if reports.send(response).await.is_err() {
                break;
            }
        }
    })
}

/// Runs a build, or another call to `BuildKit`, on a runtime of its own until it ends, or until its receiver does.
pub(super) fn run<T: Send + 'static>(
    build: impl AsyncFnOnce(mpsc::Sender<Result<T, Error>>) + Send + 'static,
) -> mpsc::Receiver<Result<T, Error>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(err) => return drop(sender.blocking_send(Err(Error::IOError { err }))),
        };
        runtime.block_on(async {
            tokio::select! {
                () = build(sender.clone()) => {}
                () = sender.closed() => {}
            }
        });
    });
    receiver
}
