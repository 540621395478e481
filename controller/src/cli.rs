//! The command line. Each subcommand has its own module with its arguments and an `execute` function.

use std::process::ExitCode;

use argus_reconciler::identity;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::get::format::GetFormat;
use crate::init;
use crate::process::correlation::{self, RequestContext};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::selftest;
use crate::settings::{Options, Settings, SpecOptions};

mod allow;
pub(crate) mod breaker;
mod call;
mod ci;
mod commands;
mod completions;
mod config;
mod demo;
mod describe;
mod diff;
pub(crate) mod doctor;
mod down;
mod env;
pub(crate) mod events;
pub(crate) mod evidence;
mod exec;
pub(crate) mod explain;
mod fix;
mod get;
mod graph;
mod helper_check;
mod hold;
mod images;
pub(crate) mod incidents;
mod invocation;
pub(crate) mod logs;
mod man;
mod mcp;
pub(crate) mod mock;
pub(crate) mod network;
mod notes;
mod open;
pub(crate) mod orphans;
#[cfg(test)]
mod pages_tests;
pub(crate) mod plan;
mod port;
pub(crate) mod preflight;
pub(crate) mod prune;
mod ps;
mod retry;
mod rollback;
pub(crate) mod run;
mod schema;
mod state;
mod stop;
pub(crate) mod target;
pub(crate) mod test;
mod test_run;
mod up;
mod usage;
pub(crate) mod validate;
mod variables;
pub(crate) mod wait;
pub(crate) mod why;

/// Creates Docker test environments from e2e.yaml files and keeps them in that state.
#[derive(Debug, Parser)]
#[command(
    name = "argus",
    version,
    propagate_version = true,
    disable_help_subcommand = false,
    max_term_width = 110
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// Defines the subcommands with their help, and their execution.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($arguments:ty),)*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$attribute])* $name($arguments),)*
        }

        impl Command {
            fn execute(self, options: &Options) -> Result<Exit, Failure> {
                match self {
                    $(Self::$name(command) => command.execute(options),)*
                }
            }
        }
    };
}

commands! {
    /// Run a controller that creates, repairs and updates environments
    Run(run::Run),
    /// Create the environment of one file, and remove it at the end
    Up(up::Up),
    /// Pull the images of services, without starting them
    Pull(images::Pull),
    /// Build the images of services, without starting them
    Build(images::Build),
    /// Check one file, run its suites, and write the reports for a CI system
    Ci(ci::Ci),
    /// Write a first spec file from a compose file or a Dockerfile
    Init(init::Init),
    /// Check spec files and report all errors
    Validate(validate::Validate),
    /// Print a spec file or Compose file as Argus reads it, without secrets
    Config(config::Config),
    /// Show planned actions and their causes
    Plan(plan::Plan),
    /// List environments, or the services of one
    Get(get::Get),
    /// List the services of an environment
    Ps(ps::Ps),
    /// Show all details of an environment
    Describe(describe::Describe),
    /// Show changes of file and images since the last good revision
    Diff(diff::Diff),
    /// Show the change of the spec file that the first error proposes, and write it
    Fix(fix::Fix),
    /// Wait until environments are ready or gone
    Wait(wait::Wait),
    /// Remove environments from the engine
    Down(down::Down),
    /// Stop services, or end the controller of this project
    Stop(stop::Stop),
    /// Start services that `argus stop` stopped
    Start(retry::Start),
    /// List or remove resources of dead controllers
    Orphans(orphans::Orphans),
    /// Retry given-up services, or restore removed environments
    Retry(retry::Retry),
    /// Restart services or environments
    Restart(retry::Restart),
    /// Pause all changes to an environment or a service
    Hold(hold::Hold),
    /// Resume a held environment or service, or a controller in mode Safe
    Resume(hold::Resume),
    /// Cancel pulls and builds of an environment, and hold it
    Cancel(hold::Cancel),
    /// Return to the previous good revision
    Rollback(rollback::Rollback),
    /// Run a copy of an environment under another name and on other ports
    Fork(rollback::Fork),
    /// Run tests on an environment, or register a running test
    Test(test::Test),
    /// Show or reset circuit breakers
    Breaker(breaker::Breaker),
    /// Check engine, disk and host against the specs
    Preflight(preflight::Preflight),
    /// Report problems of controller, specs and environments, most severe first
    Doctor(doctor::Doctor),
    /// Show or repeat the connectivity checks of an environment
    Network(network::Network),
    /// Remove replaced images that Argus built, and the build cache
    Prune(prune::Prune),
    /// Show the logs of containers
    Logs(logs::Logs),
    /// Run a command in the container of a service
    Exec(exec::Exec),
    /// Open a shell in the container of a service
    Shell(exec::Shell),
    /// Print the addresses of an environment as shell variables
    Env(env::Env),
    /// Print the published address of a port of a service
    Port(port::Port),
    /// Print the URL of a service, and open it in a browser
    Open(open::Open),
    /// Explain the state of an environment or a service
    Why(why::Why),
    /// Print services, dependencies and states as a graph
    Graph(graph::Graph),
    /// List or follow events of the journal
    Events(events::Events),
    /// Show the crash report of a failed run: exit code, logs, memory
    Evidence(evidence::Evidence),
    /// List incidents after unclean stops of the controller
    Incidents(incidents::Incidents),
    /// Inject faults into a temporary environment and count recoveries
    Selftest(selftest::Selftest),
    /// Serve MCP (Model Context Protocol) on stdin and stdout
    Mcp(mcp::Mcp),
    /// Show the folders of the status files and of the private state
    State(state::State),
    /// Let the settings and mounts of a project count as your own
    Allow(allow::Allow),
    /// Print the JSON Schema of spec files or of another document
    Schema(schema::Schema),
    /// Explain an error code
    Explain(explain::Explain),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Print the manual page of `argus`, or write all pages
    Man(man::Man),
    /// Show the requests of a mock, or serve a mock
    Mock(mock::Mock),
    /// Check connections and disk space from inside a helper container
    #[command(name = "probe", hide = true)]
    HelperCheck(helper_check::HelperCheck),
    /// A small HTTP service, used by the examples
    #[command(hide = true)]
    DemoService(demo::DemoService),
}

/// Parses the command line, runs the subcommand, and returns its exit code.
pub(crate) fn main() -> ExitCode {
    completions::complete();
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut command = Cli::command();
            return usage::print_error(&error.format(&mut command), &command).into();
        }
    };
    // The command itself reports unreadable settings.
    let settings = Settings::resolve(&cli.options, &SpecOptions::default()).ok();
    let colour = settings.as_ref().map(|settings| settings.color);
    colour.or(cli.options.color).unwrap_or_default().apply();
    variables::warn_of_misspelled(&Cli::command());
    let state = settings.as_ref().map(|settings| settings.state.clone());
    let controller = state.and_then(|state| identity::peek(&state.identity()));
    let has_calls = settings.as_ref().is_some_and(|settings| settings.debug);
    correlation::set_process(RequestContext {
        call: has_calls.then(|| invocation::describe_command(&matches, &Cli::command())),
        ..RequestContext::new(controller)
    });
    if let Some(settings) = &settings
        && !allows_project(&matches)
    {
        allow::warn_of_ignored(&settings.ignored_keys);
    }
    match cli.command.execute(&cli.options) {
        Ok(exit) => exit.into(),
        Err(failure) => output::print_failure(failure, wants_json(&matches)).into(),
    }
}

/// Returns true if the command itself allows the project.
fn allows_project(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some(("allow", _)) => true,
        Some(("ci", matches)) => matches.get_flag("allow"),
        _ => false,
    }
}

/// Returns true if the subcommand prints JSON, so that errors must be JSON, too.
fn wants_json(matches: &ArgMatches) -> bool {
    if let Some((_, matches)) = matches.subcommand() {
        return wants_json(matches);
    }
    let of_get = matches.try_get_one("output");
    matches!(of_get, Ok(Some(GetFormat::Common(output::Format::Json))))
        || matches!(matches.try_get_one("output"), Ok(Some(output::Format::Json)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use argus_crds::error::ActionId;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mcp_remedies_are_valid_tool_calls() {
        let mut called = 0;
        for action in ActionId::ALL {
            for (env, service) in [(None, None), (Some("shop"), None), (Some("shop"), Some("api"))] {
                let Some(call) = action.remedy(env, service).mcp else {
                    continue;
                };
                crate::mcp::check_arguments(&call.tool, &call.arguments)
                    .unwrap_or_else(|error| panic!("{call:?}: {error}"));
                called += 1;
            }
        }
        assert!(called > 0);
    }

    #[test]
    fn every_remedy_has_a_command_and_an_mcp_call() {
        for action in ActionId::ALL {
            for (env, service) in [(None, None), (Some("shop"), None), (Some("shop"), Some("api"))] {
                let remedy = action.remedy(env, service);
                assert!(remedy.command.is_some() && remedy.mcp.is_some(), "{remedy:?}");
            }
        }
    }

    #[test]
    fn argus_remedies_are_valid_commands() {
        let mut ours = 0;
        for action in ActionId::ALL {
            for (env, service) in [(None, None), (Some("shop"), None), (Some("shop"), Some("api"))] {
                let command = action.remedy(env, service).command.unwrap_or_default();
                if command.starts_with("argus ") {
                    Cli::try_parse_from(command.split(' '))
                        .unwrap_or_else(|error| panic!("{command}: {error}"));
                    ours += 1;
                }
            }
        }
        assert!(ours > 0);
    }
}
