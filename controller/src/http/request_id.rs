//! Identifier of a request: the one that its client sent in the header, else a new one.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::client::ControllerClient;
use crate::process::correlation;

/// Length of an identifier (ULID).
const LENGTH: usize = 26;

/// Runs a request with its identifier, for its errors and its commands.
pub(super) async fn scope_request(
    State(client): State<ControllerClient>,
    request: Request,
    next: Next,
) -> Response {
    let sent = request.headers().get(correlation::HEADER);
    let sent = sent.and_then(|id| id.to_str().ok()).filter(|id| is_valid(id));
    let id = sent.map(str::to_ascii_uppercase);
    correlation::scope(client.controller_id(), id, next.run(request)).await
}

fn is_valid(id: &str) -> bool {
    id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ulids_are_accepted_from_clients() {
        assert!(is_valid("01M7ZT8NQ3JK5CY13HJAQAYAWR"));
        for id in [
            "",
            "01M7",
            "01M7ZT8NQ3JK5CY13HJAQAYAW\n",
            "01M7ZT8NQ3JK5CY13HJAQAYAWR0",
        ] {
            assert!(!is_valid(id), "{id}");
        }
    }
}
