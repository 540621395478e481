//! `argus test`: results of suites, and test leases. A lease defers restarts and edits of an environment while a test runs.

use std::time::Duration;

use argus_crds::status::SuiteStatus;
use clap::{Args, Subcommand};

use super::call;
use super::test_run::RunTests;
use crate::api::test;
use crate::api::test::TestAction;
use crate::api::test::report::format_report;
use crate::api::test_results::TestResults;
use crate::client::command_reply::CommandResult;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(subcommand)]
    command: TestCommand,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Register a running test, which defers restarts of running containers
    Begin(Begin),
    /// End a test and show the restarts and failures of services during it
    End(End),
    /// Show the last results of the suites
    Results(Results),
    /// Run the suites of the spec file, or a command, once the environment is ready
    Run(Box<RunTests>),
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
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct End {
    /// Environment name
    environment: String,
    /// Name of the test case
    #[arg(long, value_name = "NAME")]
    case: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Test {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        match self.command {
            TestCommand::Begin(begin) => begin.execute(options),
            TestCommand::End(end) => end.execute(options),
            TestCommand::Results(results) => results.execute(options),
            TestCommand::Run(run) => run.execute(options),
        }
    }
}

#[derive(Debug, Args)]
struct Results {
    /// Environment name
    environment: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Begin {
    fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (env, case, ttl) = (&self.environment, &self.case, output::format_span(self.ttl));
        let text = format!("test `{case}` runs on {env} for at most {ttl}\n");
        let operation = test::Test {
            action: TestAction::Begin,
            environment: self.environment,
            case: self.case,
            ttl_seconds: call::round_to_seconds(self.ttl),
            holder: self.holder,
            purpose: self.purpose,
        };
        call::execute_command(options, &operation, self.output, |_| text)
    }
}

impl End {
    fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let operation = test::Test {
            action: TestAction::End,
            environment: self.environment,
            case: self.case,
            ttl_seconds: test::default_ttl(),
            holder: None,
            purpose: None,
        };
        call::execute_command(options, &operation, self.output, |reply| match &reply.result {
            CommandResult::Test(report) => format_report(report),
            _ => String::new(),
        })
    }
}

const RESULTS: &[Column<SuiteStatus>] = &[
    ("SUITE", |suite| suite.suite.clone()),
    ("RESULT", |suite| suite.result.clone()),
    ("AT", |suite| suite.at.clone()),
    ("EARLIER", |suite| {
        let earlier = suite.earlier.iter().map(|run| run.result.as_str());
        earlier.collect::<Vec<_>>().join(", ")
    }),
    ("FAILED CASES", |suite| suite.failed_cases.join(", ")),
];

impl Results {
    fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = TestResults {
            environment: self.environment,
        };
        let results = call::run(&context, &operation)?;
        let names = results.suites.iter().map(|suite| &suite.suite);
        self.output.print(&results, names, || {
            if results.suites.is_empty() {
                output::print_note("no suite has run");
                return String::new();
            }
            table::format_columns(RESULTS, &results.suites, output::terminal_width())
        })?;
        Ok(Exit::Done)
    }
}
