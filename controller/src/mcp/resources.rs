//! MCP resources: the status files and the evidence of the state directory.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

use crate::api::evidence::report as evidence;
use crate::api::evidence_store;
use crate::api::target;
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::render::foreign_text;

const CONTROLLER: &str = "argus://controller";
const ENVIRONMENT: &str = "argus://environments/";
const EVIDENCE: &str = "argus://evidence/";
const JSON: &str = "application/json";
/// Maximum number of lines per stream in a resource.
const MAX_LINES: usize = 1_000;

/// Lists all existing resources.
pub(super) async fn list(client: &ControllerClient) -> Result<Vec<Resource>, ErrorData> {
    client.run_blocking(list_all).await.map_err(internal_error)
}

fn list_all(client: &ControllerClient) -> Result<Vec<Resource>, Failure> {
    let one = |uri: String, name: String, about: &str| {
        Resource::new(uri, name)
            .with_description(about)
            .with_mime_type(JSON)
    };
    let mut all = vec![one(
        CONTROLLER.to_owned(),
        "controller".to_owned(),
        "Status of the controller: mode, engine, breaker, orphans, rejected files",
    )];
    let statuses = client.read_statuses()?;
    for env in statuses.environments.keys() {
        all.push(one(
            format!("{ENVIRONMENT}{env}"),
            env.clone(),
            "Status of the environment: phase, conditions, services, ports, errors",
        ));
        for service in evidence_store::list_services(client.state(), env).unwrap_or_default() {
            for run in evidence_store::list_run_numbers(client.state(), env, &service).unwrap_or_default() {
                all.push(one(
                    format!("{EVIDENCE}{env}/{service}/{run}"),
                    format!("{env}/{service} run {run}"),
                    "Evidence of a failed run",
                ));
            }
        }
    }
    Ok(all)
}

/// Lists the URI templates.
pub(super) fn list_templates() -> Vec<ResourceTemplate> {
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
            "Evidence of a failed run of a service, with its last lines",
        ),
    ]
}

/// Reads a resource.
pub(super) async fn read(client: &ControllerClient, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let uri = uri.to_owned();
    let contents = client.run_blocking(move |client| Ok(read_uri(client, &uri)));
    contents.await.map_err(internal_error)?
}

fn read_uri(client: &ControllerClient, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let statuses = || client.read_statuses().map_err(internal_error);
    if uri == CONTROLLER {
        return Ok(to_result(uri, &statuses()?.controller));
    }
    if let Some(env) = uri.strip_prefix(ENVIRONMENT) {
        let status = client.read_environment(env).map_err(not_found_error)?;
        return Ok(to_result(uri, &status));
    }
    let parts = uri
        .strip_prefix(EVIDENCE)
        .map(|rest| rest.split('/').collect::<Vec<_>>());
    if let Some([env, service, run]) = parts.as_deref()
        && let Ok(run) = run.parse()
    {
        let (env, service) = target::parse_target(env, Some(service)).map_err(not_found_error)?;
        let service = service.unwrap_or_default();
        let state = client.state();
        let run = evidence_store::select_run(state, &env, &service, Some(run)).map_err(not_found_error)?;
        return Ok(to_result(
            uri,
            &evidence::create_report(state, &run, MAX_LINES).map_err(internal_error)?,
        ));
    }
    let message = format!(
        "unknown resource `{uri}`; available are `{CONTROLLER}`, `{ENVIRONMENT}ENV`, `{EVIDENCE}ENV/SERVICE/RUN`"
    );
    Err(ErrorData::resource_not_found(message, None))
}

fn to_result<T: Serialize>(uri: &str, value: &T) -> ReadResourceResult {
    // Our own types have text keys and no foreign serializers, so they always serialize.
    let text = serde_json::to_string(value).unwrap_or_default();
    let text = foreign_text::escape_json(&text);
    let contents = ResourceContents::text(text, uri).with_mime_type(JSON);
    ReadResourceResult::new(vec![contents])
}

fn not_found_error(failure: Failure) -> ErrorData {
    let error = failure.into_error();
    ErrorData::resource_not_found(error.message.clone(), serde_json::to_value(error).ok())
}

fn internal_error(failure: Failure) -> ErrorData {
    let error = failure.into_error();
    ErrorData::internal_error(error.message.clone(), serde_json::to_value(error).ok())
}
