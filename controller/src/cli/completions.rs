//! `argus completions`: prints a completion script for a shell. The script calls this program, which completes names of environments and
//! services from the status files.

use std::ffi::OsStr;

use argus_core::ident::{EnvName, ServiceName};
use clap::{Args, Command, CommandFactory, Parser as _, ValueHint};
use clap_complete::engine::{ArgValueCompleter, PathCompleter, ValueCompleter as _};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, CompletionCandidate, Shell};

use super::Cli;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::Options;
use crate::settings::{Settings, SpecOptions};

/// Variable with which the script calls this program.
const VARIABLE: &str = "COMPLETE";

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Target shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        if let Some(shell) = Shells::builtins().completer(&self.shell.to_string()) {
            let written = shell.write_registration(VARIABLE, "argus", "argus", "argus", &mut script);
            written.map_err(|error| Failure::operation_failed("cannot write the script", &error))?;
        }
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}

/// Prints completions and exits, if a completion script called this program.
pub(super) fn complete() {
    CompleteEnv::with_factory(|| add_candidates(Cli::command()))
        .var(VARIABLE)
        .complete();
}

/// Adds the candidates of all arguments that name environments or services.
fn add_candidates(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_id().as_str() {
        "target" | "targets" => argument.add(ArgValueCandidates::new(|| list_names(true))),
        "environment" | "environments" => argument.add(ArgValueCandidates::new(|| list_names(false))),
        _ if argument.get_value_hint() == ValueHint::AnyPath => {
            argument.add(ArgValueCompleter::new(list_paths))
        }
        _ => argument,
    });
    command.mut_subcommands(add_candidates)
}

/// Paths that begin with a text. Bash inserts them as they are, so the list contains no path with characters that a shell interprets.
fn list_paths(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut paths = PathCompleter::any().complete(current);
    paths.retain(|path| {
        let path = path.get_value().to_string_lossy();
        !path.contains(|c: char| c.is_control() || "$`\"'\\;&|<>(){}[]*?!#".contains(c))
    });
    paths
}

/// Names of the environments, and of their services on request. Errors leave the list empty. A shell inserts the names into a command, so
/// the list contains valid names only: a repository can contain status files.
fn list_names(with_services: bool) -> Vec<CompletionCandidate> {
    let settings = Cli::try_parse_from(["argus", "get"]).ok();
    let settings = settings.and_then(|cli| Settings::resolve(&cli.options, &SpecOptions::default()).ok());
    let state = settings.map(|settings| settings.state);
    let statuses = state.and_then(|state| status::read_environments(&state).ok());
    let mut names = Vec::new();
    for status in statuses.unwrap_or_default() {
        let Ok(env) = EnvName::new(status.environment) else {
            continue;
        };
        names.push(env.to_string());
        let services = status.services.into_iter().filter(|_| with_services);
        let services = services.filter_map(|row| ServiceName::new(row.name).ok());
        names.extend(services.map(|service| format!("{env}/{service}")));
    }
    names.into_iter().map(CompletionCandidate::new).collect()
}
