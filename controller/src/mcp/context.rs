//! Context of a tool call: the controller, and the channel for progress.

use argus_crds::status::EnvironmentStatus;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};

use crate::cli::status;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Context of one tool call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Client of the controller.
    pub(super) client: ControllerClient,
    /// Receiver of progress notifications, if the client requested them.
    listener: Option<(ProgressToken, Peer<RoleServer>)>,
}

impl Call {
    /// Creates the context of a call from a connection.
    pub(super) fn new(client: ControllerClient, context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            client,
            listener: token.map(|token| (token, context.peer.clone())),
        }
    }

    /// Creates the context of a call without progress notifications.
    #[cfg(test)]
    pub(super) fn without_progress(client: ControllerClient) -> Self {
        Self {
            client,
            listener: None,
        }
    }

    /// Returns the status of an environment; `None` if it has none.
    pub(super) async fn read_status(&self, env: &str) -> Result<Option<EnvironmentStatus>, Failure> {
        let env = env.to_owned();
        self.client
            .run_blocking(move |client| status::read_environment(client.state(), &env))
            .await
    }

    /// True if the client requested progress notifications.
    pub(super) fn has_listener(&self) -> bool {
        self.listener.is_some()
    }

    /// Sends a progress notification; `done` must increase with each one.
    pub(super) async fn report_progress(&self, done: u32, message: String) {
        let Some((token, peer)) = &self.listener else {
            return;
        };
        let notification =
            ProgressNotificationParam::new(token.clone(), f64::from(done)).with_message(message);
        // A disconnected client receives nothing.
        drop(peer.notify_progress(notification).await);
    }
}
