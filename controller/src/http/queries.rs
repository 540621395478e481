//! What a look finds out: plans, links, files, findings, disk space; each as the command of the same name tells it.

use argus_crds::error::Code;
use argus_reconciler::specs::scan::MAX_FILE;
use axum::Json;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::environments::environment;
use super::params::{Path, Query};
use super::problem::Problem;
use super::{AppState, actions};
use crate::cli::validate as cli_validate;
use crate::cli::{doctor, network as cli_network, plan as cli_plan, prune as cli_prune, spec_files, status};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// A file as long as any that is read, as JSON.
const LARGEST_SPEC: usize = 4 << 20;
const _: () = assert!(LARGEST_SPEC as u64 >= 2 * MAX_FILE);

/// Lets in bodies that have a file in them.
pub(super) fn file_sized() -> DefaultBodyLimit {
    DefaultBodyLimit::max(LARGEST_SPEC)
}

/// They ask the engine for a lot: one of each kind at a time, whoever asks.
static PLANS: Semaphore = Semaphore::const_new(1);
static NETWORKS: Semaphore = Semaphore::const_new(1);
static DOCTORS: Semaphore = Semaphore::const_new(1);
static PRUNES: Semaphore = Semaphore::const_new(1);

/// Which environment is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// All of them without.
    environment: Option<String>,
}

/// The text of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    content: String,
}

/// How much of the disk is given back.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HowMuch {
    /// Leave the builder's cache, which is everybody's on that engine.
    #[serde(default)]
    images_only: bool,
}

/// Nothing stands in such a body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What a body says.
async fn told<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let body = Value::Object(actions::body(request).await?);
    serde_json::from_value(body)
        .map_err(|error| Problem::asked(StatusCode::BAD_REQUEST, error.to_string().to_lowercase()))
}

/// What is asked for is not there, where that is what is wrong.
fn missing(failure: Failure) -> Problem {
    match Problem::from(failure) {
        problem if problem.is_of(Code::PrereqMissing) => problem.status(StatusCode::NOT_FOUND),
        problem => problem,
    }
}

pub(super) async fn plan(
    State(desk): State<AppState>,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let named = which.environment.as_deref().map(status::named).transpose();
    named.map_err(|bad| Problem::from(bad).status(StatusCode::BAD_REQUEST))?;
    // Never closed.
    let _turn = PLANS.acquire().await;
    let settings = desk.client.read(|client| Ok(client.looking())).await?;
    let ahead = Box::pin(cli_plan::plan_report(&settings, which.environment.as_deref())).await;
    Ok(Json(ahead.map_err(missing)?).into_response())
}

pub(super) async fn network(
    State(desk): State<AppState>,
    Path(env): Path<String>,
) -> Result<Response, Problem> {
    let status = environment(&desk, &env).await?;
    Ok(Json(cli_network::last(status)).into_response())
}

pub(super) async fn verify(
    State(desk): State<AppState>,
    Path(env): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let Nothing {} = told(request).await?;
    let env = status::named(&env).map_err(|bad| Problem::from(bad).status(StatusCode::NOT_FOUND))?;
    let _turn = NETWORKS.acquire().await;
    let settings = desk.client.read(|client| Ok(client.looking())).await?;
    let seen = Box::pin(cli_network::now(&settings, &env)).await;
    Ok(Json(seen.map_err(missing)?).into_response())
}

pub(super) async fn folder(State(desk): State<AppState>) -> Result<Response, Problem> {
    let read = |client: &ControllerClient| cli_validate::look(client.settings(), &[client.specs()]);
    let looked = desk.client.read(read).await?;
    Ok(Json(cli_validate::told(&looked)).into_response())
}

pub(super) async fn validate(State(desk): State<AppState>, request: Request) -> Result<Response, Problem> {
    let spec: Spec = told(request).await?;
    let looked = desk.client.read(move |client| {
        let place = client.specs().join("e2e.yaml");
        Ok(spec_files::text(
            client.settings(),
            &place,
            spec.content.as_bytes(),
        ))
    });
    Ok(Json(cli_validate::told(&[looked.await?])).into_response())
}

pub(super) async fn doctor(State(desk): State<AppState>) -> Result<Response, Problem> {
    let _turn = DOCTORS.acquire().await;
    let settings = desk.client.read(|client| Ok(client.looking())).await?;
    Ok(Json(Box::pin(doctor::told(settings)).await?).into_response())
}

pub(super) async fn prune_report(
    State(desk): State<AppState>,
    Query(how): Query<HowMuch>,
) -> Result<Response, Problem> {
    prune_with(&desk, &how, false).await
}

pub(super) async fn prune(State(desk): State<AppState>, request: Request) -> Result<Response, Problem> {
    prune_with(&desk, &told(request).await?, true).await
}

async fn prune_with(desk: &AppState, how: &HowMuch, remove: bool) -> Result<Response, Problem> {
    let _turn = PRUNES.acquire().await;
    let settings = desk.client.read(|client| Ok(client.looking())).await?;
    let mut found = Box::pin(cli_prune::look(&settings, how.images_only)).await?;
    if remove {
        cli_prune::remove(&settings, how.images_only, &mut found).await?;
    }
    Ok(Json(found).into_response())
}
