//! `?debug=true`: every error of an answer tells what was called.

use argus_crds::error::{Call, StructuredError};
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header, uri::PathAndQuery};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::problem::Problem;
use crate::call_trace;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Answers that are larger are told as they are.
const LARGEST: u64 = 16 << 20;
/// More of a path is nobody's.
const LONGEST_PATH: usize = 200;
/// Where tools are asked for it, each by itself.
const TOOLS: &str = "/mcp";

/// Takes the question out of the query, so that no handler has to know it; behind the guard, which has the first word.
pub(super) async fn ask(mut request: Request, next: Next) -> Response {
    match taken(request.uri()) {
        Ok((_, uri)) => {
            *request.uri_mut() = uri;
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Answers it, whoever told the error: before the guard, which tells some.
pub(super) async fn tell(State(client): State<ControllerClient>, request: Request, next: Next) -> Response {
    // What cannot be understood is refused further in.
    let (asked, uri) = taken(request.uri()).unwrap_or((None, request.uri().clone()));
    let asked = asked.unwrap_or(client.settings().debug) && uri.path() != TOOLS;
    if !asked {
        return next.run(request).await;
    }
    let call = call(request.method(), &uri);
    let answer = next.run(request).await;
    let size = answer.body().size_hint().upper();
    if is_json(&answer) && size.is_some_and(|size| size <= LARGEST) {
        told(&client, answer, call).await
    } else {
        answer
    }
}

/// Whether it is asked for, and the address without it.
fn taken(uri: &Uri) -> Result<(Option<bool>, Uri), Problem> {
    let pairs: Vec<&str> = uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .collect();
    let is_ours = |pair: &&&str| pair.split('=').next() == Some("debug");
    let mut asked = None;
    for pair in pairs.iter().filter(is_ours) {
        asked = match pair.split_once('=').map(|(_, value)| value) {
            None | Some("true" | "1" | "") => Some(true),
            Some("false" | "0") => Some(false),
            Some(other) => {
                let message = format!("`debug` is `true` or `false`, and not `{other}`");
                return Err(Problem::asked(StatusCode::BAD_REQUEST, message));
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
    // What was part of an address is one.
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    Ok((asked, Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())))
}

fn call(method: &Method, uri: &Uri) -> Call {
    let pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
    let pairs = pairs.filter(|pair| !pair.is_empty());
    let argument = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), Value::from(value))
    };
    let path: String = uri.path().chars().take(LONGEST_PATH).collect();
    Call::new(format!("{method} {path}"), call_trace::tame(pairs.map(argument)))
}

fn is_json(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    ["application/json", "application/problem+json"]
        .iter()
        .any(|json| kind.starts_with(json))
}

async fn told(client: &ControllerClient, answer: Response, call: Call) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Problem::from(Failure::fault("cannot answer", &error)).into_response(),
    };
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    let (filled, _) = client.with_calls(value).await;
    let value = if parts.status.is_success() {
        filled
    } else {
        before(filled, call)
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(value.to_string()))
}

/// The error with what was asked of us in front of what that led to.
fn before(mut error: Value, call: Call) -> Value {
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
    fn the_question_is_taken_out_of_the_query() {
        for (asked, is_asked, rest) in [
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
            let (found, uri) = taken(&asked.parse().unwrap()).unwrap();
            assert_eq!((found, uri.to_string().as_str()), (is_asked, rest), "{asked}");
        }
        assert!(taken(&"/x?debug=perhaps".parse().unwrap()).is_err());
    }
}
