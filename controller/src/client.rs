//! What every surface asks of a controller: the one in this process, or the one behind a state directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use argus_core::ident::EnvName;
use argus_core::status::unwritable;
use argus_crds::error::{Call, Code, Reason, StructuredError};
use argus_crds::status::{Calls, EnvironmentStatus};
use argus_reconciler::journal::Feed;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Command, CommandError, Handle};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::breaker_reset::BreakerBefore;
use crate::call_trace;
use crate::cli::{client, status};
use crate::command_reply::CommandReply;
use crate::exit::Failure;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::view::StatusDocuments;

mod preflight;

pub(crate) use preflight::PREFLIGHT;

/// A controller as its surfaces hold it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ControllerClient {
    settings: Arc<Settings>,
    state: StateDir,
    transport: Transport,
}

/// Where the controller is.
#[derive(Debug, Clone)]
enum Transport {
    /// In this process.
    InProcess(Box<InProcess>),
    /// Behind the state directory, if anywhere: asked over its socket, known by its files.
    Remote,
}

/// What a controller in this process gives its surfaces.
#[derive(Debug, Clone)]
pub(crate) struct InProcess {
    /// Commands in, outlook out.
    pub(crate) handle: Handle,
    /// The statuses as they were written last.
    pub(crate) shown: watch::Receiver<Arc<StatusDocuments>>,
    /// The journal as it grows.
    pub(crate) feed: Feed,
    /// What a Prometheus reads.
    pub(crate) metrics: Metrics,
}

impl ControllerClient {
    /// Of the controller in this process.
    pub(crate) fn in_process(settings: Settings, own: InProcess) -> Self {
        Self {
            state: StateDir::at(settings.state.clone()),
            settings: Arc::new(settings),
            transport: Transport::InProcess(Box::new(own)),
        }
    }

    /// Of whatever controller works on the state directory of these settings.
    pub(crate) fn remote(settings: Settings) -> Self {
        Self {
            state: StateDir::at(settings.state.clone()),
            settings: Arc::new(settings),
            transport: Transport::Remote,
        }
    }

    /// The settings it was made with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The state directory.
    pub(crate) fn state(&self) -> &StateDir {
        &self.state
    }

    /// What only the controller's own process has.
    pub(crate) fn in_process_parts(&self) -> Option<&InProcess> {
        match &self.transport {
            Transport::InProcess(own) => Some(own),
            Transport::Remote => None,
        }
    }

    /// The folder of the specs: the controller's own, where one is known.
    pub(crate) fn specs(&self) -> PathBuf {
        let known = match &self.transport {
            Transport::InProcess(_) => None,
            Transport::Remote => status::controller(&self.state).ok().flatten(),
        };
        let known = known
            .map(|known| PathBuf::from(known.specs))
            .filter(|specs| specs.is_dir());
        let specs = known.unwrap_or_else(|| self.settings.specs.clone());
        std::path::absolute(&specs).unwrap_or(specs)
    }

    /// The settings with which one looks from beside the controller: with the folder that it watches, whatever this process
    /// was started with. It may read files.
    pub(crate) fn looking(&self) -> Settings {
        let mut settings = self.settings().clone();
        settings.specs = self.specs();
        settings
    }

    /// The journal, as it grows or as it lies in its files.
    pub(crate) fn feed(&self) -> Feed {
        match &self.transport {
            Transport::InProcess(own) => own.feed.clone(),
            Transport::Remote => Feed::of_files(self.state.journal()),
        }
    }

    /// The command that starts a controller on this state directory.
    pub(crate) fn how_to_start(&self) -> String {
        let (specs, state) = (self.specs(), self.state.root());
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_path_buf());
        format!(
            "argus run --specs {} --state {}",
            specs.display(),
            state.display()
        )
    }

    /// A controller is at work.
    pub(crate) fn is_alive(&self) -> bool {
        match &self.transport {
            Transport::InProcess(_) => true,
            Transport::Remote => status::is_alive(&self.state),
        }
    }

    /// Answers when a command is taken in and on disk, not when all that follows from it is done.
    pub(crate) async fn execute(&self, command: Command) -> Result<CommandReply, Failure> {
        match &self.transport {
            Transport::InProcess(own) => {
                let before = if let Command::ResetBreaker { environment } = &command {
                    Some(BreakerBefore::of(&own.shown.borrow(), environment.as_ref()))
                } else {
                    None
                };
                let answer = own.handle.send(command.clone()).await;
                let answer = answer.map_err(|error| Failure::new(refusal(&error, &self.state)))?;
                let taken = CommandReply::of(&command, &answer);
                Ok(match before {
                    Some(before) => taken.reset(&before.wait_for_reset(own.shown.clone()).await),
                    None => taken,
                })
            }
            Transport::Remote => client::send(&self.state, &command).await.map_err(client::failure),
        }
    }

    /// What reads the files of the state directory or of the specs, off the threads that answer everybody.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let own = self.clone();
        crate::blocking_io::read(move || work(&own)).await
    }

    /// The same for those who may not know that there is no controller: they are told how to start one.
    pub(crate) async fn command(&self, command: Command) -> Result<CommandReply, Failure> {
        let away = |client: &Self| Ok((!client.is_alive()).then(|| client.how_to_start()));
        if let Some(start) = self.read(away).await? {
            let message = "no controller is running, so nobody can do this";
            return Err(Failure::missing(Reason::NotRunning, message).hint(format!("start it: {start}")));
        }
        self.execute(command).await
    }

    /// The statuses of everything; where the controller is another process, it reads files.
    pub(crate) fn shown(&self) -> Result<Arc<StatusDocuments>, Failure> {
        match &self.transport {
            Transport::InProcess(own) => Ok(own.shown.borrow().clone()),
            Transport::Remote => {
                let all = status::all(&self.state)?;
                let environments: BTreeMap<_, _> = all
                    .into_iter()
                    .map(|status| (status.environment.clone(), status))
                    .collect();
                let controller = status::controller(&self.state)?;
                Ok(Arc::new(StatusDocuments {
                    environments,
                    // They are read where they are asked for.
                    calls: BTreeMap::new(),
                    controller: controller.unwrap_or_default(),
                }))
            }
        }
    }

    /// The calls behind the errors of an environment; it may read a file.
    pub(crate) fn calls(&self, env: &EnvName) -> Calls {
        match &self.transport {
            Transport::InProcess(own) => own
                .shown
                .borrow()
                .calls
                .get(env.as_str())
                .cloned()
                .unwrap_or_default(),
            Transport::Remote => status::peek(&self.state.debug(env.as_str())),
        }
    }

    /// An answer in which every error tells what was called, and all of these; an answer whose files do not answer is told as it is.
    pub(crate) async fn with_calls(&self, answer: Value) -> (Value, Vec<Call>) {
        if self.in_process_parts().is_some() {
            return call_trace::told(|env| self.calls(env), answer);
        }
        let plain = answer.clone();
        let told = self.read(move |client| Ok(call_trace::told(|env| client.calls(env), answer)));
        told.await.unwrap_or((plain, Vec::new()))
    }

    /// The status of an environment that has to be there, for those who answer others as well: files are looked at aside.
    pub(crate) async fn find_environment(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.status(env) {
            return Ok(status);
        }
        let env = env.to_owned();
        self.read(move |client| client.environment(&env)).await
    }

    /// The status of an environment that has to be there; it may read files.
    pub(crate) fn environment(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.status(env) {
            return Ok(status);
        }
        // The words about what is not there are the same everywhere.
        status::existing(&self.state, env)
    }

    /// As the controller in this process told it last.
    fn status(&self, env: &str) -> Option<EnvironmentStatus> {
        let shown = self.in_process_parts()?.shown.borrow();
        shown.environments.get(env).cloned()
    }
}

/// Why a command was not carried out, as the one type of error.
fn refusal(error: &CommandError, state: &StateDir) -> StructuredError {
    match error {
        CommandError::Busy => StructuredError::new(Code::Timeout, error.to_string())
            .details(json!({ "doing": "taking in a command", "reason": "too many commands at once" }))
            .retry_after(1),
        CommandError::Stopped => StructuredError::missing(Reason::Unavailable, error.to_string()),
        CommandError::Unknown(env) => StructuredError::missing(Reason::NotFound, error.to_string())
            .details(json!({ "environment": env, "hint": status::LIST }))
            .environment(env.as_str()),
        CommandError::NotPersisted(_) | CommandError::Safe(_) => {
            unwritable(&state.root().display().to_string(), &error.to_string())
        }
        CommandError::Unreachable(error) => StructuredError::clone(error),
        CommandError::Refused(why) => StructuredError::missing(Reason::NotPossible, why),
    }
}

/// The socket of the controller on this state directory.
pub(crate) fn socket(state: &StateDir) -> PathBuf {
    state.private().join("argus.sock")
}

#[cfg(test)]
pub(crate) mod tests;
