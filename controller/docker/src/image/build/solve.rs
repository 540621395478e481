//! A build by `BuildKit`: its request, its reports, and its session. The engine passes both connections to its `BuildKit`.
//!
//! The request for builds in the API of the engine has no named folders and no target of a cache. This is the call that it makes itself.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::time::Duration;

use argus_backend::http1::format_chain;
use argus_core::desired::{Build, CacheTarget, NamedContext, short_reference};
use bollard::errors::Error;
use bollard::models::{BuildInfo, BuildInfoAux, ImageId};
use bollard_buildkit_proto::moby::buildkit::v1::control_client::ControlClient;
use bollard_buildkit_proto::moby::buildkit::v1::{
    CacheOptions, CacheOptionsEntry, SolveRequest, StatusRequest,
};
use futures::FutureExt as _;
use futures::future::{Either, select};
use tokio::sync::mpsc;
use tonic::Status;

use super::control::{self, Calls};
use super::definition;
use super::label::own_labels;
use super::request::{self, Report};
use super::session::Session;
use crate::connect::{Endpoint, upgrade};

/// Maximum time for the last reports of a build that has ended.
const LAST_REPORTS: Duration = Duration::from_secs(3);
/// Key of the image in the response.
const IMAGE: &str = "containerimage.digest";
/// Feature of the frontend that named contexts need. A frontend that does not have it refuses the build.
const NAMED_CONTEXTS: &str = "moby.buildkit.frontend.contexts";

/// Inputs of a build.
pub(super) struct Uploads {
    /// URL of the context.
    pub(super) context: String,
    /// Dockerfile that replaces the one of the context.
    pub(super) dockerfile: Option<String>,
    /// URLs of the named folders.
    pub(super) named: BTreeMap<String, String>,
}

/// Returns the request of a build, whose image gets no tag.
pub(super) fn request(build: &Build, dockerfile: &str, session: &str, uploads: &Uploads) -> SolveRequest {
    let options = &build.options;
    let (mut attributes, mut inputs) = (HashMap::new(), HashMap::new());
    let mut add = |key: &str, value: &str| attributes.insert(key.to_owned(), value.to_owned());
    if let Some(text) = &uploads.dockerfile {
        let name = dockerfile.rsplit('/').next().unwrap_or(dockerfile);
        add("filename", name);
        inputs.insert("dockerfile".to_owned(), definition::of_file(name, text));
        let context = definition::of_folder("context", uploads.context.clone());
        inputs.insert("context".to_owned(), context);
    } else {
        add("filename", dockerfile);
        add("context", &uploads.context);
    }
    for (name, value) in &build.args {
        add(&format!("build-arg:{name}"), value);
    }
    // The labels of Argus also identify the image of an interrupted build.
    for (name, value) in options.labels.clone().into_iter().chain(own_labels(build)) {
        add(&format!("label:{name}"), &value);
    }
    for (key, value) in [("target", &build.target), ("platform", &options.platform)] {
        if let Some(value) = value {
            add(key, value);
        }
    }
    // The frontend reads the caches, not the caller of it.
    if !options.cache_from.is_empty() {
        add("cache-from", &options.cache_from.join(","));
    }
    if options.network.as_deref() == Some("none") {
        add("force-network-mode", "none");
    }
    if !options.contexts.is_empty() {
        add("frontend.caps", &format!("{NAMED_CONTEXTS}+forward"));
    }
    for (name, context) in &options.contexts {
        // The context and the Dockerfile are inputs too.
        let input = format!("named:{name}");
        let value = match context {
            NamedContext::Image(reference) => format!("docker-image://{reference}"),
            NamedContext::Folder { .. } => format!("input:{input}"),
        };
        add(&format!("context:{}", short_reference(name)), &value);
        if let Some(url) = uploads.named.get(name) {
            inputs.insert(input, definition::of_folder(name, url.clone()));
        }
    }
    SolveRequest {
        r#ref: session.to_owned(),
        exporter_deprecated: "moby".to_owned(),
        session: session.to_owned(),
        frontend: "dockerfile.v0".to_owned(),
        frontend_attrs: attributes,
        frontend_inputs: inputs,
        cache: Some(cache(build)),
        ..SolveRequest::default()
    }
}

fn cache(build: &Build) -> CacheOptions {
    let export = |to: &CacheTarget| {
        let reference = ("ref".to_owned(), to.reference.clone());
        let mode = to.all_stages.then(|| ("mode".to_owned(), "max".to_owned()));
        CacheOptionsEntry {
            r#type: "registry".to_owned(),
            attrs: std::iter::once(reference).chain(mode).collect(),
        }
    };
    CacheOptions {
        exports: build.options.cache_to.iter().map(export).collect(),
        ..CacheOptions::default()
    }
}

/// Starts a build. The end of the receiver cancels it.
pub(super) fn send(endpoint: Endpoint, request: SolveRequest, session: Session) -> mpsc::Receiver<Report> {
    request::run(async move |reports| {
        if let Err(error) = Box::pin(solve(&endpoint, request, session, &reports)).await {
            drop(reports.send(Err(error)).await);
        }
    })
}

async fn solve(
    endpoint: &Endpoint,
    request: SolveRequest,
    session: Session,
    reports: &mpsc::Sender<Report>,
) -> Result<(), Error> {
    let connection = upgrade(endpoint, "/session", &session.headers()).await?;
    let serving = session.serve(connection);
    let (control, connection) = control::connect(endpoint).await?;
    // Both connections make progress only while they are polled. Their end is not that of the build, whose call then fails.
    let connections = async {
        futures::join!(serving.map(drop), connection);
        std::future::pending::<()>().await;
    };
    match select(pin!(follow(control, request, reports)), pin!(connections)).await {
        Either::Left((solved, _)) => solved,
        Either::Right(((), solving)) => solving.await,
    }
}

/// Builds, and forwards the reports until the end, then the image.
async fn follow(
    mut control: ControlClient<Calls>,
    request: SolveRequest,
    reports: &mpsc::Sender<Report>,
) -> Result<(), Error> {
    let mut watch = control.clone();
    let status = StatusRequest {
        r#ref: request.r#ref.clone(),
    };
    let watching = pin!(async {
        // The result of the build decides; its reports are only its log.
        let Ok(stream) = watch.status(status).await else {
            return;
        };
        let mut stream = stream.into_inner();
        while let Ok(Some(report)) = stream.message().await {
            let info = info(BuildInfoAux::BuildKit(report));
            if reports.send(Ok(info)).await.is_err() {
                return;
            }
        }
    });
    let solving = pin!(control.solve(request));
    let solved = match select(watching, solving).await {
        Either::Left(((), solving)) => solving.await,
        Either::Right((solved, watching)) => {
            drop(tokio::time::timeout(LAST_REPORTS, watching).await);
            solved
        }
    };
    let mut response = solved.map_err(|status| explain(&status))?.into_inner();
    let id = response.exporter_response.remove(IMAGE);
    let image = info(BuildInfoAux::Default(ImageId { id }));
    drop(reports.send(Ok(image)).await);
    Ok(())
}

fn info(aux: BuildInfoAux) -> BuildInfo {
    BuildInfo {
        aux: Some(aux),
        ..BuildInfo::default()
    }
}

/// Error of the engine, or of the connection to it.
pub(super) fn explain(status: &Status) -> Error {
    if let Some(source) = status.source() {
        return Error::IOError {
            err: io::Error::other(format_chain(source)),
        };
    }
    let message = status.message();
    let error = if message.contains("unsupported frontend capability") && message.contains(NAMED_CONTEXTS) {
        "`build.additionalContexts` needs a newer BuildKit than that of this engine: Docker 23 or later"
            .to_owned()
    } else if message.contains("unknown cache exporter") {
        format!("`build.cacheTo` needs an engine with the containerd image store: {message}")
    } else {
        message.to_owned()
    };
    Error::DockerStreamError { error }
}

#[cfg(test)]
mod tests {
    use argus_core::desired::BuildOptions;
    use argus_core::desired::excluded::Excluded;
    use argus_core::ident::Hash;

    use super::*;

    fn build(options: BuildOptions) -> Build {
        Build {
            tag: "web:1".to_owned(),
            context: "/work".to_owned(),
            dockerfile: "Dockerfile".to_owned(),
            target: Some("prod".to_owned()),
            args: [("A".to_owned(), "1".to_owned())].into(),
            digest: Hash::new("1").unwrap(),
            options: Box::new(options),
            excluded: Excluded::default(),
            allowed: false,
        }
    }

    #[test]
    fn request_has_all_settings_and_no_value_of_a_secret() {
        let options = BuildOptions {
            network: Some("none".to_owned()),
            contexts: [
                (
                    "libs".to_owned(),
                    NamedContext::Folder {
                        path: "/libs".to_owned(),
                        excluded: Excluded::default(),
                    },
                ),
                (
                    "docker.io/library/base:latest".to_owned(),
                    NamedContext::Image("alpine:3".to_owned()),
                ),
            ]
            .into(),
            cache_from: vec!["host/cache".to_owned()],
            cache_to: vec![CacheTarget {
                reference: "host/cache".to_owned(),
                all_stages: true,
            }],
            ..BuildOptions::default()
        };
        let uploads = Uploads {
            context: "http://buildkit-session/s/context".to_owned(),
            dockerfile: None,
            named: [("libs".to_owned(), "http://buildkit-session/s/0".to_owned())].into(),
        };
        let request = request(&build(options), "Dockerfile", "s", &uploads);
        for (key, value) in [
            ("context", "http://buildkit-session/s/context"),
            ("build-arg:A", "1"),
            ("target", "prod"),
            ("label:argusai.build-tag", "web:1"),
            ("force-network-mode", "none"),
            ("cache-from", "host/cache"),
            ("context:libs", "input:named:libs"),
            ("context:base", "docker-image://alpine:3"),
            ("frontend.caps", "moby.buildkit.frontend.contexts+forward"),
        ] {
            let found = request.frontend_attrs.get(key).map(String::as_str);
            assert_eq!(found, Some(value), "{key}");
        }
        assert!(request.frontend_inputs.contains_key("named:libs"));
        let cache = request.cache.unwrap();
        assert_eq!(cache.exports[0].attrs["mode"], "max");
    }

    #[test]
    fn replaced_dockerfile_is_an_input_next_to_the_context() {
        let uploads = Uploads {
            context: "http://buildkit-session/s/context".to_owned(),
            dockerfile: Some("FROM scratch\n".to_owned()),
            named: BTreeMap::new(),
        };
        let request = request(
            &build(BuildOptions::default()),
            "docker/web.Dockerfile",
            "s",
            &uploads,
        );
        assert_eq!(request.frontend_attrs.get("context"), None);
        assert_eq!(request.frontend_attrs["filename"], "web.Dockerfile");
        let mut inputs: Vec<&str> = request.frontend_inputs.keys().map(String::as_str).collect();
        inputs.sort_unstable();
        assert_eq!(inputs, ["context", "dockerfile"]);
    }

    #[test]
    fn missing_capability_is_named_with_its_key() {
        for (message, expected) in [
            (
                "unsupported frontend capability moby.buildkit.frontend.contexts",
                "`build.additionalContexts` needs a newer BuildKit",
            ),
            ("unknown cache exporter: \"registry\"", "containerd image store"),
            ("exit code: 3", "exit code: 3"),
        ] {
            match explain(&Status::unknown(message)) {
                Error::DockerStreamError { error } => assert!(error.contains(expected), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
