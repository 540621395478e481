//! `argus test begin`, `end` and `run`: while a test runs, what it uses is left running.

use std::fmt::Write;
use std::time::Duration;

use argus_core::state::Attribution;
use argus_reconciler::{Command, TestReport};
use clap::{Args, Subcommand};

use super::output::{self, Format};
use super::{client, status};
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::settings::Options;

mod child;
mod report;
mod run;
mod suite;

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say that a test begins: restarts of running containers wait for its end
    Begin(Begin),
    /// Say that a test ended, and show what happened meanwhile
    End(End),
    /// Run the suites of an environment's file, or a command, once it is ready
    Run(run::Run),
}

#[derive(Debug, Args)]
struct Begin {
    /// Environment
    environment: String,
    /// Name of the test case
    #[arg(long, value_name = "NAME")]
    case: String,
    /// How long it may take; then it counts as ended
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::span)]
    ttl: Duration,
    /// Who runs it, for others who want the environment
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    /// What for
    #[arg(long, value_name = "WORDS")]
    purpose: Option<String>,
    /// Format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Debug, Args)]
struct End {
    /// Environment
    environment: String,
    /// Name of the test case
    #[arg(long, value_name = "NAME")]
    case: String,
    /// Format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Test {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Begin(Begin {
                environment,
                case,
                ttl,
                holder,
                purpose,
                output,
            }) => {
                let command = Command::BeginTest {
                    environment: status::named(&environment)?,
                    case: case.clone(),
                    ttl,
                    holder,
                    purpose,
                };
                let say = |_: &CommandReply| {
                    let ttl = humantime::format_duration(ttl);
                    format!("test `{case}` runs on {environment}, for {ttl} at most\n")
                };
                client::one(options, &command, output, say)
            }
            Verb::End(End {
                environment,
                case,
                output,
            }) => {
                let command = Command::EndTest {
                    environment: status::named(&environment)?,
                    case,
                };
                let say = |taken: &CommandReply| report(taken).as_ref().map(told).unwrap_or_default();
                client::one(options, &command, output, say)
            }
            Verb::Run(run) => run.carry_out(options),
        }
    }

    /// The format that was asked for.
    pub(crate) fn output(&self) -> Option<Format> {
        match &self.verb {
            Verb::Begin(begin) => begin.output,
            Verb::End(end) => end.output,
            Verb::Run(run) => run.output,
        }
    }
}

/// The report that a test's end is answered with.
pub(crate) fn report(taken: &CommandReply) -> Option<TestReport> {
    serde_json::from_value(taken.value.clone()?).ok()
}

/// A report in words.
pub(crate) fn told(report: &TestReport) -> String {
    let TestReport {
        environment,
        case,
        restarts_during_run: count,
        ..
    } = report;
    let failures = output::count(*count, "failure");
    format!("test `{case}` on {environment} ended, {failures} of services during it\n") + &disruptions(report)
}

/// What failed while a test ran, a line each.
fn disruptions(report: &TestReport) -> String {
    let TestReport {
        environment,
        disruptions,
        expired: ran_out,
        ..
    } = report;
    let mut text = String::new();
    if let Some(at) = ran_out {
        // A string takes whatever is written.
        let _ = writeln!(
            text,
            "  its lease ran out at {at}; what failed after that is not counted"
        );
    }
    for found in disruptions {
        let blame = match found.attribution {
            Attribution::Infrastructure => "infrastructure",
            Attribution::Test => "the service itself",
        };
        // A string takes whatever is written.
        let _ = writeln!(
            text,
            "  {} {} failed, by {blame}: argus evidence {environment} {} {}",
            found.at, found.service, found.service, found.number
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use argus_core::ident::EnvName;

    use super::*;

    #[test]
    fn one_failure_is_told_as_one() {
        for (count, says) in [(0, "0 failures of"), (1, "1 failure of"), (2, "2 failures of")] {
            let report = TestReport {
                environment: EnvName::new("shop").unwrap(),
                case: "smoke".to_owned(),
                began: String::new(),
                ended: String::new(),
                expired: None,
                restarts_during_run: count,
                disruptions: Vec::new(),
            };
            assert!(told(&report).contains(says), "{}", told(&report));
        }
    }
}
