//! The environment of one file for the duration of a command: with the running controller, else with a controller in this
//! process.

mod background;
mod choice;
mod compose_flags;
mod controller_end;
mod hand_over;
mod unfinished;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::ident::ServiceName;
use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;
use argus_crds::status::{EnvironmentStatus, Phase};
use argus_reconciler::specs::source::SpecSource;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Command, clock};
use tokio_util::sync::CancellationToken;

use crate::api::Context;
use crate::api::target::Target;
use crate::api::wait::goal::{WaitGoal, WaitLimits, wait_until};
use crate::api::wait::removal::remove_environments;
use crate::api::wait::target_status::TargetStatus;
use crate::app;
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::exit::{Exit, Failure};
use crate::render::live::View;
use crate::render::output;
use crate::settings::Settings;
use crate::view::Statuses;

pub(crate) use background::start_in_background;
pub(crate) use choice::{SpecChoice, read_file};
pub(crate) use compose_flags::check_name;
pub(crate) use controller_end::end_controller;

/// Maximum time of the removal at the end, without the grace periods of the services.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);

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
    link: Option<hand_over::SpecLink>,
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

    /// Starts these services, or all, and waits until they are ready with the content of the file. `None` if stopped.
    pub(crate) async fn converge(
        &self,
        services: &[ServiceName],
        limits: WaitLimits,
        view: &mut View,
        stop: &CancellationToken,
    ) -> Result<Option<EnvironmentStatus>, Failure> {
        let target = |service: &ServiceName| Target {
            service: Some(service.to_string()),
            ..Target::environment(&self.environment)
        };
        let targets = if services.is_empty() {
            vec![Target::environment(&self.environment)]
        } else {
            services.iter().map(target).collect()
        };
        let converged = async {
            // The sync makes earlier edits effective.
            let started = clock::now();
            self.client.sync_within(limits.timeout).await?;
            let limits = limits.rest_since(started);
            self.finish_removal(limits, view).await?;
            let names = [self.environment.clone()];
            let known = self.client.select_statuses(Some(&names)).await?.pop();
            let known = known.and_then(|(_, status)| status);
            let is_as_wanted =
                |status: &EnvironmentStatus| status.phase == Phase::Ready && status.holds.is_empty();
            let retried = if known.is_some() && !services.is_empty() {
                services.iter().cloned().map(Some).collect()
            } else if known.is_some_and(|status| is_as_wanted(&status)) {
                Vec::new()
            } else {
                // Restores a removed environment, and starts stopped services.
                vec![None]
            };
            let environment = status::parse_environment(&self.environment)?;
            for service in retried {
                let environment = environment.clone();
                // A rejected file is reported by the wait.
                drop(self.client.send(Command::Retry { environment, service }).await);
            }
            let reached = self.wait(&targets, WaitGoal::Ready, limits, view).await?;
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
        let targets = [Target::environment(&self.environment)];
        self.wait(&targets, WaitGoal::Gone, limits, view).await.map(drop)
    }

    async fn wait(
        &self,
        targets: &[Target],
        goal: WaitGoal,
        limits: WaitLimits,
        view: &mut View,
    ) -> Result<Vec<TargetStatus>, Failure> {
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
        wait_until(&self.client, Some(targets), goal, limits, show).await
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
            link.remove();
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

/// Environments that the controller of this file removes: with a running controller those that the file had under another name, else all
/// others of the state directory.
pub(crate) fn list_replaced(settings: &Settings, spec: &SpecChoice) -> Result<Vec<String>, Failure> {
    let state = &settings.state;
    let mut names = status::list_names(state)?;
    let client = ControllerClient::remote(settings.clone());
    let source = status::is_alive(state).then(|| SpecSource::new(&client.specs_folder(), state.root()));
    let file = spec.file.canonicalize().ok();
    names.retain(|name| {
        let is_of_file = |source: &SpecSource| {
            let status = status::read_environment(state, name).ok().flatten();
            status.is_some_and(|it| source.folder.join(it.spec_path).canonicalize().ok() == file)
        };
        *name != spec.environment && source.as_ref().is_none_or(is_of_file)
    });
    Ok(names)
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
