//! Restart of an environment or a service. It returns when the controller has stored the request, and its effects follow.

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
pub(crate) struct Restart {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: the whole environment]
    pub(crate) service: Option<String>,
}

impl Operation for Restart {
    const EFFECT: Effect = Effect::DestructiveEachTime;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/restart",
        "restarts a service, or all services of an environment",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let command = Command::Restart {
            environment: status::parse_environment(&env)?,
            service: parse_service(service)?,
        };
        context.client.send(command).await
    }
}

impl Tool for Restart {
    const NAME: &'static str = "argus_restart";
    const TITLE: &'static str = "Restart";
    const ABOUT: &'static str = "Stops and starts the containers of a service, or of an environment without its completed one-shots. It uses no \
restart budget and does not count as a failure. During a test lease, it waits. Not needed after an edit, which takes effect automatically.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let (env, service) =
            target::parse_target(&self.environment, self.service.as_deref()).unwrap_or_default();
        let text = format!("{} restarts", format_target(&env, service.as_deref()));
        Summary::new(reply, text).with_next(wait_step(&env))
    }
}
