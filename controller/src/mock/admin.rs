//! Admin API of a mock, under `/__argus`.

use std::time::Duration;

use argus_crds::error::Code;
use argus_mock::{MockReply, RESERVED_PATH, Request};
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use super::state::Shared;

pub(super) async fn respond(request: &Request, shared: &Shared) -> MockReply {
    let page = request
        .path
        .trim_end_matches('/')
        .strip_prefix(RESERVED_PATH)
        .unwrap_or_default();
    match (request.method.as_str(), page) {
        ("GET" | "HEAD", "/health") => health_reply(shared, 200),
        ("POST", "/reload") => {
            shared.reload(true).await;
            let is_valid = shared.current().problem.is_none();
            health_reply(shared, if is_valid { 200 } else { 422 })
        }
        ("GET" | "HEAD", "/requests") => {
            let number = |name: &str| {
                request
                    .query_values(name)
                    .next()
                    .and_then(|text| text.parse().ok())
            };
            let limit = number("limit").and_then(|limit: u64| usize::try_from(limit).ok());
            json_reply(
                200,
                &shared
                    .lock_journal()
                    .page(number("after").unwrap_or(0), limit.unwrap_or(usize::MAX)),
            )
        }
        ("DELETE", "/requests") => {
            shared.lock_journal().clear();
            json_reply(200, &json!({}))
        }
        (method, _) => {
            let pages = ["GET /health", "POST /reload", "GET /requests", "DELETE /requests"];
            let pages: Vec<String> = pages
                .iter()
                .map(|page| page.replace(" /", &format!(" {RESERVED_PATH}/")))
                .collect();
            let message = format!("unknown admin request `{method} {}`", request.path);
            MockReply::refusal(404, Code::MockNoRoute, &message, &json!({ "available": pages }))
        }
    }
}

fn health_reply(shared: &Shared, status: u16) -> MockReply {
    let current = shared.current();
    let config = json!({
        "sha256": current.hash, "servedSince": current.since.to_string(), "problem": current.problem,
    });
    json_reply(
        status,
        &json!({ "status": "ok", "mock": shared.name(), "config": config }),
    )
}

fn json_reply<T: Serialize>(status: u16, value: &T) -> MockReply {
    MockReply {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        // Our own types have text keys, so they always serialize.
        body: Bytes::from(serde_json::to_vec(value).unwrap_or_default()),
        delay: Duration::ZERO,
        by: None,
        refusal: None,
    }
}
