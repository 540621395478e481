//! Queries with the results of the commands of the same name: plan, network, validate, doctor, prune.

use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use axum::Json;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::params::Query;
use super::problem::Problem;
use super::{AppState, actions};
use crate::cli::validate as cli_validate;
use crate::cli::{doctor, prune as cli_prune, spec_files};
use crate::client::ControllerClient;

/// Maximum size of a body with a spec file, in bytes.
const MAX_SPEC_BODY: usize = 4 << 20;
const _: () = assert!(MAX_SPEC_BODY as u64 >= 2 * MAX_FILE_BYTES);

/// Allows bodies with a spec file.
pub(super) fn spec_body_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_SPEC_BODY)
}

/// Limits of one request per kind at a time, because these queries make many calls to the engine.
static DOCTORS: Semaphore = Semaphore::const_new(1);
static PRUNES: Semaphore = Semaphore::const_new(1);

/// Body with the text of a spec file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    content: String,
}

/// Options of a prune.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PruneOptions {
    /// Keep the build cache, which all users of the engine share.
    #[serde(default)]
    images_only: bool,
}

/// Reads the body as `T`.
async fn read_body<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let body = Value::Object(actions::read_body(request).await?);
    serde_json::from_value(body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string().to_lowercase()))
}

pub(super) async fn validate_folder(State(app): State<AppState>) -> Result<Response, Problem> {
    let read =
        |client: &ControllerClient| cli_validate::check_paths(client.settings(), &[client.specs_folder()]);
    let files = app.client.run_blocking(read).await?;
    Ok(Json(cli_validate::create_report(&files)).into_response())
}

pub(super) async fn validate(State(app): State<AppState>, request: Request) -> Result<Response, Problem> {
    let spec: Spec = read_body(request).await?;
    let files = app.client.run_blocking(move |client| {
        let place = client.specs_folder().join("e2e.yaml");
        Ok(spec_files::parse_text(
            client.settings(),
            &place,
            spec.content.as_bytes(),
        ))
    });
    Ok(Json(cli_validate::create_report(&[files.await?])).into_response())
}

pub(super) async fn doctor(State(app): State<AppState>) -> Result<Response, Problem> {
    let _turn = DOCTORS.acquire().await;
    let settings = app
        .client
        .run_blocking(|client| Ok(client.query_settings()))
        .await?;
    Ok(Json(Box::pin(doctor::create_report(settings)).await?).into_response())
}

pub(super) async fn prune_report(
    State(app): State<AppState>,
    Query(options): Query<PruneOptions>,
) -> Result<Response, Problem> {
    prune_with(&app, &options, false).await
}

pub(super) async fn prune(State(app): State<AppState>, request: Request) -> Result<Response, Problem> {
    prune_with(&app, &read_body(request).await?, true).await
}

async fn prune_with(app: &AppState, options: &PruneOptions, remove: bool) -> Result<Response, Problem> {
    let _turn = PRUNES.acquire().await;
    let settings = app
        .client
        .run_blocking(|client| Ok(client.query_settings()))
        .await?;
    let mut report = Box::pin(cli_prune::create_report(&settings, options.images_only)).await?;
    if remove {
        cli_prune::remove_images(&settings, options.images_only, &mut report).await?;
    }
    Ok(Json(report).into_response())
}
