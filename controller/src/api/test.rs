//! Start and end of a test.

pub(crate) mod report;

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::command_reply::{CommandReply, CommandResult};
use crate::process::exit::Failure;
use crate::render::status_text::format_running_test;

/// Start or end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TestAction {
    Begin,
    End,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Test {
    /// `begin` before the test run, `end` after it
    pub(crate) action: TestAction,
    /// Environment name
    pub(crate) environment: String,
    /// Name of the test case; the same for begin and end
    pub(crate) case: String,
    /// Maximum duration; afterwards the test counts as ended
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    pub(crate) ttl_seconds: NonZeroU32,
    /// For `begin`: your name, for other users of the environment
    pub(crate) holder: Option<String>,
    /// For `begin`: purpose of the test run
    pub(crate) purpose: Option<String>,
}

pub(crate) fn default_ttl() -> NonZeroU32 {
    const { NonZeroU32::new(600).unwrap() }
}

/// Parses the name of the environment for `argus test ACTION`.
pub(crate) fn parse_environment(environment: &str, action: &str) -> Result<EnvName, Failure> {
    let why = "a test uses all services of its environment";
    target::parse_whole_environment(environment, why, |env| {
        format!("name the environment in `argus test {action} {env}`")
    })
}

impl Operation for Test {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[
        Route::command("/api/v1/commands/beginTest", "registers a running test")
            .fixed(&[("action", "begin")]),
        Route::command(
            "/api/v1/commands/endTest",
            "ends a test, and returns the restarts and failures of services during it",
        )
        .fixed(&[("action", "end")])
        .without(&["ttlSeconds", "holder", "purpose"]),
    ];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let action = match self.action {
            TestAction::Begin => "begin",
            TestAction::End => "end",
        };
        let environment = parse_environment(&self.environment, action)?;
        let case = self.case.clone();
        let command = match self.action {
            TestAction::Begin => Command::BeginTest {
                environment,
                case,
                ttl: Duration::from_secs(self.ttl_seconds.get().into()),
                holder: self.holder.clone(),
                purpose: self.purpose.clone(),
            },
            TestAction::End if self.holder.is_some() || self.purpose.is_some() => {
                return Err(Failure::usage("`holder` and `purpose` are arguments of `begin`"));
            }
            TestAction::End => Command::EndTest { environment, case },
        };
        let reply = context.client.send(command).await?;
        if let CommandResult::TestLease(lease) = &reply.result
            && let Some(reason) = &lease.unverified
        {
            context.report(report::format_unverified(reason));
        }
        Ok(reply)
    }
}

impl Tool for Test {
    const NAME: &'static str = "argus_test";
    const TITLE: &'static str = "Start or end a test";
    const ABOUT: &'static str = "Call with `begin` before a test run against an environment, and with `end` after it. `begin` waits up to 30 s for \
a connectivity check, and starts no test if services that are up cannot reach each other. In between, Argus does \
not restart running containers, and `argus_status` shows the holder and the end time to others. `end` returns the restarts and failures of services during the test, and whether \
the infrastructure caused them; in that case, a failed test proves nothing about the code.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, context: &Context) -> Summary<CommandReply> {
        let (env, case) = (&self.environment, &self.case);
        if let CommandResult::Test(report) = &reply.result {
            let text = report::format_report(report);
            let mut failures = report.disruptions.iter();
            let first = failures.find_map(|found| {
                let run = json!({ "environment": env, "service": found.service, "run": found.number? });
                Some(NextStep::new("evidence of the failed run", "argus_evidence", run))
            });
            return Summary {
                data: reply,
                text,
                next: first.into_iter().collect(),
            };
        }
        // Writing to a string cannot fail.
        let mut text = format!("test `{case}` runs on {env}, for {} s at most", self.ttl_seconds);
        if let CommandResult::TestLease(lease) = &reply.result
            && let Some(reason) = &lease.unverified
        {
            let _ = write!(text, "\n{}", report::format_unverified(reason));
        }
        let status = context.client.find_environment(env).await.ok();
        let others = status.map(|status| status.tests).unwrap_or_default();
        for other in others.iter().filter(|other| other.case != *case) {
            let _ = write!(text, "\nalso: {}", format_running_test(other));
        }
        let end = json!({ "action": "end", "environment": env, "case": case });
        Summary::new(reply, text).with_next(NextStep::new("end the test after the run", Self::NAME, end))
    }
}
