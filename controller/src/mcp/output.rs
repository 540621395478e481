//! Tools for the output of running containers, and for the evidence of failed runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::summary::clip;
use super::tool::{Effect, Tool};
use crate::cli::{evidence, evidence_store, logs, target};
use crate::exit::Failure;

/// Default and maximum number of lines.
const DEFAULT_LINES: u32 = 50;
const MAX_LINES: u32 = 1_000;
/// Maximum length of a line, in characters.
const MAX_LINE: usize = 2_000;

fn default_tail() -> u32 {
    DEFAULT_LINES
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Evidence {
    /// Environment name
    environment: String,
    /// Service name [default: list the failed runs]
    service: Option<String>,
    /// Number of the failed run [default: the newest]
    run: Option<u64>,
    /// Number of last lines per stream, at most 1000
    #[serde(default = "default_tail")]
    #[schemars(range(max = 1000))]
    tail: u32,
}

impl Tool for Evidence {
    const NAME: &'static str = "argus_evidence";
    const TITLE: &'static str = "Evidence of a failed run";
    const ABOUT: &'static str = "Returns the crash report of a failed run, collected before any change of its container and kept after its \
removal: exit code, signal, memory, health checks, last lines of stderr and stdout. For running containers, use `argus_logs`.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = EvidenceOutput;

    async fn call(self, call: Call) -> Result<Output<EvidenceOutput>, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let Some(service) = service else {
            return list_runs(&call, env).await;
        };
        let tail = usize::try_from(self.tail.min(MAX_LINES)).unwrap_or(usize::MAX);
        let again = json!({ "environment": env });
        let read = call.client.run_blocking(move |client| {
            let state = client.state();
            let run = evidence_store::select_run(state, &env, &service, self.run)?;
            let report = evidence::create_report(state, &run, tail)?;
            let text = evidence::format_evidence(state, &run, &report)?;
            Ok((report, text))
        });
        let (report, text) = read.await?;
        let step = NextStep::new(
            "after fixing a cause outside the file and the image",
            "argus_retry",
            again,
        );
        let output = EvidenceOutput {
            items: None,
            run: Some(report),
        };
        Ok(Output::new(output, text).with_next(step))
    }
}

/// A list of failed runs, or the evidence of one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EvidenceOutput {
    /// Failed runs with stored evidence, for calls without a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<evidence::Run>>,
    /// Evidence of one run.
    #[serde(flatten)]
    run: Option<evidence::EvidenceReport>,
}

async fn list_runs(call: &Call, env: String) -> Result<Output<EvidenceOutput>, Failure> {
    let named = env.clone();
    let read = call
        .client
        .run_blocking(move |client| evidence::list_runs(client.state(), &named, None));
    let found = read.await?;
    let newest = found.items.last();
    let next = newest.map(|run| {
        let of = json!({ "environment": env, "service": run.service, "run": run.run });
        NextStep::new("evidence of this run", Evidence::NAME, of)
    });
    let text: String = found.items.iter().map(evidence::Run::format_line).collect();
    let output = EvidenceOutput {
        items: Some(found.items),
        run: None,
    };
    let mut output = Output::new(output, text);
    output.next.extend(next);
    Ok(output)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Logs {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// Service name [default: all]
    service: Option<String>,
    /// Number of last lines per container, at most 1000
    #[serde(default = "default_tail")]
    #[schemars(range(max = 1000))]
    tail: u32,
}

impl Tool for Logs {
    const NAME: &'static str = "argus_logs";
    const TITLE: &'static str = "Container logs";
    const ABOUT: &'static str = "Returns the last log lines of the containers of an environment or of one service, from the engine. The logs \
of a recreated container do not contain the failed run; use `argus_evidence` for it.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = logs::LogsResponse;

    async fn call(self, call: Call) -> Result<Output<logs::LogsResponse>, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let client = &call.client;
        if let Ok(status) = client.find_environment(&env).await
            && let Some(name) = &service
            && !status.services.iter().any(|row| row.name == *name)
        {
            return Err(evidence_store::no_service_failure(&status, name));
        }
        let tail = self.tail.min(MAX_LINES);
        let mut output = Box::pin(logs::read_tail(client.settings(), &env, service.as_deref(), tail)).await?;
        for line in &mut output.items {
            line.text = clip(&line.text, MAX_LINE);
        }
        let many = service.is_none();
        let format = |line: &logs::Written| {
            if many {
                format!("{} | {}\n", line.service, line.text)
            } else {
                format!("{}\n", line.text)
            }
        };
        let mut text: String = output.items.iter().map(format).collect();
        if output.items.is_empty() {
            "no output\n".clone_into(&mut text);
        }
        let mut output = Output::new(output, text);
        let Some(service) = service else { return Ok(output) };
        let (of_env, of_service) = (env.clone(), service.clone());
        let read = client.run_blocking(move |client| {
            evidence_store::select_run(client.state(), &of_env, &of_service, None)
        });
        if read.await.is_ok() {
            let of = json!({ "environment": env, "service": service });
            output = output.with_next(NextStep::new(
                "evidence of its last failed run",
                Evidence::NAME,
                of,
            ));
        }
        Ok(output)
    }
}
