//! Circuit breakers: their states, and their reset.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_crds::status::{BreakerScope, BreakerStatus, EnvironmentStatus};
use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::command_reply::{CommandReply, CommandResult};
use crate::process::exit::Failure;

/// Reason why breakers do not accept a service.
const WHY_WHOLE: &str = "a circuit breaker counts the calls of its whole environment";

/// Circuit breakers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Breakers {
    /// Environment name [default: the engine and all environments]
    pub(crate) environment: Option<String>,
}

/// States of the breakers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BreakerReport {
    /// Breaker of the engine. `None` if not requested, or if no controller ever ran.
    pub(crate) engine: Option<BreakerStatus>,
    /// Breakers of the environments that ever counted a call, by environment name.
    pub(crate) environments: BTreeMap<String, BreakerStatus>,
}

impl Operation for Breakers {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get("/api/v1/breaker", "circuit breakers")];
    type Output = BreakerReport;

    async fn run(&self, context: &Context) -> Result<BreakerReport, Failure> {
        let client = &context.client;
        let Some(env) = &self.environment else {
            let statuses = client.statuses().await?;
            let own = |status: &Arc<EnvironmentStatus>| {
                let own = status.breaker.clone();
                let own = own.filter(|own| own.scope == BreakerScope::Environment);
                Some((status.environment.clone(), own?))
            };
            return Ok(BreakerReport {
                engine: statuses.controller.breaker.clone(),
                environments: statuses.environments.values().filter_map(own).collect(),
            });
        };
        let show =
            |env: &str| format!("show the breaker of the environment with `argus breaker status {env}`");
        target::parse_whole_environment(env, WHY_WHOLE, show)?;
        let breaker = client
            .find_environment(env)
            .await?
            .breaker
            .unwrap_or(BreakerStatus {
                scope: BreakerScope::Environment,
                ..BreakerStatus::default()
            });
        // The status of an environment contains the engine's breaker if that one is not closed.
        Ok(match breaker.scope {
            BreakerScope::Engine => BreakerReport {
                engine: Some(breaker),
                environments: BTreeMap::new(),
            },
            BreakerScope::Environment => BreakerReport {
                engine: None,
                environments: BTreeMap::from([(env.clone(), breaker)]),
            },
        })
    }
}

impl BreakerReport {
    /// All breakers with their names; the engine's comes first.
    pub(crate) fn rows(&self) -> Vec<(String, BreakerStatus)> {
        let engine = self
            .engine
            .iter()
            .map(|engine| ("engine".to_owned(), engine.clone()));
        engine.chain(self.environments.clone()).collect()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResetBreaker {
    /// Environment name [default: the engine and all environments]
    pub(crate) environment: Option<String>,
}

impl Operation for ResetBreaker {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/resetBreaker",
        "tests the engine immediately instead of after the cooldown",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let environment = self.environment.as_deref();
        let reset =
            |env: &str| format!("reset the breaker of the environment with `argus breaker reset {env}`");
        let parse = |env| target::parse_whole_environment(env, WHY_WHOLE, reset);
        let environment = environment.map(parse).transpose()?;
        let command = Command::ResetBreaker { environment };
        context.client.send(command).await
    }
}

impl Tool for ResetBreaker {
    const NAME: &'static str = "argus_reset_circuit";
    const TITLE: &'static str = "Test the engine immediately";
    const ABOUT: &'static str = "Ends the pause of an open circuit breaker: the controller tests the engine immediately with a full list and \
one call, instead of after `retryAfter`. Call it after `CIRCUIT_OPEN`, once the engine is fixed. \
Returns the state changes and the failures before the reset.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let text = match &reply.result {
            CommandResult::Circuit(reset) => reset.describe(),
            _ => String::new(),
        };
        let env = self.environment.as_ref();
        let arguments = env.map_or_else(|| json!({}), |env| json!({ "environment": env }));
        Summary::new(reply, text).with_next(NextStep::new("current status", "argus_status", arguments))
    }
}
