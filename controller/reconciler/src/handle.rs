//! What surfaces hold of a running controller: commands in, outlook out.

use std::sync::Arc;

use argus_core::ident::EnvName;
use tokio::sync::{mpsc, oneshot, watch};

use crate::outlook::Outlook;

/// Commands that wait for the reconciler: people and agents send a few, whoever sends more is told that it is busy.
pub(crate) const COMMANDS: usize = 64;

/// Something a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Take an environment down, until its file changes or a retry is asked for.
    Down(EnvName),
    /// Forget failures and counters of an environment and try again.
    Retry(EnvName),
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Too many commands are waiting; later it will do.
    #[error("controller is busy")]
    Busy,
    /// The controller is stopping.
    #[error("controller is stopping")]
    Stopped,
    /// No such environment.
    #[error("no environment `{0}`")]
    Unknown(EnvName),
}

/// A command with the way back.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<(), CommandError>>,
}

/// A running controller; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Request>,
    pub(crate) outlook: watch::Receiver<Arc<Outlook>>,
}

impl Handle {
    /// Takes an environment down, until its file changes or a retry is asked for.
    pub async fn down(&self, env: EnvName) -> Result<(), CommandError> {
        self.send(Command::Down(env)).await
    }

    /// Tries an environment again, as if nothing had failed; brings back one that was taken down.
    pub async fn retry(&self, env: EnvName) -> Result<(), CommandError> {
        self.send(Command::Retry(env)).await
    }

    /// Sends a command and waits until the reconciler took it in.
    pub async fn send(&self, command: Command) -> Result<(), CommandError> {
        let (reply, replied) = oneshot::channel();
        self.commands
            .try_send(Request { command, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => CommandError::Busy,
                mpsc::error::TrySendError::Closed(_) => CommandError::Stopped,
            })?;
        replied.await.unwrap_or(Err(CommandError::Stopped))
    }

    /// The newest outlook.
    pub fn outlook(&self) -> Arc<Outlook> {
        self.outlook.borrow().clone()
    }

    /// Outlooks as they change; a slow reader sees the newest only. Closed when the reconciler has ended.
    pub fn outlooks(&self) -> watch::Receiver<Arc<Outlook>> {
        self.outlook.clone()
    }
}
