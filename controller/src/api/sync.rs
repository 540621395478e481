//! Scan of the specs folder, and failed preflight checks, on request.

use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Effect, Operation, Route};
use crate::client::command_reply::CommandReply;
use crate::process::exit::Failure;

/// Reads all spec files again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sync {}

impl Operation for Sync {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/sync",
        "scans the specs folder, repeats the preflight checks that an environment waits for, and responds when the status files show the result; with `TIMEOUT` if the scan lasts longer than 5 s",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        context.client.send(Command::Sync).await
    }
}
