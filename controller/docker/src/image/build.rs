//! An image build: by `BuildKit` in the engine, or by the classic builder of an engine without it. The build context is packed into a tar
//! while it is sent.

mod buildkit;
pub(crate) mod label;
mod place;
mod request;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use argus_backend::Progress;
use argus_core::action::{ActionProgress, Amount};
use argus_core::desired::{Build, substitute_tag};
use argus_core::labels::BUILD_DIGEST;
use argus_core::outcome::{ActionError, Done};
use bollard::errors::Error;
use bollard::models::BuildInfoAux;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::context::{self, Context};
use super::credentials;
use crate::Shared;
use crate::error::{self, Op};
use crate::ownership::inspect_image;

/// Common prefix of the labels of a build.
pub(crate) const BUILD_LABELS: &str = "argusai.build-";
/// Label with the tag that the image was built with. The tag itself moves to the next build; the label stays.
pub(crate) const BUILD_TAG: &str = "argusai.build-tag";

/// Prefix of the tags that Argus reserves.
const RESERVED: &str = "argus/";
/// Number of log lines that the error of a failed build contains.
const MAX_LOG_LINES: usize = 50;
/// Message of a program that found the disk full.
const DISK_FULL: &str = "no space left on device";
/// Size of a chunk in bytes, large enough that headers do not each become a chunk.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks (half a megabyte) that may wait for the engine; then the packer blocks.
const MAX_WAITING_CHUNKS: usize = 8;
/// Maximum time for a packer to end after its request has failed. A packer that runs longer was not the cause.
const PACKER_TIMEOUT: Duration = Duration::from_secs(1);

/// Builds an image and tags it. If the tag names an image that Argus did not build, the new image gets the substitute for the tag.
pub(crate) async fn build(
    shared: &Shared,
    build: &Build,
    progress: &dyn Progress,
) -> Result<Done, ActionError> {
    let build = &Build {
        tag: find_tag(shared, &build.tag).await?,
        ..build.clone()
    };
    let mut steps = buildkit::is_available(shared)
        .await?
        .then(buildkit::Steps::default);
    let (root, dockerfile) = (PathBuf::from(&build.context), build.dockerfile.clone());
    let (inline, excluded) = (build.options.inline.clone(), build.excluded.clone());
    let opening =
        tokio::task::spawn_blocking(move || Context::open(&root, &dockerfile, inline.as_deref(), &excluded));
    let (opened, found) = tokio::join!(opening, credentials::all());
    let context = match opened {
        Ok(Ok(context)) => context,
        Ok(Err(why)) => return Err(context_error(&build.context, &why)),
        Err(why) => return Err(context_error(&build.context, &io::Error::other(why))),
    };
    let options = request::options(shared, build, &context.dockerfile, steps.is_some());
    let mut packing = Packing::start(context);
    let client = shared.connection.new_client()?;
    let known = match &steps {
        Some(_) => found.by_host(),
        None => found.by_registry.clone(),
    };
    let mut responses = request::send(client, options, known, packing.stream());
    let mut log = Log::default();
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
                if let Some(why) = packing.failure().await {
                    return Err(context_error(&build.context, &why));
                }
                let error = found.explain(classify(&failure, build, &log));
                return Err(place::find(error, build, &log).await);
            }
            Ok(None) => break,
            // Sending a large context counts as progress.
            Err(_) if packing.sent() > before => {}
            Err(_) => {
                let message = format!("no progress for {} s", shared.progress_timeout.as_secs());
                return Err(log.complete(ActionError::BuildInterrupted {
                    message,
                    log: String::new(),
                }));
            }
        }
    }
    match image {
        Some(image) => label::add(shared, build, &image).await,
        None => Err(log.complete(ActionError::BuildInterrupted {
            message: "the engine reported no image".to_owned(),
            log: String::new(),
        })),
    }
}

/// Steps before the one that a line such as `Step 3/4 : RUN make` begins.
fn completed_steps(line: &str) -> Option<Amount> {
    let (step, total) = line.strip_prefix("Step ")?.split(' ').next()?.split_once('/')?;
    let step: u64 = step.parse().ok()?;
    Some(Amount {
        done: step.saturating_sub(1),
        total: total.parse().ok()?,
    })
}

/// Returns the tag for a build: its own tag, or the substitute. Argus never moves the tag of another image.
async fn find_tag(shared: &Shared, tag: &str) -> Result<String, ActionError> {
    // The file of a person cannot contain a reserved tag.
    let substitute = Some(substitute_tag(tag)).filter(|_| !tag.starts_with(RESERVED));
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
        Some(built_as) => full_tag(built_as) == full_tag(tag),
        // Images of old versions have no label with their tag.
        None => labels.contains_key(BUILD_DIGEST),
    })
}

/// Tag with its default parts, because one image has several spellings.
fn full_tag(tag: &str) -> String {
    let name = tag.strip_prefix("docker.io/").unwrap_or(tag);
    let name = name.strip_prefix("library/").unwrap_or(name);
    match name.rsplit_once(':') {
        Some((_, last)) if !last.contains('/') => name.to_owned(),
        Some(_) | None => format!("{name}:latest"),
    }
}

fn context_error(context: &str, why: &io::Error) -> ActionError {
    ActionError::BuildFailed {
        message: format!("build context `{context}`: {why}"),
        log: String::new(),
        instruction: None,
    }
}

fn classify(failure: &Error, build: &Build, log: &Log) -> ActionError {
    let classified = match failure {
        Error::DockerStreamError { error: message } => error::classify_response(Op::Build, 200, message),
        Error::DockerResponseServerError { status_code, message } => {
            error::classify_response(Op::Build, *status_code, message)
        }
        other => error::classify_transport(other),
    };
    log.complete(match classified {
        ActionError::BuildFailed { message, log, .. } => ActionError::BuildFailed {
            message: place::name_target(build, message),
            log,
            instruction: None,
        },
        // The connection to the engine ended during the build.
        ActionError::ConnectionLost(message) => ActionError::BuildInterrupted {
            message,
            log: String::new(),
        },
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

/// The last lines of a build.
#[derive(Debug, Default)]
struct Log {
    lines: VecDeque<String>,
    unfinished: String,
    /// Line of the last started step, such as `Step 3/4 : RUN make`.
    step: Option<String>,
}

impl Log {
    /// Appends output of the builder; reports each complete line that starts a step.
    fn append(&mut self, text: &str, progress: &dyn Progress) {
        self.read_lines(text, |log, line| log.push_line(line, progress));
    }

    /// Appends output of a step.
    fn append_output(&mut self, text: &str) {
        self.read_lines(text, Self::store_line);
    }

    fn read_lines(&mut self, text: &str, mut add: impl FnMut(&mut Self, &str)) {
        self.unfinished.push_str(text);
        while let Some(end) = self.unfinished.find(['\n', '\r']) {
            let rest = self.unfinished.split_off(end + 1);
            let line = std::mem::replace(&mut self.unfinished, rest);
            add(self, line.trim_end());
        }
        // A step that draws a progress bar without line ends must not fill the memory.
        if self.unfinished.len() > CHUNK_BYTES {
            self.unfinished.clear();
        }
    }

    fn push_line(&mut self, line: &str, progress: &dyn Progress) {
        if line.starts_with("Step ") {
            return self.start_step(line, completed_steps(line), progress);
        }
        self.store_line(line);
    }

    /// Appends the line of a step that starts, and reports it.
    fn start_step(&mut self, line: &str, steps: Option<Amount>, progress: &dyn Progress) {
        self.step = Some(line.to_owned());
        progress.report_step(ActionProgress {
            steps,
            ..line.to_owned().into()
        });
        self.store_line(line);
    }

    fn store_line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.lines.len() == MAX_LOG_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    /// Adds the step and the last lines of the log to the error of a build.
    fn complete(&self, error: ActionError) -> ActionError {
        let log = self.text();
        let at_step = |message: String| match &self.step {
            Some(step) => format!("{step}: {message}"),
            None => message,
        };
        let is_disk_full = log.to_ascii_lowercase().contains(DISK_FULL);
        match error {
            ActionError::BuildFailed { message, .. } if is_disk_full => {
                ActionError::DiskFull(format!("{}: {DISK_FULL}", at_step(message)))
            }
            ActionError::BuildFailed { message, .. } => ActionError::BuildFailed {
                message: at_step(message),
                log,
                instruction: None,
            },
            ActionError::BuildInterrupted { message, .. } => ActionError::BuildInterrupted {
                message: at_step(message),
                log,
            },
            other => other,
        }
    }

    fn text(&self) -> String {
        let unfinished = Some(self.unfinished.trim_end()).filter(|rest| !rest.is_empty());
        self.lines
            .iter()
            .map(String::as_str)
            .chain(unfinished)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The packer of a build context, which runs on its own thread.
struct Packing {
    chunks: Option<mpsc::Receiver<io::Result<Bytes>>>,
    sent: Arc<AtomicU64>,
    work: Option<JoinHandle<io::Result<()>>>,
}

impl Packing {
    fn start(context: Context) -> Self {
        let (sender, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
        let sent = Arc::new(AtomicU64::new(0));
        let pipe = Pipe {
            sender: sender.clone(),
            sent: sent.clone(),
        };
        let work = move || {
            let packed = context.write(io::BufWriter::with_capacity(CHUNK_BYTES, pipe));
            if let Err(error) = &packed {
                // The engine would build a tar that merely ends early, so the request body must fail.
                drop(sender.blocking_send(Err(io::Error::from(error.kind()))));
            }
            packed
        };
        Self {
            chunks: Some(chunks),
            sent,
            work: Some(tokio::task::spawn_blocking(work)),
        }
    }

    /// The tar as a request body. A packing error cuts the request; [`Self::failure`] then returns that error.
    fn stream(&mut self) -> impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static {
        let chunks = self.chunks.take();
        stream::unfold(chunks, |chunks| async {
            let mut chunks = chunks?;
            let chunk = chunks.recv().await?;
            Some((chunk, Some(chunks)))
        })
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The error of the packer; `None` when it succeeded or was not the cause of a failed request.
    async fn failure(&mut self) -> Option<io::Error> {
        // A packer that still waits for a reader was not the cause.
        let packed = tokio::time::timeout(PACKER_TIMEOUT, self.work.take()?)
            .await
            .ok()?
            .ok()?;
        // The engine closed the pipe; its response is more precise than this error.
        packed
            .err()
            .filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }
}

struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    sent: Arc<AtomicU64>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender
            .blocking_send(Ok(Bytes::copy_from_slice(bytes)))
            .map_err(closed)?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
