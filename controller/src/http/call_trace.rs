//! Parameter `?debug=true`: adds call traces to every error of a response.

use argus_crds::error::{Call, StructuredError};
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header, uri::PathAndQuery};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::guard::Trust;
use super::problem::Problem;
use crate::client::ControllerClient;
use crate::local_state::call_trace;
use crate::process::exit::Failure;

/// Maximum size of a response with call traces, in bytes; larger ones stay unchanged.
const MAX_RESPONSE: u64 = 16 << 20;
/// Maximum length of a path in a call trace, in characters.
const MAX_PATH: usize = 200;
/// Path of MCP, where each tool call has its own `debug` argument.
const MCP_PATH: &str = "/mcp";

/// Removes the parameter from the query, so that no handler has to know it. Runs after the guard, which rejects requests first.
pub(super) async fn strip_parameter(mut request: Request, next: Next) -> Response {
    match parse_parameter(request.uri()) {
        Ok((_, uri)) => {
            *request.uri_mut() = uri;
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Adds call traces to the response, also to errors of the guard, which runs after this layer.
pub(super) async fn add_traces(
    State(client): State<ControllerClient>,
    request: Request,
    next: Next,
) -> Response {
    // `strip_parameter` rejects an invalid value.
    let (debug, uri) = parse_parameter(request.uri()).unwrap_or((None, request.uri().clone()));
    let debug = debug.unwrap_or(client.settings().debug) && uri.path() != MCP_PATH;
    if !debug {
        return next.run(request).await;
    }
    let call = call(request.method(), &uri);
    let response = next.run(request).await;
    // A response of the guard itself has no trust.
    let is_trusted = response.extensions().get::<Trust>() == Some(&Trust::User);
    let client = client.for_caller(is_trusted);
    let size = response.body().size_hint().upper();
    if is_json(&response) && size.is_some_and(|size| size <= MAX_RESPONSE) {
        add_to_response(&client, response, call).await
    } else {
        response
    }
}

/// Returns the value of the parameter, and the URI without it.
fn parse_parameter(uri: &Uri) -> Result<(Option<bool>, Uri), Problem> {
    let pairs: Vec<&str> = uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .collect();
    let is_ours = |pair: &&&str| pair.split('=').next() == Some("debug");
    let mut debug = None;
    for pair in pairs.iter().filter(is_ours) {
        debug = match pair.split_once('=').map(|(_, value)| value) {
            None | Some("true" | "1" | "") => Some(true),
            Some("false" | "0") => Some(false),
            Some(other) => {
                let message = format!("`debug` must be `true` or `false`, not `{other}`");
                return Err(Problem::new(StatusCode::BAD_REQUEST, message));
            }
        };
    }
    let rest: Vec<&str> = pairs.iter().filter(|pair| !is_ours(pair)).copied().collect();
    if rest.len() == pairs.len() {
        return Ok((None, uri.clone()));
    }
    let path = if rest.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), rest.join("&"))
    };
    let mut parts = uri.clone().into_parts();
    // A part of a valid URI is valid.
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    Ok((debug, Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())))
}

fn call(method: &Method, uri: &Uri) -> Call {
    let pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
    let pairs = pairs.filter(|pair| !pair.is_empty());
    let argument = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), Value::from(value))
    };
    let path: String = uri.path().chars().take(MAX_PATH).collect();
    Call::new(
        format!("{method} {path}"),
        call_trace::sanitize(pairs.map(argument)),
    )
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    ["application/json", "application/problem+json"]
        .iter()
        .any(|json| kind.starts_with(json))
}

async fn add_to_response(client: &ControllerClient, response: Response, call: Call) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            return Problem::from(Failure::operation_failed("cannot read the response body", &error))
                .into_response();
        }
    };
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    let (filled, _) = client.add_calls(value).await;
    let value = if parts.status.is_success() {
        filled
    } else {
        with_request(filled, call)
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(value.to_string()))
}

/// Puts the HTTP request in front of the other calls of the error.
fn with_request(mut error: Value, call: Call) -> Value {
    let known = serde_json::from_value::<StructuredError>(error.clone());
    if let (Ok(known), Value::Object(fields)) = (known, &mut error) {
        let calls = known.with_call(call).debug;
        fields.insert("debug".to_owned(), serde_json::json!(calls));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_parameter_is_removed_from_the_query() {
        for (given, expected, rest) in [
            ("/x", None, "/x"),
            ("/x?debug=true", Some(true), "/x"),
            ("/x?debug", Some(true), "/x"),
            (
                "/x?detail=full&debug=1&phase=Ready",
                Some(true),
                "/x?detail=full&phase=Ready",
            ),
            ("/x?debug=false&tail=3", Some(false), "/x?tail=3"),
            ("/x?debugger=true", None, "/x?debugger=true"),
        ] {
            let (debug, uri) = parse_parameter(&given.parse().unwrap()).unwrap();
            assert_eq!((debug, uri.to_string().as_str()), (expected, rest), "{given}");
        }
        assert!(parse_parameter(&"/x?debug=perhaps".parse().unwrap()).is_err());
    }
}
