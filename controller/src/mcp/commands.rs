//! Tools that change something, with the verbs of the CLI.

use std::fmt::Write as _;
use std::time::Duration;

use argus_core::ident::ServiceName;
use argus_crds::error::Reason;
use argus_crds::status::{EnvironmentStatus, Phase};
use argus_reconciler::{Command, clock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::{format_running_test, status, target, test, wait};
use crate::command_reply::CommandReply;
use crate::exit::Failure;

/// Maximum time until the status shows the effect of a command.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Sends a command; `text` describes it in the output.
async fn send_command(call: &Call, command: Command, text: String) -> Result<Output<CommandReply>, Failure> {
    Ok(Output::new(call.client.send_if_running(command).await?, text))
}

/// Waits until the status differs from `before`. Otherwise, an immediate `argus_wait` would return the old failure.
pub(super) async fn wait_for_status(
    call: &Call,
    env: &str,
    before: Option<&EnvironmentStatus>,
) -> Result<(), Failure> {
    let given_up = |status: &&EnvironmentStatus| matches!(status.phase, Phase::Failed | Phase::Degraded);
    let Some(before) = before.filter(given_up) else {
        return Ok(());
    };
    let deadline = clock::now() + STATUS_TIMEOUT;
    while clock::now() < deadline {
        let now = call.read_status(env).await?;
        if now.is_none_or(|now| (now.phase, &now.errors) != (before.phase, &before.errors)) {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn wait_step(env: &str) -> NextStep {
    let env = json!({ "environment": env });
    NextStep::new("wait until it is ready or fails", "argus_wait", env)
}

fn parse_service(service: Option<String>) -> Result<Option<ServiceName>, Failure> {
    let named = service.map(ServiceName::new).transpose();
    named.map_err(|error| Failure::with_reason(Reason::BadRequest, error.to_string()).without_suggestions())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Retry {
    /// Environment name
    environment: String,
}

impl Tool for Retry {
    const NAME: &'static str = "argus_retry";
    const TITLE: &'static str = "Retry";
    const ABOUT: &'static str = "Retries services that Argus gave up, with the same file and with failure counters at zero. It also restores what \
`argus_down` removed, and ends an automatic rollback; a rollback by `argus_rollback` stays until the file changes. Not needed after an edit, which takes effect automatically.";
    const EFFECT: Effect = Effect::Additive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let env = self.environment;
        let before = call.read_status(&env).await?;
        let text = format!("{env} is retried");
        let output = send_command(&call, Command::Retry { environment }, text).await?;
        wait_for_status(&call, &env, before.as_ref()).await?;
        Ok(output.with_next(wait_step(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hold {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// Service name [default: the whole environment]
    service: Option<String>,
    /// Duration [default: until `argus_resume`]
    #[schemars(range(min = 1))]
    for_seconds: Option<u32>,
    /// Reason, shown in the status
    #[serde(default)]
    reason: String,
    /// Your name, for other users of the environment
    holder: Option<String>,
}

impl Tool for Hold {
    const NAME: &'static str = "argus_hold";
    const TITLE: &'static str = "Hold";
    const ABOUT: &'static str = "Holds an environment or a service: running actions complete, then Argus starts and repairs nothing there until \
`argus_resume` or the end of `forSeconds`. Use it to inspect a failure. For a test run, use `argus_test`.";
    const EFFECT: Effect = Effect::Additive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let mut resume = json!({ "environment": env });
        if let Some(service) = &service {
            resume["service"] = json!(service);
        }
        let span = self.for_seconds.map(u64::from).map(Duration::from_secs);
        let command = Command::Hold {
            environment: status::parse_environment(&env)?,
            service: parse_service(service)?,
            until: span.map(|span| clock::now() + span),
            reason: self.reason,
            holder: self.holder,
        };
        let text = match self.for_seconds {
            Some(seconds) => format!("{} is held for {seconds} s", self.environment),
            None => format!("{} is held until argus_resume", self.environment),
        };
        let output = send_command(&call, command, text).await?;
        Ok(output.with_next(NextStep::new("end the hold", "argus_resume", resume)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Resume {
    /// Environment, or ENVIRONMENT/SERVICE; without it, ends safe mode of the controller
    environment: Option<String>,
    /// Service name [default: the whole environment]
    service: Option<String>,
}

impl Tool for Resume {
    const NAME: &'static str = "argus_resume";
    const TITLE: &'static str = "Resume";
    const ABOUT: &'static str = "Ends the hold of an environment or a service. Without `environment`, it ends safe mode of the controller, \
after its cause (a journal that cannot be written) is fixed.";
    const EFFECT: Effect = Effect::Additive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let Some(environment) = self.environment else {
            let text = "the controller resumes".to_owned();
            return send_command(&call, Command::ResumeController, text).await;
        };
        let (env, service) = target::parse_target(&environment, self.service.as_deref())?;
        let command = Command::Resume {
            environment: status::parse_environment(&env)?,
            service: parse_service(service)?,
        };
        let output = send_command(&call, command, format!("{environment} resumes")).await?;
        Ok(output.with_next(wait_step(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cancel {
    /// Environment name
    environment: String,
}

impl Tool for Cancel {
    const NAME: &'static str = "argus_cancel";
    const TITLE: &'static str = "Cancel pulls and builds";
    const ABOUT: &'static str =
        "Cancels running pulls and builds of an environment, and holds it until `argus_resume`.";
    const EFFECT: Effect = Effect::Destructive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let env = self.environment;
        let text = format!("{env} is cancelled and held until argus_resume");
        let output = send_command(&call, Command::Cancel { environment }, text).await?;
        let resume = json!({ "environment": env });
        Ok(output.with_next(NextStep::new("end the hold", "argus_resume", resume)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rollback {
    /// Environment name
    environment: String,
}

impl Tool for Rollback {
    const NAME: &'static str = "argus_rollback";
    const TITLE: &'static str = "Roll back";
    const ABOUT: &'static str = "Returns to the last other revision that was ready, with the same images, until the file changes; \
`argus_retry` keeps it. Use it if an edit broke an environment that is needed now.";
    const EFFECT: Effect = Effect::Destructive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let env = self.environment;
        let text = format!("{env} returns to its last other revision that was ready, until its file changes");
        let before = call.read_status(&env).await?;
        let output = send_command(&call, Command::Rollback { environment }, text).await?;
        wait_for_status(&call, &env, before.as_ref()).await?;
        Ok(output.with_next(wait_step(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Fork {
    /// Environment name
    environment: String,
    /// Name of the copy [default: the environment name with `-fork`]
    to: Option<String>,
}

impl Tool for Fork {
    const NAME: &'static str = "argus_fork";
    const TITLE: &'static str = "Run a copy";
    const ABOUT: &'static str = "Runs a copy of the same revision under another name and on other ports, until `argus_down` of the copy. \
Use it for experiments without effects on other users.";
    const EFFECT: Effect = Effect::NonIdempotent;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let env = self.environment;
        let to = self.to.unwrap_or_else(|| format!("{env}-fork"));
        let command = Command::Fork {
            environment: status::parse_environment(&env)?,
            to: status::parse_environment(&to)?,
        };
        let output = send_command(
            &call,
            command,
            format!("{to} is a copy of {env}, until argus_down {to}"),
        )
        .await?;
        Ok(output.with_next(wait_step(&to)))
    }
}

/// Start or end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum TestAction {
    Begin,
    End,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Test {
    /// `begin` before the test run, `end` after it
    action: TestAction,
    /// Environment name
    environment: String,
    /// Name of the test case; the same for begin and end
    case: String,
    /// Maximum duration; afterwards the test counts as ended
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    ttl_seconds: u32,
    /// For `begin`: your name, for other users of the environment
    holder: Option<String>,
    /// For `begin`: purpose of the test run
    purpose: Option<String>,
}

fn default_ttl() -> u32 {
    600
}

impl Tool for Test {
    const NAME: &'static str = "argus_test";
    const TITLE: &'static str = "Start or end a test";
    const ABOUT: &'static str = "Call it with `begin` before a test run against an environment, and with `end` after it. In between, Argus does \
not restart running containers, and `argus_status` shows the holder and the end time to others. `end` returns the services that failed during the test, and whether \
the infrastructure caused it; in that case, a failed test proves nothing about the code.";
    const EFFECT: Effect = Effect::Additive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let (env, case) = (self.environment, self.case);
        match self.action {
            TestAction::Begin => {
                let command = Command::BeginTest {
                    environment,
                    case: case.clone(),
                    ttl: Duration::from_secs(u64::from(self.ttl_seconds)),
                    holder: self.holder,
                    purpose: self.purpose,
                };
                let before = call.read_status(&env).await?;
                let mut text = format!("test `{case}` runs on {env}, for {} s at most", self.ttl_seconds);
                let others = before.map(|status| status.tests).unwrap_or_default();
                for other in others.iter().filter(|other| other.case != case) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\nalso: {}", format_running_test(other));
                }
                let end = json!({ "action": "end", "environment": env, "case": case });
                let output = send_command(&call, command, text).await?;
                Ok(output.with_next(NextStep::new("end the test after the run", Self::NAME, end)))
            }
            TestAction::End => {
                let mut output =
                    send_command(&call, Command::EndTest { environment, case }, String::new()).await?;
                if let Some(report) = test::find_report(&output.data) {
                    output.text = test::format_report(&report);
                    let first = report.disruptions.first();
                    output.next.extend(first.map(|found| {
                        let run =
                            json!({ "environment": env, "service": found.service, "run": found.number });
                        NextStep::new("evidence of the failed run", "argus_evidence", run)
                    }));
                }
                Ok(output)
            }
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Down {
    /// Environment name
    environment: String,
}

impl Tool for Down {
    const NAME: &'static str = "argus_down";
    const TITLE: &'static str = "Remove an environment";
    const ABOUT: &'static str = "Removes the containers and networks of an environment from the engine; named volumes and the file stay. \
An edit of the file or `argus_retry` restores it. Call it when you no longer need the environment.";
    const EFFECT: Effect = Effect::Destructive;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let env = self.environment;
        let current = call.read_status(&env).await?;
        if let Some(held) = current.as_ref().and_then(wait::find_lease_error) {
            // An environment of another controller must not be removed.
            return Err(Failure::new(held.clone()));
        }
        let output = send_command(
            &call,
            Command::Down { environment },
            format!("{env} is being removed"),
        )
        .await?;
        let gone = json!({ "environment": env, "for": "gone" });
        Ok(output.with_next(NextStep::new("wait until it is removed", "argus_wait", gone)))
    }
}
