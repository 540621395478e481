//! What containers wrote: those that run, and those that failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::summary::clipped;
use super::tool::{Effect, Tool};
use crate::cli::{evidence, evidence_store, logs, target};
use crate::exit::Failure;

/// Lines where nobody says how many, and the most.
const LINES: u32 = 50;
const MOST_LINES: u32 = 1_000;
/// How long a line is.
const LINE: usize = 2_000;

fn tail() -> u32 {
    LINES
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Evidence {
    /// Environment
    environment: String,
    /// Service; without, the runs are listed of which something is kept
    service: Option<String>,
    /// Which failed run; the newest without
    run: Option<u64>,
    /// Last lines of each stream, at most 1000
    #[serde(default = "tail")]
    #[schemars(range(max = 1000))]
    tail: u32,
}

impl Tool for Evidence {
    const NAME: &'static str = "argus_evidence";
    const TITLE: &'static str = "What a failed run left";
    const ABOUT: &'static str = "Shows what a failed run of a service left, taken before anything was done to its container and kept \
after it is gone: exit code, signal, memory, health checks, the last lines of stderr and stdout. For what runs now: `argus_logs`.";
    const EFFECT: Effect = Effect::Looks;
    type Output = EvidenceOutput;

    async fn call(self, call: Call) -> Result<Output<EvidenceOutput>, Failure> {
        let (env, service) = target::parts(&self.environment, self.service.as_deref())?;
        let Some(service) = service else {
            return listed(&call, env).await;
        };
        let tail = usize::try_from(self.tail.min(MOST_LINES)).unwrap_or(usize::MAX);
        let again = json!({ "environment": env });
        let read = call.client.read(move |client| {
            let state = client.state();
            let run = evidence_store::chosen(state, &env, &service, self.run)?;
            let told = evidence::told(state, &run, tail)?;
            let text = evidence::words(state, &run, &told)?;
            Ok((told, text))
        });
        let (told, text) = read.await?;
        let step = NextStep::new(
            "once the cause is mended and its file or image did not change",
            "argus_retry",
            again,
        );
        let told = EvidenceOutput {
            items: None,
            run: Some(told),
        };
        Ok(Output::new(told, text).then(step))
    }
}

/// What failed runs left.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EvidenceOutput {
    /// All of which something is kept, where no service is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<evidence::Run>>,
    /// All of one.
    #[serde(flatten)]
    run: Option<evidence::EvidenceReport>,
}

async fn listed(call: &Call, env: String) -> Result<Output<EvidenceOutput>, Failure> {
    let named = env.clone();
    let read = call
        .client
        .read(move |client| evidence::listed(client.state(), &named, None));
    let found = read.await?;
    let newest = found.items.last();
    let next = newest.map(|run| {
        let of = json!({ "environment": env, "service": run.service, "run": run.run });
        NextStep::new("all that this run left", Evidence::NAME, of)
    });
    let text: String = found.items.iter().map(evidence::Run::line).collect();
    let told = EvidenceOutput {
        items: Some(found.items),
        run: None,
    };
    let mut said = Output::new(told, text);
    said.next.extend(next);
    Ok(said)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Logs {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// Service; all of them without
    service: Option<String>,
    /// Last lines of each container, at most 1000
    #[serde(default = "tail")]
    #[schemars(range(max = 1000))]
    tail: u32,
}

impl Tool for Logs {
    const NAME: &'static str = "argus_logs";
    const TITLE: &'static str = "What containers write";
    const ABOUT: &'static str = "Shows the last lines that the containers of an environment, or of one service, wrote. It asks the engine. \
A container that was made anew says nothing of the run that failed: that is in `argus_evidence`.";
    const EFFECT: Effect = Effect::Looks;
    type Output = logs::LogsResponse;

    async fn call(self, call: Call) -> Result<Output<logs::LogsResponse>, Failure> {
        let (env, service) = target::parts(&self.environment, self.service.as_deref())?;
        let client = &call.client;
        if let Ok(status) = client.find_environment(&env).await
            && let Some(name) = &service
            && !status.services.iter().any(|row| row.name == *name)
        {
            return Err(evidence_store::no_service(&status, name));
        }
        let tail = self.tail.min(MOST_LINES);
        let mut told = Box::pin(logs::tail(client.settings(), &env, service.as_deref(), tail)).await?;
        for line in &mut told.items {
            line.text = clipped(&line.text, LINE);
        }
        let many = service.is_none();
        let shown = |line: &logs::Written| {
            if many {
                format!("{} | {}\n", line.service, line.text)
            } else {
                format!("{}\n", line.text)
            }
        };
        let mut text: String = told.items.iter().map(shown).collect();
        if told.items.is_empty() {
            "nothing is written\n".clone_into(&mut text);
        }
        let mut said = Output::new(told, text);
        let Some(service) = service else { return Ok(said) };
        let (of_env, of_service) = (env.clone(), service.clone());
        let read =
            client.read(move |client| evidence_store::chosen(client.state(), &of_env, &of_service, None));
        if read.await.is_ok() {
            let of = json!({ "environment": env, "service": service });
            said = said.then(NextStep::new("what its last failed run left", Evidence::NAME, of));
        }
        Ok(said)
    }
}
