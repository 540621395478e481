//! An image build: by `BuildKit` in the engine, or by the classic builder of an engine without it. Folders are packed into tars while they
//! are sent.

mod buildkit;
pub(crate) mod control;
mod definition;
pub(crate) mod label;
mod log;
mod packing;
mod place;
mod proxies;
mod request;
mod secret_values;
mod session;
mod solve;

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::path::Path;
use std::sync::Mutex;

use argus_backend::Progress;
use argus_core::desired::{Build, NamedContext, is_reserved_tag, short_reference, substitute_tag};
use argus_core::dockerfile::{self, RefusedSource};
use argus_core::labels::BUILD_DIGEST;
use argus_core::outcome::{ActionError, Done};
use bollard::errors::Error;
use bollard::models::BuildInfoAux;
use futures::StreamExt as _;
use tokio::sync::mpsc;

use self::log::Log;
use self::packing::Packing;
use self::secret_values::SecretValues;
use self::session::Session;
use super::context::{self, Context};
use super::credentials;
use crate::Shared;
use crate::error::{self, Op, build_failed, build_interrupted};
use crate::ownership::inspect_image;

/// Common prefix of the labels of a build.
pub(crate) const BUILD_LABELS: &str = "argusai.build-";
/// Label with the tag that the image was built with. The tag itself moves to the next build; the label stays.
pub(crate) const BUILD_TAG: &str = "argusai.build-tag";

/// Builds an image and tags it. If the tag names an image that Argus did not build, the new image gets the substitute for the tag.
pub(crate) async fn build(
    shared: &Shared,
    build: &Build,
    progress: &dyn Progress,
) -> Result<Done, ActionError> {
    let mut build = build.clone();
    build.tag = find_tag(shared, &build.tag).await?;
    let endpoint = shared.connection.endpoint().to_string();
    proxies::add(&mut build.args, &credentials::config(), &endpoint, build.allowed);
    let build = &build;
    let mut steps = buildkit::is_available(shared)
        .await?
        .then(buildkit::Steps::default);
    if let (None, Some(key)) = (&steps, build.options.buildkit_key()) {
        return Err(ActionError::Rejected(format!(
            "`build.{key}` needs BuildKit, which this engine does not have"
        )));
    }
    let owned = build.clone();
    let opening = tokio::task::spawn_blocking(move || open(&owned));
    let (opened, found) = tokio::join!(opening, credentials::all());
    let opened = opened.map_err(|why| context_error(&build.context, &io::Error::other(why)))??;
    let mut log = Log {
        secrets: opened.secrets.redactions(build),
        ..Log::default()
    };
    let mut packing = Packings::default();
    let mut responses = start(shared, build, opened, &found, steps.is_some(), &mut packing)?;
    let mut image = None;
    loop {
        let before = packing.sent();
        match tokio::time::timeout(shared.progress_timeout, responses.recv()).await {
            Ok(Some(Ok(info))) => {
                for text in [info.stream, info.status].into_iter().flatten() {
                    log.append(&text, progress);
                }
                match (&mut steps, info.aux) {
                    (Some(steps), Some(BuildInfoAux::BuildKit(report))) => {
                        steps.add(report, &mut log, progress);
                    }
                    (_, Some(BuildInfoAux::Default(found))) => image = found.id,
                    (_, _) => {}
                }
            }
            Ok(Some(Err(failure))) => {
                if let Some(error) = packing.failure().await {
                    return Err(error);
                }
                let error = found.explain(classify(&failure, build, &log));
                return Err(place::find(error, build, &log).await);
            }
            Ok(None) => break,
            // Sending a large context counts as progress.
            Err(_) if packing.sent() > before => {}
            Err(_) => {
                let message = format!("no progress for {} s", shared.progress_timeout.as_secs());
                return Err(log.complete(build_interrupted(message)));
            }
        }
    }
    match image {
        Some(image) => label::add(shared, build, &image).await,
        None => Err(log.complete(build_interrupted("the engine reported no image".to_owned()))),
    }
}

/// Starts a build, and the packers of its folders.
fn start(
    shared: &Shared,
    build: &Build,
    opened: Opened,
    found: &credentials::Found,
    has_buildkit: bool,
    packing: &mut Packings,
) -> Result<mpsc::Receiver<request::Report>, ActionError> {
    let dockerfile = opened.context.dockerfile.clone();
    let context = packing.add(&build.context, opened.context);
    if !has_buildkit {
        let options = request::options(build, &dockerfile);
        let client = shared.connection.new_client()?;
        return Ok(request::send(client, options, found.by_registry.clone(), context));
    }
    let mut session = Session {
        name: request::session_name(shared, build),
        credentials: found.by_host(),
        secrets: opened.secrets.by_id,
        agent: opened.secrets.agent,
        uploads: Mutex::default(),
    };
    let mut uploads = solve::Uploads {
        context: session.add_upload("context", context.boxed()),
        dockerfile: opened.labelled,
        named: BTreeMap::new(),
    };
    for (at, (name, path, folder)) in opened.named.into_iter().enumerate() {
        let packed = packing.add(&path, folder);
        let url = session.add_upload(&at.to_string(), packed.boxed());
        uploads.named.insert(name, url);
    }
    let request = solve::request(build, &dockerfile, &session.name, &uploads);
    let endpoint = shared.connection.endpoint().clone();
    Ok(solve::send(endpoint, request, session))
}

/// Inputs of a build on the host.
struct Opened {
    context: Context,
    /// Dockerfile that ends with the labels of Argus; `None` where they cannot be added at its end.
    labelled: Option<String>,
    /// Named folders with their paths.
    named: Vec<(String, String, Context)>,
    secrets: SecretValues,
}

/// Opens the folders of a build, and reads its secrets.
fn open(build: &Build) -> Result<Opened, ActionError> {
    let failed = |path: &str, why: io::Error| context_error(path, &why);
    let context = Context::open(
        Path::new(&build.context),
        &build.dockerfile,
        build.options.inline.as_deref(),
        &build.excluded,
    );
    let mut context = context.map_err(|why| failed(&build.context, why))?;
    if !build.allowed {
        let dockerfile = context
            .hold_dockerfile()
            .map_err(|why| failed(&build.context, why))?;
        check_sources(dockerfile, build)?;
    }
    // This argument selects a frontend as a `# syntax` line does.
    let has_frontend = build.args.contains_key("BUILDKIT_SYNTAX");
    let own = context.hold_dockerfile().ok().filter(|_| !has_frontend);
    let labelled = own.and_then(|text| {
        dockerfile::with_last_instruction(text, &label::instruction(build), build.target.as_deref())
    });
    let mut named = Vec::new();
    for (name, from) in &build.options.contexts {
        if let NamedContext::Folder { path, excluded } = from {
            let folder = Context::open_named(Path::new(path), excluded);
            let folder = folder.map_err(|why| failed(path, why))?;
            named.push((name.clone(), path.clone(), folder));
        }
    }
    Ok(Opened {
        context,
        labelled,
        named,
        secrets: SecretValues::read(&build.options)?,
    })
}

/// Refuses a Dockerfile with an `ADD` of an address that suites and containers of the project cannot reach: the engine reads it in its own
/// network.
fn check_sources(dockerfile: &str, build: &Build) -> Result<(), ActionError> {
    let Some(refused) = dockerfile::find_refused_source(dockerfile, &build.args) else {
        return Ok(());
    };
    let RefusedSource { instruction, why } = refused;
    Err(ActionError::BuildFailed {
        message: format!(
            "line {} of the Dockerfile {why}, which only an allowed project can do: read a public address, or run `argus allow` and \
restart the controller",
            instruction.line
        ),
        log: String::new(),
        instruction: Some(Box::new(instruction.shortened())),
    })
}

/// The packers of the folders of a build, each with the path of its folder.
#[derive(Default)]
struct Packings(Vec<(String, Packing)>);

impl Packings {
    /// Starts to pack a folder, and returns its tar.
    fn add(
        &mut self,
        path: &str,
        context: Context,
    ) -> impl futures::Stream<Item = io::Result<bytes::Bytes>> + Send + use<> {
        let mut packing = Packing::start(context);
        let packed = packing.stream();
        self.0.push((path.to_owned(), packing));
        packed
    }

    /// Number of bytes that the engine has read.
    fn sent(&self) -> u64 {
        self.0.iter().map(|(_, packing)| packing.sent()).sum()
    }

    /// The error of a folder; `None` if no packer was the cause of a failed request.
    async fn failure(&mut self) -> Option<ActionError> {
        for (path, packing) in &mut self.0 {
            if let Some(why) = packing.failure().await {
                return Some(context_error(path, &why));
            }
        }
        None
    }
}

/// Returns the tag for a build: its own tag, or the substitute. Argus never moves the tag of another image.
async fn find_tag(shared: &Shared, tag: &str) -> Result<String, ActionError> {
    // The file of a person cannot contain a reserved tag.
    let substitute = Some(substitute_tag(tag)).filter(|_| !is_reserved_tag(tag));
    for tag in iter::once(tag.to_owned()).chain(substitute) {
        let labels = inspect_image(shared, &tag).await?;
        if is_available(&tag, labels.as_ref()) && (labels.is_none() || label::is_own(shared, &tag).await?) {
            return Ok(tag);
        }
    }
    Err(ActionError::NameTaken {
        holder: "an image that Argus did not build".to_owned(),
    })
}

/// Returns whether the labels of an image let Argus set its tag: the tag does not exist, or the labels name it. Others can tag a built
/// image.
fn is_available(tag: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    labels.is_none_or(|labels| match labels.get(BUILD_TAG) {
        Some(built_as) => short_reference(built_as) == short_reference(tag),
        // Images of old versions have no label with their tag.
        None => labels.contains_key(BUILD_DIGEST),
    })
}

fn context_error(context: &str, why: &io::Error) -> ActionError {
    build_failed(format!("build context `{context}`: {why}"))
}

fn classify(failure: &Error, build: &Build, log: &Log) -> ActionError {
    let classified = match failure {
        Error::DockerStreamError { error: message } => {
            error::classify_response(Op::Build, 200, &log.redacted(message))
        }
        other => error::classify(Op::Build, other),
    };
    log.complete(match classified {
        ActionError::BuildFailed { message, .. } => build_failed(place::name_target(build, message)),
        // The connection to the engine ended during the build.
        ActionError::ConnectionLost(message) => build_interrupted(message),
        // Not every message contains the host of the registry, and some contain that of its token server.
        ActionError::AuthRequired(message) => ActionError::AuthRequired(match &log.step {
            Some(step) if step.contains("load metadata for ") || !message.contains("://") => {
                format!("{step}: {message}")
            }
            Some(_) | None => message,
        }),
        other => other,
    })
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
