//! The environment of one file for the duration of a command: with the running controller, else with a controller in this
//! process.

mod background;
mod hand_over;
mod unfinished;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::namespace::NamespaceFrom;
use argus_core::plan::longest_stop;
use argus_core::quoting::PathText as _;
use argus_core::secrets::render_diagnostics;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase};
use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;
use tokio_util::sync::CancellationToken;

use crate::api::Context;
use crate::api::target::Target;
use crate::api::validate::report::{check_paths, is_rejected};
use crate::api::wait::goal::{WaitGoal, WaitLimits, wait_until};
use crate::api::wait::removal::remove_environments;
use crate::api::wait::target_status::TargetStatus;
use crate::app;
use crate::blocking_io;
use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::live::View;
use crate::output;
use crate::settings::{DEFAULT_FILE, Settings, parse_namespace_from};
use crate::status;
use crate::view::Statuses;

pub(crate) use background::start_in_background;

/// Maximum time of the removal at the end, without the grace periods of the services.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// An accepted spec file and its environment.
#[derive(Debug, Clone)]
pub(crate) struct SpecChoice {
    pub(crate) file: PathBuf,
    pub(crate) environment: String,
    /// Maximum time of its stop, if each service uses its grace period.
    pub(crate) longest_stop: Duration,
}

impl SpecChoice {
    /// Reads the file of a command: `path`, else the one of the settings, else `e2e.yaml` or a Compose file. A folder must contain exactly one.
    pub(crate) fn read(settings: &Settings, path: Option<PathBuf>) -> Result<Self, Failure> {
        let settings = &follow_controller(settings)?;
        let path = path.unwrap_or_else(|| default_path(settings));
        let mut notes = Vec::new();
        let mut files = if path.exists() {
            let never = CancellationToken::new();
            check_paths(settings, std::slice::from_ref(&path), &mut notes, &never)?
        } else {
            Vec::new()
        };
        for note in notes {
            output::print_note(&format!("note: {note}"));
        }
        let Some(file) = files.pop() else {
            let message = format!("`{}` is not a spec file and contains none", path.shown());
            return Err(Failure::with_reason(Reason::NotFound, message)
                .with_exit(Exit::Usage)
                .with_hint("pass an existing spec file, or write a first one with `argus init`"));
        };
        if !files.is_empty() {
            let all = files
                .iter()
                .chain([&file])
                .map(|file| file.path.shown().to_string());
            let message = format!("`{}` contains {} spec files", path.shown(), files.len() + 1);
            let hint = format!("pass one of them: {}", all.collect::<Vec<_>>().join(", "));
            return Err(Failure::usage(message).with_hint(hint));
        }
        let name = file.path.shown().to_string();
        if !file.diagnostics.is_empty() {
            output::print_note(&render_diagnostics(&name, &file.text, &file.diagnostics));
        }
        match &file.desired {
            Some(desired) if !is_rejected(&file) => Ok(Self {
                environment: desired.env.to_string(),
                longest_stop: longest_stop(desired),
                file: file.path,
            }),
            _ => {
                let mistakes = file.diagnostics.iter().filter(|it| it.is_error()).collect();
                Err(rejection(&name, &mistakes))
            }
        }
    }
}

/// Returns the file or folder of a command without a path. A Compose file counts only in a project without spec files.
fn default_path(settings: &Settings) -> PathBuf {
    if !settings.specs_given && Path::new(DEFAULT_FILE).exists() {
        return Path::new(".").join(DEFAULT_FILE);
    }
    settings.clone().with_project_file().specs
}

/// Returns the settings with the namespace source of the running controller, because that controller reads the file. It does so without
/// the options of Compose files.
fn follow_controller(settings: &Settings) -> Result<Settings, Failure> {
    let state = settings.state.clone();
    if !status::is_alive(&state) {
        return Ok(settings.clone());
    }
    if !settings.compose.is_empty() {
        let message = "the running controller reads Compose files without these options";
        let hint = "end it with `argus stop`, or write `COMPOSE_FILE`, `COMPOSE_PROFILES` and the other variables to the `.env`";
        return Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(hint));
    }
    let controller = status::read_controller(&state)?.unwrap_or_default();
    let (known, value) = (controller.namespace_from, controller.namespace);
    let given = (settings.namespace_from != NamespaceFrom::File).then(|| settings.namespace_from.to_string());
    match (given, known) {
        // A variable has its value where the controller runs.
        (given, Some(known)) if given.as_ref().is_none_or(|given| *given == known) => Ok(Settings {
            namespace_from: parse_namespace_from(&known).unwrap_or_default().with_value(value),
            ..settings.clone()
        }),
        (Some(given), known) => {
            let known = known.map_or_else(|| "none".to_owned(), |known| format!("`{known}`"));
            let message = format!("the running controller has the namespace source {known}, not `{given}`");
            Err(Failure::with_reason(Reason::NotPossible, message)
                .with_exit(Exit::Usage)
                .with_hint(format!(
                    "start the controller with `argus run --namespace-from {given}`, or omit the option"
                )))
        }
        (None, _) => Ok(settings.clone()),
    }
}

fn rejection(name: &str, mistakes: &Vec<&Diagnostic>) -> Failure {
    let count = output::format_count(mistakes.len(), "error");
    let line = mistakes
        .iter()
        .filter_map(|it| it.location)
        .map(|at| at.line)
        .min();
    let error = StructuredError::new(Code::SpecInvalid, format!("`{name}` is rejected: {count}"))
        .details(serde_json::json!({ "diagnostics": mistakes }))
        .spec(name.to_owned(), line);
    // The diagnostics are printed already.
    Failure::new(error.suggest(&[]))
}

/// Removal of the environment at the end of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepOptions {
    /// Keep the environment at the end
    #[arg(long = "keep")]
    pub(crate) always: bool,
    /// Keep the environment after a failure, for its diagnosis
    #[arg(long = "keep-on-failure", conflicts_with = "always")]
    on_failure: bool,
}

impl KeepOptions {
    /// Returns whether the environment stays. If it stays after a failure, prints the command that removes it.
    pub(crate) fn is_kept(&self, has_failed: bool, environment: &str) -> bool {
        let is_kept_for_failure = self.on_failure && has_failed;
        if is_kept_for_failure {
            output::print_note(&format!(
                "note: `{environment}` stays after the failure; `argus down {environment}` removes it"
            ));
        }
        self.always || is_kept_for_failure
    }
}

/// An environment with a controller.
pub(crate) struct Session {
    pub(crate) client: ControllerClient,
    pub(crate) environment: String,
    /// Maximum time of the removal.
    removal: Duration,
    /// Link in the specs folder of a running controller, which this session uses.
    link: Option<PathBuf>,
}

impl Session {
    /// Runs `work` with a controller that knows the file. Then removes the environment unless `is_kept`, and stops the controller
    /// that it started. `None` if stopped before the controller runs.
    pub(crate) async fn run<T>(
        settings: &Settings,
        spec: &SpecChoice,
        is_kept: impl FnOnce(&Result<T, Failure>) -> bool,
        stop: &CancellationToken,
        work: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let remote = ControllerClient::remote(settings.clone());
        let environment = spec.environment.clone();
        let removal = REMOVAL_TIMEOUT + spec.longest_stop;
        if remote.missing_controller().await?.is_none() {
            let link = remote.run_blocking({
                let spec = spec.clone();
                move |client| hand_over::hand_over(client, &spec)
            });
            let session = Self {
                link: link.await?,
                client: remote,
                environment,
                removal,
            };
            let result = work(&session).await;
            return session.end(is_kept(&result), result).await.map(Some);
        }
        let (state, env) = (remote.state().clone(), environment.clone());
        blocking_io::read(move || refuse_other_environments(&state, &env)).await?;
        let own = Settings {
            specs: spec.file.clone(),
            listen: None,
            ..settings.clone()
        };
        let app = tokio::select! {
            biased;
            started = app::start(own) => started?,
            () = stop.cancelled() => return Ok(None),
        };
        let session = Self {
            client: app.client(),
            environment,
            removal,
            link: None,
        };
        let stop_controller = app.stop_token();
        let mut ended = pin!(app.ended());
        let work = async {
            let result = work(&session).await;
            session.end(is_kept(&result), result).await
        };
        let result = tokio::select! {
            result = work => result,
            ended = &mut ended => {
                ended?;
                let message = "the controller of this command stopped";
                return Err(Failure::with_reason(Reason::NotRunning, message).with_exit(Exit::Unexpected));
            }
        };
        drop(session);
        stop_controller.cancel();
        let stopped = ended.await;
        result.and_then(|value| stopped.map(|()| Some(value)))
    }

    /// Waits until the environment is Ready with the content of the file. `None` if stopped.
    pub(crate) async fn converge(
        &self,
        limits: WaitLimits,
        view: &mut View,
        stop: &CancellationToken,
    ) -> Result<Option<EnvironmentStatus>, Failure> {
        let converged = async {
            // The sync makes earlier edits effective.
            self.client.send(Command::Sync).await?;
            self.finish_removal(limits, view).await?;
            let names = [self.environment.clone()];
            let known = self.client.select_statuses(Some(&names)).await?.pop();
            if known.is_none_or(|(_, status)| status.is_none_or(|it| it.phase != Phase::Ready)) {
                let environment = status::parse_environment(&self.environment)?;
                // Restores a removed environment. A rejected file is reported by the wait.
                drop(
                    self.client
                        .send(Command::Retry {
                            environment,
                            service: None,
                        })
                        .await,
                );
            }
            let reached = self.wait(WaitGoal::Ready, limits, view).await?;
            Ok(reached.into_iter().find_map(|seen| seen.status))
        };
        tokio::select! {
            converged = converged => converged,
            () = stop.cancelled() => Ok(None),
        }
    }

    /// Shows the environment until it is removed.
    pub(crate) async fn show_until_gone(&self, view: &mut View) -> Result<(), Failure> {
        const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3_600);
        let limits = WaitLimits::of_time(NO_LIMIT);
        self.wait(WaitGoal::Gone, limits, view).await.map(drop)
    }

    async fn wait(
        &self,
        goal: WaitGoal,
        limits: WaitLimits,
        view: &mut View,
    ) -> Result<Vec<TargetStatus>, Failure> {
        let targets = [Target::environment(&self.environment)];
        let show = |seen: &[TargetStatus]| {
            let found = seen.iter().filter_map(|seen| seen.status.clone());
            let statuses = Statuses {
                environments: found
                    .map(|status| (status.environment.clone(), Arc::new(status)))
                    .collect(),
                ..Statuses::default()
            };
            for line in view.update(&statuses) {
                output::print_note(&line);
            }
        };
        wait_until(&self.client, Some(&targets), goal, limits, show).await
    }

    /// Lists the environments that the end removes: all of a controller in this process, because an edit can have renamed that of the file.
    async fn list_environments(&self) -> Vec<String> {
        let mut names = Vec::new();
        if self.client.in_process_parts().is_some()
            && let Ok(statuses) = self.client.statuses().await
        {
            let all = statuses.environments.values();
            let existing = all.filter(|it| it.revision.is_some() || it.phase == Phase::Terminating);
            names.extend(existing.map(|status| status.environment.clone()));
        }
        if names.is_empty() {
            names.push(self.environment.clone());
        }
        names
    }

    /// Removes the environment unless `keep`. Returns the first failure, and prints a second one.
    async fn end<T>(&self, keep: bool, result: Result<T, Failure>) -> Result<T, Failure> {
        if keep {
            return result;
        }
        let names = self.list_environments().await;
        output::print_note(&format!("removing `{}`", names.join("`, `")));
        let context = Context::new(self.client.clone());
        let removed = remove_environments(&context, &names, false, self.removal, output::print_note).await;
        if let Some(link) = &self.link
            && removed.is_ok()
        {
            // A link that remains defines an environment that is taken down.
            drop(std::fs::remove_file(link));
        }
        match (result, removed) {
            (result, Ok(())) => result,
            (Ok(_), Err(failure)) => Err(failure),
            (Err(failure), Err(second)) => {
                output::print_failure(second, false);
                Err(failure)
            }
        }
    }
}

/// Fails if the state directory has other environments, which a controller for one file would remove.
fn refuse_other_environments(state: &StateDir, environment: &str) -> Result<(), Failure> {
    let others = status::list_names(state)?
        .into_iter()
        .filter(|name| name != environment);
    let others: Vec<String> = others.map(|name| format!("`{name}`")).collect();
    if others.is_empty() {
        return Ok(());
    }
    let root = state.root().shown();
    let message = format!("the state directory `{root}` also has {}", others.join(", "));
    Err(Failure::with_reason(Reason::NotPossible, message)
        .with_exit(Exit::Usage)
        .with_hint("start their controller with `argus run`, or choose another folder with `--state`"))
}
