//! Retry of an environment or a service. It returns when the status no longer shows the old failure.

use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::Deserialize;

use super::commands::{send_and_wait, wait_step};
use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::command_reply::CommandReply;
use crate::exit::Failure;
use crate::status;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Retry {
    /// Environment name
    pub(crate) environment: String,
}

impl Operation for Retry {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/retry",
        "retries given-up services",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let command = Command::Retry {
            environment: environment.clone(),
        };
        send_and_wait(context, &environment, command).await
    }
}

impl Tool for Retry {
    const NAME: &'static str = "argus_retry";
    const TITLE: &'static str = "Retry";
    const ABOUT: &'static str = "Retries services that Argus gave up, with the same file and with failure counters at zero. It also restores what \
`argus_down` removed, and ends an automatic rollback; a rollback by `argus_rollback` stays until the file changes. Not needed after an edit, which takes effect automatically.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let env = &self.environment;
        Summary::new(reply, format!("{env} is retried")).with_next(wait_step(env))
    }
}
