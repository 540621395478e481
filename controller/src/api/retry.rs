//! Retry of an environment or a service. It returns when the status shows the command, and with it no old failure.

use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::Deserialize;

use super::commands::{format_target, parse_service, wait_step};
use super::{Context, Effect, Operation, Route, Summary, Tool, target};
use crate::command_reply::CommandReply;
use crate::exit::Failure;
use crate::status;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Retry {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: the whole environment]
    pub(crate) service: Option<String>,
}

impl Operation for Retry {
    const EFFECT: Effect = Effect::Additive;
    // It pulls and builds again.
    const IS_OPEN_WORLD: bool = true;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/retry",
        "retries given-up services of an environment, or one service",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let command = Command::Retry {
            environment: status::parse_environment(&env)?,
            service: parse_service(service)?,
        };
        context.client.send(command).await
    }
}

impl Tool for Retry {
    const NAME: &'static str = "argus_retry";
    const TITLE: &'static str = "Retry";
    const ABOUT: &'static str = "Retries services that Argus gave up, with the same file and with failure counters at zero; with `service`, only this one. For an environment, it also restores what \
`argus_down` removed, and ends an automatic rollback; a rollback by `argus_rollback` stays until the file changes. Not needed after an edit, which takes effect automatically.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let (env, service) =
            target::parse_target(&self.environment, self.service.as_deref()).unwrap_or_default();
        let text = format!("{} is retried", format_target(&env, service.as_deref()));
        Summary::new(reply, text).with_next(wait_step(&env))
    }
}
