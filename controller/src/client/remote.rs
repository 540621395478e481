//! Commands for a controller in another process, over its socket.

use std::time::Duration;

use argus_crds::error::{Code, Reason};
use argus_reconciler::Command;
use argus_reconciler::handle::LINKS_TIMEOUT;
use argus_reconciler::state_dir::StateDir;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::http::{self, ClientError};
use crate::client::command_reply::CommandReply;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};

/// Path of commands from clients of this program.
pub(crate) const COMMANDS: &str = "/api/v1/commands";

/// Sends a command to a running controller.
pub(crate) async fn send(state: &StateDir, command: &Command) -> Result<CommandReply, ClientError> {
    let limit = match command {
        Command::BeginTest { .. } => http::DEADLINE + LINKS_TIMEOUT,
        _ => http::DEADLINE,
    };
    let reply = http::post_within(limit, &state.socket(), COMMANDS, command).await?;
    serde_json::from_slice(&reply).map_err(|error| ClientError::InvalidResponse(error.to_string()))
}

/// Sends a request of another operation to a running controller.
pub(crate) async fn post<T: DeserializeOwned>(
    state: &StateDir,
    path: &str,
    body: &impl Serialize,
    limit: Duration,
) -> Result<T, Failure> {
    let reply = http::post_within(limit, &state.socket(), path, body).await;
    let reply = reply.map_err(command_failure)?;
    serde_json::from_slice(&reply)
        .map_err(|error| command_failure(ClientError::InvalidResponse(error.to_string())))
}

/// Converts a client error to the failure of a command.
pub(crate) fn command_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(error) if error.code == Code::PrereqMissing && error.environment.is_some() => {
            let hint = error.details.get("hint").and_then(serde_json::Value::as_str);
            let hint = hint.unwrap_or(status::LIST_HINT).to_owned();
            Failure::new(*error).with_hint(hint)
        }
        ClientError::Refused(error) => Failure::new(*error),
        ClientError::Unreachable(cause) => {
            let message = format!("controller is not running: {cause}");
            Failure::with_reason(Reason::NotRunning, message)
                .with_exit(Exit::Unexpected)
                .with_hint("start a controller with `argus run`")
        }
        ClientError::InvalidResponse(ref cause) => {
            let details = serde_json::json!({ "operation": "sending the command", "reason": cause });
            Failure::with_code(Code::Internal, error.to_string()).with_details(details)
        }
    }
}
