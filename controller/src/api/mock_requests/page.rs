//! Requests of a mock, read from the mock itself.

use std::net::SocketAddr;

use argus_core::published::connectable;
use argus_core::secrets::Secrets;
use argus_core::status::{UNREACHABLE_HINT, host_address};
use argus_crds::error::{Code, Reason};
use argus_crds::mock::config::RESERVED_PATH;
use argus_crds::status::{EnvironmentStatus, ServiceRole};
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::evidence_store;
use crate::api::logs::sources;
use crate::client::http;
use crate::process::blocking_io;
use crate::process::exit::{Exit, Failure};

/// Minimum length of a text that the mock may have cut, in bytes.
const MIN_CUT_BYTES: usize = 250;

/// Newest requests of a mock.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MockRequestsPage {
    /// Number of requests since the start of the mock.
    pub(crate) total: u64,
    /// Newest requests, oldest first.
    pub(crate) requests: Vec<Request>,
}

/// A request with its response, from the journal of the mock: without secrets, and truncated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Sequence number, from 1.
    pub(crate) number: u64,
    /// End of the request (RFC 3339).
    pub(crate) time: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    /// Beginning of the body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// Size of the whole body in bytes.
    pub(crate) body_bytes: u64,
    /// Route or operation that matched, if any.
    pub(crate) matched: Option<String>,
    /// Message of an error response, such as the nearest route and its difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// Status code of the response.
    pub(crate) status: u16,
    /// Time until the response in milliseconds.
    pub(crate) duration_ms: u64,
}

/// Newest requests of a mock, as reported by the mock itself.
pub(crate) async fn read_requests(
    state: &StateDir,
    status: &EnvironmentStatus,
    mock: &str,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    read_requests_after(state, status, mock, 0, tail).await
}

/// Newest requests of a mock after the given number, without the secrets of its environment.
pub(crate) async fn read_requests_after(
    state: &StateDir,
    status: &EnvironmentStatus,
    mock: &str,
    after: u64,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    let at = find_address(status, mock)?;
    let path = format!("{RESERVED_PATH}/requests?after={after}&limit={tail}");
    let response = http::get_from(at, &path)
        .await
        .map_err(|error| unavailable_failure(at, &error))?;
    let page: MockRequestsPage = serde_json::from_slice(&response).map_err(|error| {
        let error = http::ClientError::InvalidResponse(error.to_string());
        unavailable_failure(at, &error)
    })?;
    let (state, env) = (state.clone(), status.environment.clone());
    let secrets = blocking_io::read(move || Ok(sources::read_secrets(&state, Some(&env)))).await?;
    Ok(page.redacted(&secrets))
}

impl MockRequestsPage {
    /// The requests without secrets. The mock knows only the names of secrets, and it has cut long texts.
    fn redacted(mut self, secrets: &Secrets) -> Self {
        let redact = |text: &mut String, is_last: bool| {
            let is_cut = is_last || text.len() >= MIN_CUT_BYTES;
            *text = if is_cut {
                secrets.redacted_fragment(text)
            } else {
                secrets.redacted(text)
            };
        };
        for request in &mut self.requests {
            for pairs in [&mut request.query, &mut request.headers] {
                let last = pairs.len().saturating_sub(1);
                for (index, (name, value)) in pairs.iter_mut().enumerate() {
                    redact(name, index == last);
                    redact(value, index == last);
                }
            }
            redact(&mut request.path, false);
            let texts = request.body.iter_mut().chain(&mut request.matched);
            let texts = texts.chain(&mut request.refusal);
            texts.for_each(|text| redact(text, false));
        }
        self
    }
}

/// Published address of a mock.
pub(crate) fn find_address(status: &EnvironmentStatus, mock: &str) -> Result<SocketAddr, Failure> {
    let row = status.services.iter().find(|row| row.name == mock);
    let row = row.ok_or_else(|| evidence_store::no_service_failure(status, mock))?;
    let env = &status.environment;
    if row.role != ServiceRole::Mock {
        let message = format!("`{mock}` is a service, not a mock");
        return Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(format!(
                "read the logs of a service with `argus logs {env} {mock}`"
            )));
    }
    let port = row.ports.iter().find(|port| port.actual_port != 0);
    let port = port.ok_or_else(|| {
        let message = format!("cannot reach mock `{mock}`: it has no host port yet");
        Failure::with_reason(Reason::NotReady, message)
            .with_exit(Exit::Unexpected)
            .with_hint(format!("wait for the environment with `argus wait {env}`"))
    })?;
    let host = host_address(port).ok_or_else(|| {
        let message = format!("cannot reach mock `{mock}`: only the engine's host reaches its port");
        Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Unexpected)
            .with_hint(UNREACHABLE_HINT)
    })?;
    Ok(SocketAddr::new(connectable(host), port.actual_port))
}

pub(crate) fn unavailable_failure(at: SocketAddr, error: &http::ClientError) -> Failure {
    let message = format!("cannot read the requests of the mock at {at}: {error}");
    Failure::with_code(Code::ConnectionLost, message)
        .with_details(serde_json::json!({ "address": at.to_string(), "reason": error.to_string() }))
        .with_exit(Exit::Unexpected)
        .with_hint("define `routes` or `openapi`, only such mocks record requests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_contain_no_secrets_of_the_environment() {
        let secrets: Secrets = serde_json::from_str(r#"["sword/fish"]"#).unwrap();
        let pair = |text: &str| vec![("q".to_owned(), text.to_owned())];
        let page = MockRequestsPage {
            total: 1,
            requests: vec![Request {
                number: 1,
                time: String::new(),
                method: "GET".to_owned(),
                path: "/users/sword%2ffish".to_owned(),
                query: pair("sword/fish"),
                headers: pair("Basic YW5uOnN3b3JkL2Zpc2g="),
                body: Some(format!(
                    r#"{{"pw":"sword\/fish","x":"{}","cut":"sword"#,
                    "x".repeat(300)
                )),
                body_bytes: 5000,
                matched: Some("recording of sword/fish".to_owned()),
                refusal: Some("no route matches `GET /users/sword/fish`".to_owned()),
                status: 200,
                duration_ms: 1,
            }],
        };
        let text = serde_json::to_string(&page.redacted(&secrets)).unwrap();
        assert_eq!(text.matches("[redacted]").count(), 7, "{text}");
        assert!(!text.contains("sword") && !text.contains("c3dvcmQ"), "{text}");
    }
}
