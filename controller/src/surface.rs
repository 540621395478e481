//! What every surface asks of a controller: the one in this process, or the one behind a state directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use argus_core::ident::EnvName;
use argus_core::status::unwritable;
use argus_crds::error::{Call, Code, Reason, StructuredError};
use argus_crds::status::{Calls, EnvironmentStatus};
use argus_reconciler::history::Feed;
use argus_reconciler::state::StateDir;
use argus_reconciler::{Command, CommandError, Handle};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::circuit::Standing;
use crate::cli::{status, tell};
use crate::debug;
use crate::exit::Failure;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::taken::Taken;
use crate::view::Shown;

mod fit;

pub(crate) use fit::PREFLIGHT;

/// A controller as its surfaces hold it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Surface {
    settings: Arc<Settings>,
    state: StateDir,
    at: At,
}

/// Where the controller is.
#[derive(Debug, Clone)]
enum At {
    /// In this process.
    Here(Box<Own>),
    /// Behind the state directory, if anywhere: asked over its socket, known by its files.
    There,
}

/// What a controller in this process gives its surfaces.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Commands in, outlook out.
    pub(crate) handle: Handle,
    /// The statuses as they were written last.
    pub(crate) shown: watch::Receiver<Arc<Shown>>,
    /// The journal as it grows.
    pub(crate) feed: Feed,
    /// What a Prometheus reads.
    pub(crate) metrics: Metrics,
}

impl Surface {
    /// Of the controller in this process.
    pub(crate) fn here(settings: Settings, own: Own) -> Self {
        Self {
            state: StateDir::at(settings.state.clone()),
            settings: Arc::new(settings),
            at: At::Here(Box::new(own)),
        }
    }

    /// Of whatever controller works on the state directory of these settings.
    pub(crate) fn there(settings: Settings) -> Self {
        Self {
            state: StateDir::at(settings.state.clone()),
            settings: Arc::new(settings),
            at: At::There,
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
    pub(crate) fn own(&self) -> Option<&Own> {
        match &self.at {
            At::Here(own) => Some(own),
            At::There => None,
        }
    }

    /// The folder of the specs: the controller's own, where one is known.
    pub(crate) fn specs(&self) -> PathBuf {
        let known = match &self.at {
            At::Here(_) => None,
            At::There => status::controller(&self.state).ok().flatten(),
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
        match &self.at {
            At::Here(own) => own.feed.clone(),
            At::There => Feed::of_files(self.state.journal()),
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
        match &self.at {
            At::Here(_) => true,
            At::There => status::is_alive(&self.state),
        }
    }

    /// Answers when a command is taken in and on disk, not when all that follows from it is done.
    pub(crate) async fn obey(&self, command: Command) -> Result<Taken, Failure> {
        match &self.at {
            At::Here(own) => {
                let before = if let Command::ResetBreaker { environment } = &command {
                    Some(Standing::of(&own.shown.borrow(), environment.as_ref()))
                } else {
                    None
                };
                let answer = own.handle.send(command.clone()).await;
                let answer = answer.map_err(|error| Failure::new(refusal(&error, &self.state)))?;
                let taken = Taken::of(&command, &answer);
                Ok(match before {
                    Some(before) => taken.reset(&before.then(own.shown.clone()).await),
                    None => taken,
                })
            }
            At::There => tell::tell(&self.state, &command).await.map_err(tell::failure),
        }
    }

    /// What reads the files of the state directory or of the specs, off the threads that answer everybody.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let own = self.clone();
        crate::files::read(move || work(&own)).await
    }

    /// The same for those who may not know that there is no controller: they are told how to start one.
    pub(crate) async fn command(&self, command: Command) -> Result<Taken, Failure> {
        let away = |surface: &Self| Ok((!surface.is_alive()).then(|| surface.how_to_start()));
        if let Some(start) = self.read(away).await? {
            let message = "no controller is running, so nobody can do this";
            return Err(Failure::missing(Reason::NotRunning, message).hint(format!("start it: {start}")));
        }
        self.obey(command).await
    }

    /// The statuses of everything; where the controller is another process, it reads files.
    pub(crate) fn shown(&self) -> Result<Arc<Shown>, Failure> {
        match &self.at {
            At::Here(own) => Ok(own.shown.borrow().clone()),
            At::There => {
                let all = status::all(&self.state)?;
                let environments: BTreeMap<_, _> = all
                    .into_iter()
                    .map(|status| (status.environment.clone(), status))
                    .collect();
                let controller = status::controller(&self.state)?;
                Ok(Arc::new(Shown {
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
        match &self.at {
            At::Here(own) => own
                .shown
                .borrow()
                .calls
                .get(env.as_str())
                .cloned()
                .unwrap_or_default(),
            At::There => status::peek(&self.state.debug(env.as_str())),
        }
    }

    /// An answer in which every error tells what was called, and all of these; an answer whose files do not answer is told as it is.
    pub(crate) async fn with_calls(&self, answer: Value) -> (Value, Vec<Call>) {
        if self.own().is_some() {
            return debug::told(|env| self.calls(env), answer);
        }
        let plain = answer.clone();
        let told = self.read(move |surface| Ok(debug::told(|env| surface.calls(env), answer)));
        told.await.unwrap_or((plain, Vec::new()))
    }

    /// The status of an environment that has to be there, for those who answer others as well: files are looked at aside.
    pub(crate) async fn found(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.told(env) {
            return Ok(status);
        }
        let env = env.to_owned();
        self.read(move |surface| surface.environment(&env)).await
    }

    /// The status of an environment that has to be there; it may read files.
    pub(crate) fn environment(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.told(env) {
            return Ok(status);
        }
        // The words about what is not there are the same everywhere.
        status::existing(&self.state, env)
    }

    /// As the controller in this process told it last.
    fn told(&self, env: &str) -> Option<EnvironmentStatus> {
        let shown = self.own()?.shown.borrow();
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
        CommandError::NotKept(_) | CommandError::Safe(_) => {
            unwritable(&state.root().display().to_string(), &error.to_string())
        }
        CommandError::Unreached(error) => StructuredError::clone(error),
        CommandError::Refused(why) => StructuredError::missing(Reason::NotPossible, why),
    }
}

/// The socket of the controller on this state directory.
pub(crate) fn socket(state: &StateDir) -> PathBuf {
    state.private().join("argus.sock")
}

#[cfg(test)]
pub(crate) mod tests;
