//! Resources: status files and evidence, as they lie in the state directory.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

use crate::cli::{evidence, evidence_store, target};
use crate::client::ControllerClient;
use crate::exit::Failure;

const CONTROLLER: &str = "argus://controller";
const ENVIRONMENT: &str = "argus://environments/";
const EVIDENCE: &str = "argus://evidence/";
const JSON: &str = "application/json";
/// Lines of each stream in a resource.
const LINES: usize = 1_000;

/// All that is there.
pub(super) async fn list(client: &ControllerClient) -> Result<Vec<Resource>, ErrorData> {
    client.read(listed).await.map_err(failed)
}

fn listed(client: &ControllerClient) -> Result<Vec<Resource>, Failure> {
    let one = |uri: String, name: String, about: &str| {
        Resource::new(uri, name)
            .with_description(about)
            .with_mime_type(JSON)
    };
    let mut all = vec![one(
        CONTROLLER.to_owned(),
        "controller".to_owned(),
        "How the controller is: mode, engine, breaker, orphans, files that are refused",
    )];
    let shown = client.shown()?;
    for env in shown.environments.keys() {
        all.push(one(
            format!("{ENVIRONMENT}{env}"),
            env.clone(),
            "How the environment is: phase, conditions, services, ports, errors",
        ));
        for service in evidence_store::services(client.state(), env).unwrap_or_default() {
            for run in evidence_store::numbers(client.state(), env, &service).unwrap_or_default() {
                all.push(one(
                    format!("{EVIDENCE}{env}/{service}/{run}"),
                    format!("{env}/{service} run {run}"),
                    "What a failed run left",
                ));
            }
        }
    }
    Ok(all)
}

/// How the addresses are made.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let one = |uri: String, name: &str, about: &str| {
        ResourceTemplate::new(uri, name)
            .with_description(about)
            .with_mime_type(JSON)
    };
    vec![
        one(
            format!("{ENVIRONMENT}{{environment}}"),
            "environment",
            "The status document of an environment",
        ),
        one(
            format!("{EVIDENCE}{{environment}}/{{service}}/{{run}}"),
            "evidence",
            "What failed run N of a service left, with its last lines",
        ),
    ]
}

/// What is at an address.
pub(super) async fn read(client: &ControllerClient, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let uri = uri.to_owned();
    let looked = client.read(move |client| Ok(at(client, &uri)));
    looked.await.map_err(failed)?
}

fn at(client: &ControllerClient, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let shown = || client.shown().map_err(failed);
    if uri == CONTROLLER {
        return Ok(told(uri, &shown()?.controller));
    }
    if let Some(env) = uri.strip_prefix(ENVIRONMENT) {
        let status = client.environment(env).map_err(missing)?;
        return Ok(told(uri, &status));
    }
    let parts = uri
        .strip_prefix(EVIDENCE)
        .map(|rest| rest.split('/').collect::<Vec<_>>());
    if let Some([env, service, run]) = parts.as_deref()
        && let Ok(run) = run.parse()
    {
        let (env, service) = target::parts(env, Some(service)).map_err(missing)?;
        let service = service.unwrap_or_default();
        let state = client.state();
        let run = evidence_store::chosen(state, &env, &service, Some(run)).map_err(missing)?;
        return Ok(told(uri, &evidence::told(state, &run, LINES).map_err(failed)?));
    }
    let message = format!(
        "nothing is at `{uri}`; there are `{CONTROLLER}`, `{ENVIRONMENT}ENV`, `{EVIDENCE}ENV/SERVICE/RUN`"
    );
    Err(ErrorData::resource_not_found(message, None))
}

fn told<T: Serialize>(uri: &str, value: &T) -> ReadResourceResult {
    // Our own types have text keys and no foreign serializers: they can always be written.
    let text = serde_json::to_string(value).unwrap_or_default();
    let contents = ResourceContents::text(text, uri).with_mime_type(JSON);
    ReadResourceResult::new(vec![contents])
}

fn missing(failure: Failure) -> ErrorData {
    let error = failure.into_error();
    ErrorData::resource_not_found(error.message.clone(), serde_json::to_value(error).ok())
}

fn failed(failure: Failure) -> ErrorData {
    let error = failure.into_error();
    ErrorData::internal_error(error.message.clone(), serde_json::to_value(error).ok())
}
