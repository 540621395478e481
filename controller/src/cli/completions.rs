//! `argus completions`: prints a completion script for a shell. The script calls this program, which completes names of environments and
//! services from the status files.

use clap::{Args, Command, CommandFactory, Parser as _};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, CompletionCandidate, Shell};

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::settings::Options;
use crate::settings::{Settings, SpecOptions};
use crate::status;

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
        _ => argument,
    });
    command.mut_subcommands(add_candidates)
}

/// Names of the environments, and of their services on request. Errors leave the list empty.
fn list_names(with_services: bool) -> Vec<CompletionCandidate> {
    let settings = Cli::try_parse_from(["argus", "get"]).ok();
    let settings = settings.and_then(|cli| Settings::resolve(&cli.options, &SpecOptions::default()).ok());
    let state = settings.map(|settings| settings.state);
    let statuses = state.and_then(|state| status::read_environments(&state).ok());
    let mut names = Vec::new();
    for status in statuses.unwrap_or_default() {
        let env = status.environment;
        names.push(env.clone());
        let services = status.services.iter().filter(|_| with_services);
        names.extend(services.map(|row| format!("{env}/{}", row.name)));
    }
    names.into_iter().map(CompletionCandidate::new).collect()
}
