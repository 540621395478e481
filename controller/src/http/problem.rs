//! An error on its way out: the one type of error, with the members that RFC 9457 asks for.

use argus_crds::error::{Code, Reason, StructuredError};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::exit::{Failure, stamped};

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    error: Box<StructuredError>,
}

/// What stands in the body.
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
    /// With the status that its code has.
    pub(crate) fn of(error: StructuredError) -> Self {
        Self {
            status: status(&error),
            error: Box::new(error),
        }
    }

    /// Whoever asked has to ask otherwise.
    pub(crate) fn asked(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            error: Box::new(StructuredError::missing(reason(status), message)),
        }
    }

    /// Whether it is of this kind.
    pub(super) fn is_of(&self, code: Code) -> bool {
        self.error.code == code
    }

    /// The same with another status.
    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

impl From<StructuredError> for Problem {
    fn from(error: StructuredError) -> Self {
        Self::of(error)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::of(failure.into_error())
    }
}

/// The word for it: bodies are read where nobody looks at numbers.
fn reason(status: StatusCode) -> Reason {
    match status {
        StatusCode::UNAUTHORIZED => Reason::Unauthorized,
        StatusCode::FORBIDDEN => Reason::Forbidden,
        StatusCode::NOT_FOUND => Reason::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => Reason::MethodNotAllowed,
        StatusCode::REQUEST_TIMEOUT => Reason::Timeout,
        StatusCode::PAYLOAD_TOO_LARGE => Reason::TooLarge,
        StatusCode::MISDIRECTED_REQUEST => Reason::Misdirected,
        status if status.is_server_error() => Reason::Unavailable,
        _ => Reason::BadRequest,
    }
}

/// What is not there because nobody has it is told by the code that a command would end with.
fn status(error: &StructuredError) -> StatusCode {
    match error.code {
        Code::SpecInvalid | Code::SpecConflict | Code::PolicyViolation => StatusCode::UNPROCESSABLE_ENTITY,
        Code::DockerUnavailable
        | Code::CircuitOpen
        | Code::ConnectionLost
        | Code::RetryExhausted
        | Code::JournalUnwritable
        | Code::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::DiskSpaceLow
        | Code::PortConflict
        | Code::PortExhaustion
        | Code::ContainerOom
        | Code::ContainerCrash
        | Code::ContainerRestartExhausted
        | Code::HealthCheckTimeout
        | Code::NetworkUnreachable
        | Code::DnsResolutionFailed
        | Code::OrphanDetected
        | Code::CleanupFailed
        | Code::PrereqMissing
        | Code::ApiTooOld
        | Code::ImageNotFound
        | Code::ImagePullFailed
        | Code::RegistryRateLimited
        | Code::AuthRequired
        | Code::BuildFailed
        | Code::ContainerStartFailed
        | Code::EntrypointNotFound
        | Code::NameConflict
        | Code::LoopHalted
        | Code::FlakySuspected
        | Code::PortStaleAllocation
        | Code::NetworkPoolExhausted
        | Code::NetworkStuck
        | Code::TestsFailed
        | Code::Held
        | Code::LeaseHeld
        | Code::MockNoRoute
        | Code::MockRequestInvalid
        | Code::MockNoAnswer => StatusCode::CONFLICT,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = stamped(*self.error);
        let body = Body {
            kind: format!("urn:argus:error:{}", error.code),
            title: error.code.about().summary,
            status: self.status.as_u16(),
            detail: &error.message,
            error: &error,
        };
        // Our own types have text keys and no foreign serializers: they can always be written.
        let text = serde_json::to_string(&body).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut answer = (self.status, [(header::CONTENT_TYPE, kind)], text).into_response();
        if let Some(after) = error.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, after.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"argus\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}

/// There is nothing of this name.
pub(super) async fn nowhere(uri: Uri) -> Problem {
    let message = format!(
        "nothing is at `{}`; `/api/v1/openapi.json` tells what there is",
        uri.path()
    );
    Problem::asked(StatusCode::NOT_FOUND, message)
}

/// It is there, and does not take this method.
pub(super) async fn not_so(uri: Uri) -> Problem {
    let message = format!("`{}` does not take this method", uri.path());
    Problem::asked(StatusCode::METHOD_NOT_ALLOWED, message)
}
