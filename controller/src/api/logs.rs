//! Logs of the containers of an environment.

pub(crate) mod sources;
pub(crate) mod time_range;

use argus_backend::LogQuery;
use argus_reconciler::clock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::evidence::Evidence;
use super::summary::clip;
use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::api::evidence_store;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_lines;
use sources::{LogEntry, LogsResponse};
use time_range::TimeRange;

/// Default and maximum number of lines per container.
const DEFAULT_LINES: u32 = 50;
const MAX_LINES: u32 = 10_000;
/// Maximum number of lines per container in a summary, and of characters per line.
const MAX_SUMMARY: usize = 1_000;
const MAX_LINE: usize = 2_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Logs {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// Service name [default: all]
    service: Option<String>,
    /// Number of last lines per container, at most 10000; agents get at most 1000
    #[serde(default = "default_tail")]
    #[schemars(range(max = 10_000))]
    tail: u32,
    /// Only lines since this time: a duration before now such as `10m`, or RFC 3339
    since: Option<String>,
    /// Only lines until this time
    until: Option<String>,
}

fn default_tail() -> u32 {
    DEFAULT_LINES
}

impl Operation for Logs {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/logs",
            "last lines of each container; needs the token",
        )
        .without(&["service"]),
        Route::get(
            "/api/v1/environments/{environment}/services/{service}/logs",
            "last lines of the container; needs the token",
        ),
    ];
    const IS_PRIVATE: bool = true;
    type Output = LogsResponse;

    async fn run(&self, context: &Context) -> Result<LogsResponse, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let range = TimeRange::parse(self.since.as_deref(), self.until.as_deref(), clock::now())
            .map_err(Failure::usage)?;
        let client = &context.client;
        if let Ok(status) = client.find_environment(&env).await
            && let Some(name) = &service
            && !status.services.iter().any(|row| row.name == *name)
        {
            return Err(evidence_store::no_service_failure(&status, name));
        }
        let query = LogQuery {
            tail: Some(self.tail.min(MAX_LINES)),
            ..LogQuery::default()
        };
        Box::pin(sources::read_lines(
            client.settings(),
            &env,
            service.as_deref(),
            query,
            range,
        ))
        .await
    }
}

impl Tool for Logs {
    const NAME: &'static str = "argus_logs";
    const TITLE: &'static str = "Container logs";
    const ABOUT: &'static str = "Returns the last log lines of the containers of an environment or of one service, from the engine. The logs \
of a recreated container do not contain the failed run; use `argus_evidence` for it.";
    type Data = LogsResponse;

    async fn summarize(&self, mut output: LogsResponse, context: &Context) -> Summary<LogsResponse> {
        let (env, service) =
            target::parse_target(&self.environment, self.service.as_deref()).unwrap_or_default();
        output.keep_last(MAX_SUMMARY);
        for line in &mut output.items {
            line.text = clip(&line.text, MAX_LINE);
        }
        let format = |line: &LogEntry| match &service {
            None => mark_lines(&format!("{}: {}", line.service, line.text)),
            Some(_) => mark_lines(&line.text),
        };
        let mut text: String = output.items.iter().map(format).collect();
        if output.items.is_empty() {
            "no output\n".clone_into(&mut text);
        }
        if let Some(run) = output.run {
            text.insert_str(
                0,
                &format!("the service has no container: stored lines of failed run {run}\n"),
            );
        }
        let output = Summary::new(output, text);
        let Some(service) = service else { return output };
        let of = json!({ "environment": env, "service": service });
        let select = context
            .client
            .run_blocking(move |client| evidence_store::select_run(client.state(), &env, &service, None));
        if select.await.is_err() {
            return output;
        }
        output.with_next(NextStep::new(
            "evidence of its last failed run",
            Evidence::NAME,
            of,
        ))
    }
}
