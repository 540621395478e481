//! Context of a call: the controller, and the channel for progress.

use tokio::sync::mpsc;

use crate::client::ControllerClient;

/// Context of one call of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Client of the controller.
    pub(crate) client: ControllerClient,
    progress: Option<mpsc::UnboundedSender<String>>,
}

impl Context {
    /// Creates the context of a caller without progress.
    pub(crate) fn new(client: ControllerClient) -> Self {
        Self {
            client,
            progress: None,
        }
    }

    /// Sends progress messages to `sender`.
    pub(crate) fn with_progress(self, sender: mpsc::UnboundedSender<String>) -> Self {
        Self {
            progress: Some(sender),
            ..self
        }
    }

    /// Reports progress in one line, if the caller requested it.
    pub(crate) fn report(&self, message: impl Into<String>) {
        if let Some(sender) = &self.progress {
            // A caller that has left needs no progress.
            drop(sender.send(message.into()));
        }
    }
}
