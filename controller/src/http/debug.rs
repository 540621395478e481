//! `?debug=true`: every error of an answer tells what was called.

use argus_crds::error::{Call, StructuredError};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header, uri::PathAndQuery};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::problem::Problem;
use crate::debug;
use crate::surface::Surface;

/// Answers that are larger are told as they are.
const LARGEST: usize = 16 << 20;

/// Takes the question out of the query, so that no handler has to know it, and answers it.
pub(super) async fn layer(State(surface): State<Surface>, mut request: Request, next: Next) -> Response {
    let asked = match taken(request.uri()) {
        Ok((asked, uri)) => {
            *request.uri_mut() = uri;
            asked
        }
        Err(problem) => return problem.into_response(),
    };
    if !(asked || surface.settings().debug) {
        return next.run(request).await;
    }
    let call = call(&request);
    let answer = next.run(request).await;
    if !is_json(&answer) {
        return answer;
    }
    match told(&surface, answer, call).await {
        Ok(answer) => answer,
        Err(problem) => problem.into_response(),
    }
}

/// Whether it is asked for, and the address without it.
fn taken(uri: &Uri) -> Result<(bool, Uri), Problem> {
    let pairs: Vec<&str> = uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .collect();
    let is_ours = |pair: &&&str| pair.split('=').next() == Some("debug");
    let mut asked = false;
    for pair in pairs.iter().filter(is_ours) {
        asked = match pair.split_once('=').map(|(_, value)| value) {
            None | Some("true" | "1" | "") => true,
            Some("false" | "0") => false,
            Some(other) => {
                let message = format!("`debug` is `true` or `false`, and not `{other}`");
                return Err(Problem::asked(StatusCode::BAD_REQUEST, message));
            }
        };
    }
    let rest: Vec<&str> = pairs.iter().filter(|pair| !is_ours(pair)).copied().collect();
    if rest.len() == pairs.len() {
        return Ok((false, uri.clone()));
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

fn call(request: &Request) -> Call {
    let pairs = request
        .uri()
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'));
    let pairs = pairs.filter(|pair| !pair.is_empty());
    let argument = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), Value::from(value))
    };
    let operation = format!("{} {}", request.method(), request.uri().path());
    Call::new(operation, debug::tame(pairs.map(argument).collect()))
}

fn is_json(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    ["application/json", "application/problem+json"]
        .iter()
        .any(|json| kind.starts_with(json))
}

async fn told(surface: &Surface, answer: Response, call: Call) -> Result<Response, Problem> {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        let message = format!("the answer is larger than {LARGEST} bytes; ask without `debug`");
        return Err(Problem::asked(StatusCode::PAYLOAD_TOO_LARGE, message));
    };
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        return Ok(Response::from_parts(parts, Body::from(body)));
    };
    let refused = !parts.status.is_success();
    let filled = surface.read(move |surface| Ok(debug::told(|env| surface.calls(env), value).0));
    let filled = filled.await?;
    let value = if refused { before(filled, call) } else { filled };
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(value.to_string())))
}

/// The error with what was asked of us in front of what that led to.
fn before(mut error: Value, call: Call) -> Value {
    let known = serde_json::from_value::<StructuredError>(error.clone());
    if let (Ok(known), Value::Object(fields)) = (known, &mut error) {
        let calls = known.called(call).debug;
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
            ("/x", false, "/x"),
            ("/x?debug=true", true, "/x"),
            ("/x?debug", true, "/x"),
            (
                "/x?detail=full&debug=1&phase=Ready",
                true,
                "/x?detail=full&phase=Ready",
            ),
            ("/x?debug=false&tail=3", false, "/x?tail=3"),
            ("/x?debugger=true", false, "/x?debugger=true"),
        ] {
            let (found, uri) = taken(&asked.parse().unwrap()).unwrap();
            assert_eq!((found, uri.to_string().as_str()), (is_asked, rest), "{asked}");
        }
        assert!(taken(&"/x?debug=perhaps".parse().unwrap()).is_err());
    }
}
