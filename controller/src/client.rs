//! Client of a controller: in this process, or in another one that uses the same state directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_core::quoting::shell_path;
use argus_core::status::unwritable;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_reconciler::journal::Feed;
use argus_reconciler::specs::source::is_file_path;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Command, CommandError, Handle};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::command_reply::CommandReply;
use crate::local_state::liveness::Liveness;
use crate::local_state::status;
use crate::metrics::Metrics;
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::settings::{Settings, trust};
use crate::view::Statuses;
use crate::view::breaker_reset::BreakerBefore;

pub(crate) mod command_reply;
pub(crate) mod http;
pub(crate) mod remote;
mod status_changes;
mod statuses;
mod sync;

/// Client of a controller; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ControllerClient {
    settings: Arc<Settings>,
    state: StateDir,
    transport: Transport,
    /// True if queries read the specs folder that the settings give, even if the controller watches another one.
    has_own_specs: bool,
    /// False for callers without the token: they get the public view of all statuses.
    is_trusted: bool,
}

/// Connection to the controller.
#[derive(Debug, Clone)]
enum Transport {
    /// The controller runs in this process.
    InProcess(Box<InProcess>),
    /// The controller runs in another process or not at all: commands go over its socket, statuses come from its files.
    Remote,
}

/// Parts of a controller in this process.
#[derive(Debug, Clone)]
pub(crate) struct InProcess {
    /// Accepts commands and publishes snapshots.
    pub(crate) handle: Handle,
    /// The statuses of the last write.
    pub(crate) statuses: watch::Receiver<Arc<Statuses>>,
    /// The journal, with new records as they are written.
    pub(crate) feed: Feed,
    /// The metrics for Prometheus.
    pub(crate) metrics: Metrics,
}

impl ControllerClient {
    /// Creates a client of the controller in this process.
    pub(crate) fn in_process(settings: Settings, parts: InProcess) -> Self {
        Self {
            state: settings.state.clone(),
            settings: Arc::new(settings),
            transport: Transport::InProcess(Box::new(parts)),
            has_own_specs: false,
            is_trusted: true,
        }
    }

    /// Creates a client of the controller that uses the state directory of these settings, if one runs.
    pub(crate) fn remote(settings: Settings) -> Self {
        Self {
            state: settings.state.clone(),
            settings: Arc::new(settings),
            transport: Transport::Remote,
            has_own_specs: false,
            is_trusted: true,
        }
    }

    /// Creates a client for a command, whose settings name the specs folder.
    pub(crate) fn for_command(settings: Settings) -> Self {
        Self {
            has_own_specs: true,
            ..Self::remote(settings)
        }
    }

    /// Returns the client for a caller. Without trust, all its statuses and errors are the public ones.
    pub(crate) fn for_caller(self, is_trusted: bool) -> Self {
        Self { is_trusted, ..self }
    }

    /// Returns false for callers without the token, which can only read.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns true if queries read the specs folder of the settings, even if the controller watches another one.
    pub(crate) fn has_own_specs(&self) -> bool {
        self.has_own_specs
    }

    /// Returns the settings of the client.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn state(&self) -> &StateDir {
        &self.state
    }

    /// Returns the parts that exist only in the process of the controller.
    pub(crate) fn in_process_parts(&self) -> Option<&InProcess> {
        match &self.transport {
            Transport::InProcess(parts) => Some(parts),
            Transport::Remote => None,
        }
    }

    /// Returns the identifier of the controller; `None` if no controller has used the state directory.
    pub(crate) fn controller_id(&self) -> Option<String> {
        match &self.transport {
            Transport::InProcess(parts) => Some(parts.handle.snapshot().identity.controller.clone()),
            Transport::Remote => correlation::current().controller,
        }
    }

    /// Returns the specs folder: the one that the controller watches if known, else the one of the settings.
    pub(crate) fn specs_folder(&self) -> PathBuf {
        let known = match &self.transport {
            Transport::InProcess(_) => None,
            Transport::Remote => status::read_controller(&self.state).ok().flatten(),
        };
        let known = known
            .map(|known| PathBuf::from(known.specs))
            .filter(|specs| specs.is_dir() || is_file_path(specs))
            .filter(|specs| !self.state.is_of_another_user() || is_in_project(&self.state, specs));
        let specs = known.unwrap_or_else(|| self.settings.specs.clone());
        std::path::absolute(&specs).unwrap_or(specs)
    }

    /// Returns the settings for queries in this process, with the folder that they read. It can read files.
    pub(crate) fn query_settings(&self) -> Settings {
        let mut settings = self.settings().clone();
        if !(self.has_own_specs && settings.specs_given) {
            let known = self.specs_folder();
            // The relative path of the settings is shorter in messages.
            if std::path::absolute(&settings.specs).ok().as_ref() != Some(&known) {
                settings.specs = known;
            }
        }
        settings
    }

    /// Returns the journal feed, live or from the files.
    pub(crate) fn open_feed(&self) -> Feed {
        match &self.transport {
            Transport::InProcess(parts) => parts.feed.clone(),
            Transport::Remote => Feed::from_files(self.state.journal()),
        }
    }

    /// Returns the command that starts a controller on this state directory.
    pub(crate) fn start_command(&self) -> String {
        let (specs, state) = (self.specs_folder(), self.state.root());
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_path_buf());
        let run = if is_file_path(&specs) {
            "argus run"
        } else {
            "argus run --specs"
        };
        let run = format!("{run} {}", shell_path(&specs));
        // Without the setting, the current folder decides on the state.
        let project = state.parent().filter(|_| self.state.has_outer_private());
        match project {
            None => format!("{run} --state {}", shell_path(&state)),
            // A folder without write access contains no state.
            Some(private) if private == self.state.private() => run,
            Some(project) => format!("cd {} && {run}", shell_path(project)),
        }
    }

    /// True if a controller runs.
    pub(crate) fn is_alive(&self) -> bool {
        match &self.transport {
            Transport::InProcess(_) => true,
            Transport::Remote => status::is_alive(&self.state),
        }
    }

    /// Returns the liveness of the controller behind the statuses. It can read files.
    pub(crate) fn liveness(&self) -> Liveness {
        match &self.transport {
            Transport::InProcess(_) => Liveness::Running,
            Transport::Remote => Liveness::read(&self.state),
        }
    }

    /// As [`Self::liveness`], for callers that also serve other requests.
    pub(crate) async fn read_liveness(&self) -> Result<Liveness, Failure> {
        if self.in_process_parts().is_some() {
            return Ok(Liveness::Running);
        }
        self.run_blocking(|client| Ok(client.liveness())).await
    }

    /// Sends a command. Returns when the controller has accepted and stored it, before its effects are complete. Without
    /// a controller, the error contains the command that starts one.
    pub(crate) async fn send(&self, command: Command) -> Result<CommandReply, Failure> {
        match &self.transport {
            Transport::InProcess(parts) => {
                let before = if let Command::ResetBreaker { environment } = &command {
                    Some(BreakerBefore::read(
                        &parts.statuses.borrow(),
                        environment.as_ref(),
                    ))
                } else {
                    None
                };
                let response = parts
                    .handle
                    .send(command.clone(), correlation::current().id)
                    .await;
                let response = response.map_err(|error| Failure::new(refusal_error(&error, &self.state)))?;
                let reply = CommandReply::new(&command, response);
                Ok(match before {
                    Some(before) => reply.with_reset(before.wait_for_reset(parts.statuses.clone()).await),
                    None => reply,
                })
            }
            Transport::Remote => {
                if let Some(start) = self.missing_controller().await? {
                    let message = "no controller is running";
                    return Err(Failure::with_reason(Reason::NotRunning, message)
                        .with_hint(format!("start one with `{start}`")));
                }
                let sent = remote::send(&self.state, &command).await;
                sent.map_err(remote::command_failure)
            }
        }
    }

    /// Runs blocking reads of state or spec files on the pool of [`crate::process::blocking_io`].
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let client = self.clone();
        crate::process::blocking_io::read(move || work(&client)).await
    }

    /// As [`Self::run_blocking`], for long reads: the token is cancelled when the caller gives up.
    pub(crate) async fn run_blocking_until<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let client = self.clone();
        crate::process::blocking_io::read_until(move |stop| work(&client, stop)).await
    }

    /// Returns the command that starts a controller, if none runs.
    pub(crate) async fn missing_controller(&self) -> Result<Option<String>, Failure> {
        if self.in_process_parts().is_some() {
            return Ok(None);
        }
        let start_if_stopped = |client: &Self| Ok((!client.is_alive()).then(|| client.start_command()));
        self.run_blocking(start_if_stopped).await
    }
}

/// Returns true if spec files belong to the project of a state. A container can make a state of another user, which has no seal, and must not
/// choose the files of another project for `argus fix`.
fn is_in_project(state: &StateDir, specs: &Path) -> bool {
    let project = state
        .root()
        .parent()
        .and_then(|parent| parent.canonicalize().ok());
    project.is_some_and(|project| trust::contains(&project, specs))
}

/// Converts a rejected command into a structured error.
fn refusal_error(error: &CommandError, state: &StateDir) -> StructuredError {
    match error {
        CommandError::Busy => StructuredError::new(Code::Timeout, error.to_string())
            .details(json!({ "operation": "accepting a command", "reason": "too many concurrent commands" }))
            .retry_after(1),
        CommandError::SpecsNotRead => StructuredError::new(Code::Timeout, error.to_string())
            .details(json!({ "operation": "reading the spec files" }))
            .retry_after(1),
        CommandError::Stopped => StructuredError::missing(Reason::Unavailable, error.to_string()),
        CommandError::Unknown(env) => StructuredError::missing(Reason::NotFound, error.to_string())
            .details(json!({ "environment": env, "hint": status::hint_for_unknown(state, env.as_str()) }))
            .environment(env.as_str()),
        CommandError::NotPersisted(_) | CommandError::Safe(_) => {
            unwritable(&state.root().display().to_string(), &error.to_string())
        }
        CommandError::Unreachable(error) => StructuredError::clone(error),
        CommandError::Refused(cause) => StructuredError::missing(Reason::NotPossible, cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_another_user_names_only_files_of_its_project() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::with_private(dir.path().join("shop/.argus"), dir.path().join("private"));
        for folder in ["shop/environments", "other/environments"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("../other", dir.path().join("shop/link")).unwrap();
        for (specs, expected) in [
            ("shop/environments", true),
            ("shop/e2e.yaml", true),
            ("other/environments", false),
            ("shop/link/environments", false),
        ] {
            assert_eq!(
                is_in_project(&state, &dir.path().join(specs)),
                expected,
                "{specs}"
            );
        }
    }
}
