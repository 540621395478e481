//! Evidence of failed runs: logs, exit, memory.

pub(crate) mod report;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};

use super::target;
use crate::api::evidence_store;
use crate::api::evidence_store::Line;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_lines;

/// Default and maximum number of lines per stream.
const DEFAULT_LINES: u32 = 50;
const MAX_LINES: u32 = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Evidence {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: list the failed runs]
    pub(crate) service: Option<String>,
    /// Number of the failed run [default: the newest]
    pub(crate) run: Option<u64>,
    /// Number of last lines per stream, at most 1000
    #[serde(default = "default_tail", deserialize_with = "bounded_tail")]
    #[schemars(range(max = 1000))]
    pub(crate) tail: u32,
    /// List the failed runs of the service
    #[serde(default)]
    pub(crate) list: bool,
}

fn default_tail() -> u32 {
    DEFAULT_LINES
}

fn bounded_tail<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(u32::deserialize(deserializer)?.min(MAX_LINES))
}

/// A list of failed runs, or the evidence of one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceOutput {
    /// Failed runs with stored evidence, for calls without a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) items: Option<Vec<report::FailedRunReport>>,
    /// Evidence of one run.
    #[serde(flatten)]
    pub(crate) run: Option<report::EvidenceReport>,
}

impl Operation for Evidence {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/evidence",
            "failed runs with stored evidence; needs the token",
        )
        .fixed(&[("list", "true")])
        .without(&["run", "tail"]),
        Route::get(
            "/api/v1/environments/{environment}/services/{service}/evidence",
            "evidence of a failed run; needs the token",
        )
        .fixed(&[("list", "false")]),
    ];
    const IS_PRIVATE: bool = true;
    type Output = EvidenceOutput;

    async fn run(&self, context: &Context) -> Result<EvidenceOutput, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let (number, list) = (self.run, self.list);
        if list && number.is_some() {
            let failure = Failure::usage("cannot list one run: `--list` shows all runs");
            return Err(failure.with_hint("omit the run number or `--list`"));
        }
        if number.is_some() && service.is_none() {
            return Err(Failure::usage(
                "runs are numbered per service: `run` needs `service`",
            ));
        }
        let tail = usize::try_from(self.tail).unwrap_or(usize::MAX);
        let read = context.client.run_blocking(move |client| {
            let state = client.state();
            let Some(service) = service.as_deref().filter(|_| !list) else {
                let runs = report::list_runs(state, &env, service.as_deref())?;
                return Ok(EvidenceOutput {
                    items: Some(runs.items),
                    run: None,
                });
            };
            let run = evidence_store::select_run(state, &env, service, number)?;
            let report = report::create_report(state, &run, tail)?;
            Ok(EvidenceOutput {
                items: None,
                run: Some(report),
            })
        });
        read.await
    }
}

impl Tool for Evidence {
    const NAME: &'static str = "argus_evidence";
    const TITLE: &'static str = "Evidence of a failed run";
    const ABOUT: &'static str = "Returns the crash report of a failed run, collected before any change of its container and kept after its \
removal: exit code, signal, memory, health checks, last lines of stderr and stdout. For running containers, use `argus_logs`.";
    type Data = EvidenceOutput;

    async fn summarize(&self, output: EvidenceOutput, _context: &Context) -> Summary<EvidenceOutput> {
        let env = self.environment.split('/').next().unwrap_or_default();
        let Some(items) = &output.items else {
            let again = json!({ "environment": env });
            let mark = |line: &Line| mark_lines(&line.format(false));
            let text = output.run.as_ref().map(|run| report::format_evidence(run, mark));
            let text = text.unwrap_or_default();
            return Summary::new(output, text).with_next(NextStep::new(
                "after fixing a cause outside the file and the image",
                "argus_retry",
                again,
            ));
        };
        let text: String = items.iter().map(report::FailedRunReport::format_line).collect();
        let newest = items.last().map(|run| {
            let of = json!({ "environment": env, "service": run.service, "run": run.run });
            NextStep::new("evidence of this run", Self::NAME, of)
        });
        Summary {
            data: output,
            text,
            next: newest.into_iter().collect(),
        }
    }
}
