//! Routes of the operations in [`crate::api`].

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{DefaultBodyLimit, RawPathParams, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};

use super::AppState;
use super::commands;
use super::guard::Trust;
use super::params::Query;
use super::problem::Problem;
use crate::api::{Context, Method, Route, arguments};
use crate::operations::{self, CallError, OperationEntry};
use crate::process::exit::Failure;

/// Adds the routes of all operations.
pub(super) fn add(router: Router<AppState>) -> Router<AppState> {
    let all = operations::all()
        .iter()
        .flat_map(|entry| (0..entry.routes.len()).map(move |index| (entry, index)));
    all.fold(router, |router, (entry, index)| {
        let route = &entry.routes[index];
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let handler = move |app, trust, variables, query, request| {
            respond(entry, index, app, trust, variables, query, request)
        };
        let mut methods = on(filter, handler);
        if let Some(bytes) = route.max_body {
            methods = methods.layer(DefaultBodyLimit::max(bytes));
        }
        router.route(route.path, methods)
    })
}

/// Runs an operation and returns its output.
async fn respond(
    entry: &'static OperationEntry,
    index: usize,
    State(app): State<AppState>,
    Extension(trust): Extension<Trust>,
    variables: Result<RawPathParams, RawPathParamsRejection>,
    Query(query): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Response, Problem> {
    let route = &entry.routes[index];
    let body = match route.method {
        Method::Get => arguments::Object::new(),
        Method::Post => commands::read_body(request).await?,
    };
    let variables = variables.map_err(|rejection| invalid(&rejection.body_text()))?;
    let variables = variables
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let arguments = arguments::of_request(&entry.arguments, route, variables, query, body)
        .map_err(|cause| invalid(&cause))?;
    let context = Context::new(app.client.for_caller(trust == Trust::User));
    let permits = &entry.permits[index];
    // The semaphore is never closed.
    let permit = if route.max_calls.is_some() {
        permits.try_acquire().ok()
    } else {
        permits.acquire().await.ok()
    };
    let Some(_permit) = permit else {
        let message = "too many waiting requests; use `/events` instead";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    let output = tokio::select! {
        biased;
        output = (entry.run)(arguments, context) => Some(output),
        () = app.stop.cancelled() => None,
    };
    // The end of the controller also makes operations fail, each in its way.
    let output = output.filter(|output| output.is_ok() || !app.stop.is_cancelled());
    let Some(output) = output else {
        let message = "the controller is stopping";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    let output = output.map_err(|error| match error {
        CallError::Arguments(cause) => invalid(&cause),
        CallError::Failed(failure) => problem(failure, route),
    })?;
    let status = if route.is_accepted {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok((status, [(header::CONTENT_TYPE, "application/json")], output).into_response())
}

/// Converts a failure. An invalid name in the path is reported as 404.
fn problem(failure: Failure, route: &Route) -> Problem {
    let problem = Problem::from(failure);
    if problem.is_invalid_name() && route.variables().next().is_some() {
        return problem.with_status(StatusCode::NOT_FOUND);
    }
    problem
}

fn invalid(cause: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("invalid arguments: {cause}"))
}
