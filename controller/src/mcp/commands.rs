//! Tools that change something: the commands of the CLI, with the same words.

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
use crate::cli::{running, status, target, test, wait};
use crate::command_reply::CommandReply;
use crate::exit::Failure;

/// What a command changed is in the status within this, or nothing of it is.
const SEEN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// Tells the controller, and says it in words.
async fn send_command(call: &Call, command: Command, text: String) -> Result<Output<CommandReply>, Failure> {
    Ok(Output::new(call.client.command(command).await?, text))
}

/// Returns when the status is another one than before the command: who waits at once would hear of the failure that is forgotten.
pub(super) async fn wait_for_status(
    call: &Call,
    env: &str,
    before: Option<&EnvironmentStatus>,
) -> Result<(), Failure> {
    let given_up = |status: &&EnvironmentStatus| matches!(status.phase, Phase::Failed | Phase::Degraded);
    let Some(before) = before.filter(given_up) else {
        return Ok(());
    };
    let deadline = clock::now() + SEEN;
    while clock::now() < deadline {
        let now = call.status(env).await?;
        if now.is_none_or(|now| (now.phase, &now.errors) != (before.phase, &before.errors)) {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn wait_for(env: &str) -> NextStep {
    let env = json!({ "environment": env });
    NextStep::new("returns when it is ready or given up", "argus_wait", env)
}

fn named_service(service: Option<String>) -> Result<Option<ServiceName>, Failure> {
    let named = service.map(ServiceName::new).transpose();
    named.map_err(|error| Failure::missing(Reason::BadRequest, error.to_string()).quiet())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Retry {
    /// Environment
    environment: String,
}

impl Tool for Retry {
    const NAME: &'static str = "argus_retry";
    const TITLE: &'static str = "Try again";
    const ABOUT: &'static str = "Tries again what was given up, with the same file: counters of failures begin anew. It also brings back \
what `argus_down` removed, and takes back a rollback that nobody asked for; one that `argus_rollback` made stays until the file changes. Not needed after a file changed: that is taken up by itself.";
    const EFFECT: Effect = Effect::Adds;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::named(&self.environment)?;
        let env = self.environment;
        let before = call.status(&env).await?;
        let text = format!("{env} is tried again");
        let said = send_command(&call, Command::Retry { environment }, text).await?;
        wait_for_status(&call, &env, before.as_ref()).await?;
        Ok(said.then(wait_for(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hold {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// One service of it; all of it without
    service: Option<String>,
    /// The hold ends by itself after this; without, it lasts until `argus_resume`
    #[schemars(range(min = 1))]
    for_seconds: Option<u32>,
    /// Why, for whoever reads the status
    #[serde(default)]
    reason: String,
    /// Who you are, for others who want the environment
    holder: Option<String>,
}

impl Tool for Hold {
    const NAME: &'static str = "argus_hold";
    const TITLE: &'static str = "Leave it as it is";
    const ABOUT: &'static str = "Holds an environment or a service: the act in flight ends, nothing new begins, nothing is repaired, \
until `argus_resume` or `forSeconds` are over. For looking at something broken in peace. For a test run use `argus_test`.";
    const EFFECT: Effect = Effect::Adds;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let (env, service) = target::parts(&self.environment, self.service.as_deref())?;
        let mut back = json!({ "environment": env });
        if let Some(service) = &service {
            back["service"] = json!(service);
        }
        let span = self.for_seconds.map(u64::from).map(Duration::from_secs);
        let command = Command::Hold {
            environment: status::named(&env)?,
            service: named_service(service)?,
            until: span.map(|span| clock::now() + span),
            reason: self.reason,
            holder: self.holder,
        };
        let text = match self.for_seconds {
            Some(seconds) => format!("{} is held for {seconds} s", self.environment),
            None => format!("{} is held until argus_resume", self.environment),
        };
        let said = send_command(&call, command, text).await?;
        Ok(said.then(NextStep::new("ends the hold", "argus_resume", back)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Resume {
    /// Environment, or ENVIRONMENT/SERVICE; without, the controller goes on from mode Safe
    environment: Option<String>,
    /// One service of it; all of it without
    service: Option<String>,
}

impl Tool for Resume {
    const NAME: &'static str = "argus_resume";
    const TITLE: &'static str = "Let it go on";
    const ABOUT: &'static str = "Ends a hold of an environment or a service. Without `environment` it ends mode Safe of the controller, \
once what led to it (a journal that cannot be written) is mended.";
    const EFFECT: Effect = Effect::Adds;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let Some(environment) = self.environment else {
            let text = "the controller goes on".to_owned();
            return send_command(&call, Command::ResumeController, text).await;
        };
        let (env, service) = target::parts(&environment, self.service.as_deref())?;
        let command = Command::Resume {
            environment: status::named(&env)?,
            service: named_service(service)?,
        };
        let said = send_command(&call, command, format!("{environment} goes on")).await?;
        Ok(said.then(wait_for(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cancel {
    /// Environment
    environment: String,
}

impl Tool for Cancel {
    const NAME: &'static str = "argus_cancel";
    const TITLE: &'static str = "Abandon pulls and builds";
    const ABOUT: &'static str =
        "Abandons pulls and builds of an environment that are under way, and holds it until `argus_resume`.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::named(&self.environment)?;
        let env = self.environment;
        let text = format!("{env} is cancelled and held until argus_resume");
        let said = send_command(&call, Command::Cancel { environment }, text).await?;
        let back = json!({ "environment": env });
        Ok(said.then(NextStep::new("lets it go on", "argus_resume", back)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rollback {
    /// Environment
    environment: String,
}

impl Tool for Rollback {
    const NAME: &'static str = "argus_rollback";
    const TITLE: &'static str = "Back to the last good revision";
    const ABOUT: &'static str = "Goes back to the last other revision that was ready, with the images it ran, until the file \
changes; `argus_retry` keeps it. For when a change of the file broke the environment and it is needed now.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::named(&self.environment)?;
        let env = self.environment;
        let text =
            format!("{env} goes back to the last other revision that was ready, until its file changes");
        let before = call.status(&env).await?;
        let said = send_command(&call, Command::Rollback { environment }, text).await?;
        wait_for_status(&call, &env, before.as_ref()).await?;
        Ok(said.then(wait_for(&env)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Fork {
    /// Environment
    environment: String,
    /// Name of the copy; without it, the environment's with `-fork` behind it
    to: Option<String>,
}

impl Tool for Fork {
    const NAME: &'static str = "argus_fork";
    const TITLE: &'static str = "Run a copy beside it";
    const ABOUT: &'static str = "Runs the same revision beside itself under another name and on other ports, until `argus_down` of the \
copy. For trying something without disturbing others.";
    const EFFECT: Effect = Effect::AddsAgain;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let env = self.environment;
        let to = self.to.unwrap_or_else(|| format!("{env}-fork"));
        let command = Command::Fork {
            environment: status::named(&env)?,
            to: status::named(&to)?,
        };
        let said = send_command(
            &call,
            command,
            format!("{to} is a copy of {env}, until argus_down of it"),
        )
        .await?;
        Ok(said.then(wait_for(&to)))
    }
}

/// Whether a test begins or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Moment {
    Begin,
    End,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Test {
    /// `begin` before the run, `end` after it
    action: Moment,
    /// Environment
    environment: String,
    /// Name of the test case; the same for begin and end
    case: String,
    /// How long it may take; then it counts as ended
    #[serde(default = "ttl")]
    #[schemars(range(min = 1))]
    ttl_seconds: u32,
    /// Of `begin`: who you are, for others who want the environment
    holder: Option<String>,
    /// Of `begin`: what the run is for
    purpose: Option<String>,
}

fn ttl() -> u32 {
    600
}

impl Tool for Test {
    const NAME: &'static str = "argus_test";
    const TITLE: &'static str = "Say that a test begins or ended";
    const ABOUT: &'static str = "Call it with `begin` before you run tests against an environment and with `end` after: in between, \
running containers are not restarted under the test, and `argus_status` shows others who runs it and until when. `end` tells which services failed meanwhile and whether that was the \
infrastructure's doing: then a failed test proves nothing about the code.";
    const EFFECT: Effect = Effect::Adds;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::named(&self.environment)?;
        let (env, case) = (self.environment, self.case);
        match self.action {
            Moment::Begin => {
                let command = Command::BeginTest {
                    environment,
                    case: case.clone(),
                    ttl: Duration::from_secs(u64::from(self.ttl_seconds)),
                    holder: self.holder,
                    purpose: self.purpose,
                };
                let before = call.status(&env).await?;
                let mut text = format!("test `{case}` runs on {env}, for {} s at most", self.ttl_seconds);
                let others = before.map(|status| status.tests).unwrap_or_default();
                for other in others.iter().filter(|other| other.case != case) {
                    // A string takes whatever is written.
                    let _ = write!(text, "\nbeside it {}", running(other));
                }
                let end = json!({ "action": "end", "environment": env, "case": case });
                let said = send_command(&call, command, text).await?;
                Ok(said.then(NextStep::new("when the run is over", Self::NAME, end)))
            }
            Moment::End => {
                let mut said =
                    send_command(&call, Command::EndTest { environment, case }, String::new()).await?;
                if let Some(report) = test::report(&said.data) {
                    said.text = test::told(&report);
                    let first = report.disruptions.first();
                    said.next.extend(first.map(|found| {
                        let run =
                            json!({ "environment": env, "service": found.service, "run": found.number });
                        NextStep::new("what that run left", "argus_evidence", run)
                    }));
                }
                Ok(said)
            }
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Down {
    /// Environment
    environment: String,
}

impl Tool for Down {
    const NAME: &'static str = "argus_down";
    const TITLE: &'static str = "Remove an environment";
    const ABOUT: &'static str = "Removes the containers and networks of an environment from the engine; named volumes and the file stay. \
It stays away until its file changes or `argus_retry`. When you are done with an environment.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = CommandReply;

    async fn call(self, call: Call) -> Result<Output<CommandReply>, Failure> {
        let environment = status::named(&self.environment)?;
        let env = self.environment;
        let told = call.status(&env).await?;
        if let Some(held) = told.as_ref().and_then(wait::leased) {
            // What another controller works on is not ours to remove.
            return Err(Failure::new(held.clone()));
        }
        let said = send_command(
            &call,
            Command::Down { environment },
            format!("{env} is being removed"),
        )
        .await?;
        let gone = json!({ "environment": env, "for": "gone" });
        Ok(said.then(NextStep::new("returns when it is gone", "argus_wait", gone)))
    }
}
