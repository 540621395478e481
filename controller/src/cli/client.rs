//! Client of a running controller: sends commands and prints replies.

use argus_core::ident::EnvName;
use argus_crds::error::{Code, Reason};
use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;

use super::output::{self, Format};
use super::status;
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::http::client::{self, ClientError};
use crate::settings::{Options, Settings, SpecOptions};

/// Sends a command to a running controller.
pub(crate) async fn send(state: &StateDir, command: &Command) -> Result<CommandReply, ClientError> {
    let reply = client::post(&crate::client::socket_path(state), crate::http::ACTIONS, command).await?;
    serde_json::from_slice(&reply).map_err(|error| ClientError::InvalidResponse(error.to_string()))
}

/// Converts a client error to the failure of a command.
pub(crate) fn command_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(error) if error.code == Code::PrereqMissing && error.environment.is_some() => {
            Failure::new(*error).with_hint(status::LIST)
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

/// Sends one command and prints the reply: as it is in JSON and YAML, else as formatted by `message`.
pub(crate) fn execute_command(
    options: &Options,
    command: &Command,
    format: Option<Format>,
    message: impl FnOnce(&CommandReply) -> String,
) -> Result<Exit, Failure> {
    let settings = Settings::resolve(options, &SpecOptions::default())?;
    let state = StateDir::at(settings.state);
    let reply = super::block_on(async { send(&state, command).await.map_err(command_failure) })?;
    print_reply(command, &reply, format, message)?;
    Ok(Exit::Done)
}

/// Prints the reply to a command.
pub(crate) fn print_reply(
    command: &Command,
    reply: &CommandReply,
    format: Option<Format>,
    message: impl FnOnce(&CommandReply) -> String,
) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => output::print_json(reply),
        Some(Format::Yaml) => output::print_yaml(reply),
        Some(Format::Name) => {
            let name = command.environment().map_or("controller", EnvName::as_str);
            output::print(&format!("{name}\n"))
        }
        Some(Format::Table | Format::Wide) | None => output::print(&message(reply)),
    }
}
