//! Client of a running controller: sends commands and prints replies.

use argus_core::ident::EnvName;
use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;

use crate::client::remote;
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};

/// Sends one command and prints the reply: as it is in JSON and YAML, else as formatted by `message`.
pub(crate) fn execute_command(
    options: &Options,
    command: &Command,
    format: Option<Format>,
    message: impl FnOnce(&CommandReply) -> String,
) -> Result<Exit, Failure> {
    let settings = Settings::resolve(options, &SpecOptions::default())?;
    let state = StateDir::at(settings.state);
    let reply = runtime::block_on(async {
        remote::send(&state, command)
            .await
            .map_err(remote::command_failure)
    })?;
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
