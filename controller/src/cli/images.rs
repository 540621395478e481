//! `argus pull` and `argus build`: the images of services, through the calls of a controller and without their containers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use argus_backend::{Backend as _, Progress};
use argus_core::action::{Action, ActionProgress};
use argus_core::desired::{Desired, Image, Service};
use argus_core::secrets::Secrets;
use argus_core::status::command_error;
use argus_crds::PullPolicy;
use argus_crds::status::{ImageAction, ImageProgress};
use argus_docker::Docker;
use argus_reconciler::clock;
use argus_reconciler::shutdown::Signals;
use clap::Args;
use futures::stream::{self, StreamExt as _};
use serde_json::json;

use crate::app::telemetry;
use crate::engine;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::live::image_progress::{ProgressThrottle, format_bars, participle};
use crate::render::live::screen::LiveBlock;
use crate::render::output::{self, OutputArgs};
use crate::session::read_file;
use crate::settings::{Options, Settings, SpecOptions};

/// Maximum parallel pulls and builds, as in a controller.
const PARALLEL: usize = 2;

#[derive(Debug, Args)]
struct Images {
    /// Services [default: all]
    #[arg(value_name = "SERVICE")]
    names: Vec<String>,
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    #[command(flatten)]
    images: Images,
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    images: Images,
}

impl Pull {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        self.images.execute(options, ImageAction::Pull)
    }
}

impl Build {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        self.images.execute(options, ImageAction::Build)
    }
}

impl Images {
    fn execute(mut self, options: &Options, kind: ImageAction) -> Result<Exit, Failure> {
        // A named service needs no profile.
        self.specs.compose.services.extend_from_slice(&self.names);
        let settings = Settings::resolve(options, &self.specs)?;
        // No container follows from this file, so its options can differ from those of a running controller.
        let used: Vec<&str> = settings.compose.keys().map(String::as_str).collect();
        let (_, desired) = read_file(&settings, None, &used)?;
        let actions = list_actions(&desired, &self.names, kind)?;
        let screen = LiveBlock::for_terminal();
        telemetry::start(settings.log_format, "warn", screen.as_ref());
        let view = ProgressView {
            kind,
            screen,
            secrets: desired.secret_values(),
            images: Mutex::default(),
        };
        runtime::block_on(async {
            let mut signals = Signals::subscribe()
                .map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
            let work = async {
                let docker = engine::connect_docker(&settings).await?;
                let env = desired.env.as_str();
                let calls = stream::iter(&actions).map(|action| view.execute(&docker, env, action));
                let done: Vec<Result<&str, Failure>> = calls.buffer_unordered(PARALLEL).collect().await;
                self.print(kind, done)
            };
            tokio::select! {
                ended = work => ended,
                () = signals.received() => Ok(Exit::Interrupted),
            }
        })
    }

    /// Prints the images, or returns the first failure and prints the others.
    fn print(&self, kind: ImageAction, done: Vec<Result<&str, Failure>>) -> Result<Exit, Failure> {
        let (mut images, mut failed) = (Vec::new(), None);
        for result in done {
            match result {
                Ok(image) => images.push(image),
                Err(failure) if failed.is_none() => failed = Some(failure),
                Err(failure) => {
                    output::print_failure(failure, false);
                }
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        images.sort_unstable();
        let line = |image: &&str| format!("{image} {}", participle(kind));
        self.output.print(&json!({ "images": images }), &images, || {
            output::join_lines(images.iter().map(line))
        })?;
        Ok(Exit::Done)
    }
}

/// Actions for the images of the named services, or of all: one per image.
fn list_actions(desired: &Desired, names: &[String], kind: ImageAction) -> Result<Vec<Action>, Failure> {
    let services = &desired.services;
    if let Some(name) = names.iter().find(|name| !services.contains_key(name.as_str())) {
        let known: Vec<String> = services.keys().map(|name| format!("`{name}`")).collect();
        let message = format!("the file has no service `{name}`");
        return Err(Failure::usage(message).with_hint(format!("its services are {}", known.join(", "))));
    }
    let is_named =
        |service: &&Service| names.is_empty() || names.iter().any(|name| name == service.name.as_str());
    let wanted = services.values().filter(is_named);
    let actions = wanted.filter_map(|service| Some((service.image.key(), create_action(service, kind)?)));
    Ok(actions.collect::<BTreeMap<_, _>>().into_values().collect())
}

fn create_action(service: &Service, kind: ImageAction) -> Option<Action> {
    match (&service.image, kind) {
        // As in Compose, this policy also counts for a command.
        (Image::Named(_), ImageAction::Pull) if service.pull_policy == PullPolicy::Never => None,
        (Image::Named(reference), ImageAction::Pull) => Some(Action::PullImage {
            reference: reference.clone(),
            policy: PullPolicy::Always,
        }),
        (Image::Built(build), ImageAction::Build) => Some(Action::BuildImage(build.clone())),
        (Image::Named(_), ImageAction::Build) | (Image::Built(_), ImageAction::Pull) => None,
    }
}

/// Progress of the images, as `argus up` shows it: bars on a terminal, lines elsewhere.
struct ProgressView {
    kind: ImageAction,
    screen: Option<LiveBlock>,
    secrets: Secrets,
    images: Mutex<(BTreeMap<String, ImageProgress>, ProgressThrottle)>,
}

/// Progress of one image.
struct ImageRow<'a> {
    view: &'a ProgressView,
    image: &'a str,
}

impl ProgressView {
    /// Executes the action, and returns its image.
    async fn execute<'a>(&self, docker: &Docker, env: &str, action: &'a Action) -> Result<&'a str, Failure> {
        let image = action.image().unwrap_or_default();
        let row = ImageRow { view: self, image };
        row.report_status(ActionProgress::default());
        if self.screen.is_none() {
            output::print_note(&format!("image `{image}` is being {}", participle(self.kind)));
        }
        let done = docker.execute(action, &row).await;
        self.update(|images| drop(images.remove(image)));
        done.map(|_| image).map_err(|error| {
            let error = command_error(action, error, clock::now(), &self.secrets).environment(env);
            let exit = match Exit::from_code(error.code) {
                Exit::Unexpected => Exit::GaveUp,
                exit => exit,
            };
            Failure::new(error).with_exit(exit)
        })
    }

    fn update(&self, change: impl FnOnce(&mut BTreeMap<String, ImageProgress>)) {
        let mut guard = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let (images, throttle) = &mut *guard;
        change(images);
        let images: Vec<&ImageProgress> = images.values().collect();
        match &self.screen {
            Some(screen) => screen.draw(format_bars(&images, screen.width())),
            None => throttle
                .select_lines(&images, clock::now())
                .iter()
                .for_each(|line| output::print_note(line)),
        }
    }
}

impl Progress for ImageRow<'_> {
    fn report_step(&self, progress: ActionProgress) {
        self.report_status(progress);
    }

    fn report_status(&self, progress: ActionProgress) {
        let progress = ImageProgress {
            reference: self.image.to_owned(),
            action: self.view.kind,
            layers: progress.layers,
            bytes: progress.bytes,
            steps: progress.steps,
            line: self.view.secrets.redacted(&progress.line),
        };
        self.view
            .update(|images| drop(images.insert(self.image.to_owned(), progress)));
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::spec_files::parse_text;

    #[test]
    fn each_image_has_one_action_of_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Dockerfile"), "FROM scratch\n").unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        let text = "services:\n  web: { image: web:1 }\n  two: { image: web:1 }\n  old: { image: old:1, pull_policy: never }\n  \
                    app: { build: ., image: app:1 }\n";
        let path = dir.path().join("compose.yaml");
        std::fs::write(&path, text).unwrap();
        let file = parse_text(&settings, &path, text.as_bytes(), &CancellationToken::new());
        let desired = file.desired.unwrap_or_else(|| panic!("{:?}", file.diagnostics));
        let images = |names: &[&str], kind| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let actions = list_actions(&desired, &names, kind)?;
            let images = actions.iter().filter_map(Action::image);
            Ok::<_, Failure>(images.map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(images(&[], ImageAction::Pull).unwrap(), ["web:1"]);
        assert_eq!(images(&[], ImageAction::Build).unwrap(), ["app:1"]);
        assert_eq!(images(&["web"], ImageAction::Build).unwrap(), [""; 0]);
        assert_eq!(images(&["two", "old"], ImageAction::Pull).unwrap(), ["web:1"]);
        let failure = images(&["db"], ImageAction::Pull).unwrap_err();
        assert_eq!(failure.message(), "the file has no service `db`");
    }
}
