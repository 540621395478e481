//! Telling a running controller something, and what becomes of the answer.

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

/// Tells a running controller to do something.
pub(crate) async fn send(state: &StateDir, command: &Command) -> Result<CommandReply, ClientError> {
    let answer = client::post(&crate::client::socket(state), crate::http::ACTIONS, command).await?;
    serde_json::from_slice(&answer).map_err(|error| ClientError::Broken(error.to_string()))
}

/// A conversation that failed, as the end of a command.
pub(crate) fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(error) if error.code == Code::PrereqMissing && error.environment.is_some() => {
            Failure::new(*error).hint(status::LIST)
        }
        ClientError::Refused(error) => Failure::new(*error),
        ClientError::Away(why) => {
            let message = format!("controller is not running: {why}");
            Failure::missing(Reason::NotRunning, message)
                .exit(Exit::Unexpected)
                .hint("start it: `argus run`")
        }
        ClientError::Broken(ref why) => {
            let details = serde_json::json!({ "doing": "asking the controller", "reason": why });
            Failure::of(Code::Internal, error.to_string()).about(details)
        }
    }
}

/// Tells one thing and shows the answer: as it is in JSON and YAML, in the words of `say` for people.
pub(crate) fn one(
    options: &Options,
    command: &Command,
    format: Option<Format>,
    say: impl FnOnce(&CommandReply) -> String,
) -> Result<Exit, Failure> {
    let settings = Settings::resolve(options, &SpecOptions::default())?;
    let state = StateDir::at(settings.state);
    let answer = super::block_on(async { send(&state, command).await.map_err(failure) })?;
    show(command, &answer, format, say)?;
    Ok(Exit::Done)
}

/// Shows what a command was answered with.
pub(crate) fn show(
    command: &Command,
    taken: &CommandReply,
    format: Option<Format>,
    say: impl FnOnce(&CommandReply) -> String,
) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => output::json(taken),
        Some(Format::Yaml) => output::yaml(taken),
        Some(Format::Name) => {
            let name = command.environment().map_or("controller", EnvName::as_str);
            output::data(&format!("{name}\n"))
        }
        Some(Format::Table | Format::Wide) | None => output::data(&say(taken)),
    }
}
