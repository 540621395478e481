//! Error responses: the structured error with the members of RFC 9457.

use argus_crds::error::{Reason, StructuredError};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::process::exit::{Failure, add_context};

/// Error response.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    error: Box<StructuredError>,
}

/// Body of the response.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    error: &'a StructuredError,
}

impl Problem {
    /// Creates a problem with the status of its error code.
    pub(crate) fn from_error(error: StructuredError) -> Self {
        Self {
            status: status_of_error(&error),
            error: Box::new(error),
        }
    }

    /// Creates a problem of the request or of the server, with the given status.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            error: Box::new(StructuredError::missing(reason_of_status(status), message)),
        }
    }

    /// True if the request names an object with an invalid name.
    pub(super) fn is_invalid_name(&self) -> bool {
        reason_of_error(&self.error) == Some(Reason::Usage)
    }

    /// Sets the time after which the client should try again, in seconds.
    pub(super) fn with_retry_after(mut self, seconds: u64) -> Self {
        *self.error = self.error.retry_after(seconds);
        self
    }

    /// Sets the status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

impl From<StructuredError> for Problem {
    fn from(error: StructuredError) -> Self {
        Self::from_error(error)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::from_error(failure.into_error())
    }
}

/// Returns the reason for a status, for programs that read only the body.
fn reason_of_status(status: StatusCode) -> Reason {
    if status.is_server_error() {
        return Reason::Unavailable;
    }
    let mut all = Reason::ALL.iter().copied();
    let found = all.find(|reason| reason.http_status() == Some(status.as_u16()));
    found.unwrap_or(Reason::BadRequest)
}

/// Returns the reason in the details of an error.
fn reason_of_error(error: &StructuredError) -> Option<Reason> {
    let given = error.details.get("reason")?;
    let mut all = Reason::ALL.iter().copied();
    all.find(|reason| serde_json::json!(reason) == *given)
}

/// Returns the status of an error, by its reason if that has one, else by its code.
fn status_of_error(error: &StructuredError) -> StatusCode {
    let of_reason = reason_of_error(error).and_then(Reason::http_status);
    let status = of_reason.unwrap_or(error.code.explanation().http_status);
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = add_context(*self.error);
        let body = Body {
            kind: format!("urn:argus:error:{}", error.code),
            title: error.code.explanation().summary,
            status: self.status.as_u16(),
            detail: &error.message,
            error: &error,
        };
        // Our own types have text keys and no foreign serializers, so they always serialize.
        let text = serde_json::to_string(&body).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (self.status, [(header::CONTENT_TYPE, kind)], text).into_response();
        if let Some(after) = error.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, after.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"argus\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Responds to an unknown path: a plain 404, because no operation failed.
pub(super) async fn not_found(uri: Uri) -> Response {
    let message = format!(
        "unknown path `{}`; `/api/v1/openapi.json` lists all paths",
        uri.path()
    );
    let body = serde_json::json!({
        "type": "about:blank",
        "title": "Not Found",
        "status": StatusCode::NOT_FOUND.as_u16(),
        "detail": message,
        "code": "NOT_FOUND",
        "message": message,
        "details": { "reason": Reason::NotFound },
        "suggestedActions": [],
        "remedies": [],
        "retryable": false,
    });
    let kind = HeaderValue::from_static("application/problem+json");
    let head = [(header::CONTENT_TYPE, kind)];
    (StatusCode::NOT_FOUND, head, body.to_string()).into_response()
}

/// Responds to a known path with an unsupported method.
pub(super) async fn method_not_allowed(uri: Uri) -> Problem {
    let message = format!("`{}` does not support this method", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, message)
}
