//! What a tool has while it is called: the controller, and the way to say how it goes.

use argus_crds::status::EnvironmentStatus;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};

use crate::cli::status;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// What is asked of the controller.
    pub(super) client: ControllerClient,
    /// Where progress is told, where the client wants to hear of it.
    listener: Option<(ProgressToken, Peer<RoleServer>)>,
}

impl Call {
    /// A call that came over a connection.
    pub(super) fn new(client: ControllerClient, context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            client,
            listener: token.map(|token| (token, context.peer.clone())),
        }
    }

    /// A call that nobody listens to.
    #[cfg(test)]
    pub(super) fn unheard(client: ControllerClient) -> Self {
        Self {
            client,
            listener: None,
        }
    }

    /// The status of an environment; `None` where it has none.
    pub(super) async fn status(&self, env: &str) -> Result<Option<EnvironmentStatus>, Failure> {
        let env = env.to_owned();
        self.client
            .read(move |client| status::one(client.state(), &env))
            .await
    }

    /// Whether anybody listens.
    pub(super) fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// Says how it goes; `done` grows from call to call.
    pub(super) async fn progress(&self, done: u32, message: String) {
        let Some((token, peer)) = &self.listener else {
            return;
        };
        let told = ProgressNotificationParam::new(token.clone(), f64::from(done)).with_message(message);
        // Whoever went away hears nothing.
        drop(peer.notify_progress(told).await);
    }
}
