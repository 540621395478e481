//! `argus test begin`, `end` and `run`: a test lease defers restarts and edits of an environment while a test runs.

use std::time::Duration;

use argus_reconciler::Command;
use clap::{Args, Subcommand};

use super::client;
use crate::api::test::report::format_report;
use crate::command_reply::{CommandReply, CommandResult};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::settings::Options;
use crate::status;
use crate::test_runner;

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(subcommand)]
    command: TestCommand,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Register a running test, which defers restarts of running containers
    Begin(Begin),
    /// End a test and show the failures of services during it
    End(End),
    /// Run the suites of the spec file, or a command, once the environment is ready
    Run(test_runner::RunTests),
}

#[derive(Debug, Args)]
struct Begin {
    /// Environment name
    environment: String,
    /// Name of the test case
    #[arg(long, value_name = "NAME")]
    case: String,
    /// Time until the test lease expires
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    ttl: Duration,
    /// Name of the holder, shown to other users
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    /// Purpose of the test, shown to other users
    #[arg(long, value_name = "WORDS")]
    purpose: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Debug, Args)]
struct End {
    /// Environment name
    environment: String,
    /// Name of the test case
    #[arg(long, value_name = "NAME")]
    case: String,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Test {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        match self.command {
            TestCommand::Begin(Begin {
                environment,
                case,
                ttl,
                holder,
                purpose,
                output,
            }) => {
                let command = Command::BeginTest {
                    environment: status::parse_environment(&environment)?,
                    case: case.clone(),
                    ttl,
                    holder,
                    purpose,
                };
                let message = |_: &CommandReply| {
                    let ttl = humantime::format_duration(ttl);
                    format!("test `{case}` runs on {environment} for at most {ttl}\n")
                };
                client::execute_command(options, &command, output, message)
            }
            TestCommand::End(End {
                environment,
                case,
                output,
            }) => {
                let command = Command::EndTest {
                    environment: status::parse_environment(&environment)?,
                    case,
                };
                let message = |reply: &CommandReply| match &reply.result {
                    CommandResult::Test(report) => format_report(report),
                    _ => String::new(),
                };
                client::execute_command(options, &command, output, message)
            }
            TestCommand::Run(run) => run.execute(options),
        }
    }

    /// Requested output format.
    pub(crate) fn output(&self) -> Option<Format> {
        match &self.command {
            TestCommand::Begin(begin) => begin.output,
            TestCommand::End(end) => end.output,
            TestCommand::Run(run) => run.output,
        }
    }
}
