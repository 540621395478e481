//! Proxy of a mock: forwards a request to the real service, and records the response.

use std::path::Path;
use std::time::Duration;

use argus_backend::http1::exchange;
use argus_core::quoting::PathText as _;
use argus_crds::error::Code;
use argus_mock::{MockReply, Recording, Request, Target, end_to_end_headers};
use argus_reconciler::clock;
use http_body_util::Full;
use serde_json::json;
use tokio::net::TcpStream;

use super::{header_texts, recordings};

/// Maximum time for a response of the real service.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of a response body, in bytes.
const MAX_BODY: usize = 10 << 20;

/// Forwards a request, records the response and returns it; `path` is the path with the query, as the client sent it.
pub(super) async fn forward(request: &Request, path: &str, to: &Target, folder: &Path) -> MockReply {
    let response = tokio::time::timeout(LIMIT, send(request, path, to)).await;
    let reply =
        match response.unwrap_or_else(|_| Err(format!("no response within {} s", LIMIT.as_secs()).into())) {
            Ok(reply) => reply,
            Err(error) => {
                let message = format!("no response from the target `{}`: {error}", to.authority);
                return MockReply::refusal(
                    502,
                    Code::MockNoAnswer,
                    &message,
                    &json!({ "target": to.authority }),
                );
            }
        };
    let pair = Recording::new(request, &reply, clock::now());
    if let Err(error) = recordings::write_recording(folder, &pair).await {
        tracing::error!(folder = %folder.shown(), %error, "cannot record a response");
    }
    reply
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn send(request: &Request, path: &str, to: &Target) -> Result<MockReply, BoxError> {
    let stream = TcpStream::connect((to.address.0.as_str(), to.address.1)).await?;
    let mut forwarded = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(to.path(path));
    for (name, value) in to.headers(request) {
        forwarded = forwarded.header(name, value);
    }
    let forwarded = forwarded.body(Full::new(request.body.clone()))?;
    let (head, body) = exchange(stream, forwarded, Some(MAX_BODY)).await?.into_parts();
    let headers = end_to_end_headers(&header_texts(&head.headers));
    Ok(MockReply {
        status: head.status.as_u16(),
        headers: headers
            .into_iter()
            .filter(|(name, _)| name != "content-length")
            .collect(),
        body,
        delay: Duration::ZERO,
        by: Some(format!("recorded from {}", to.authority)),
        refusal: None,
    })
}
