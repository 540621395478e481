//! Context of a request: the identifier that its client sent in the header, else a new one, and whether its errors contain their calls.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::call_trace;
use crate::client::ControllerClient;
use crate::process::correlation::{self, RequestContext};

/// Length of an identifier (ULID).
const LENGTH: usize = 26;

/// Runs a request in its context, for its errors and its commands.
pub(super) async fn scope_request(
    State(client): State<ControllerClient>,
    mut request: Request,
    next: Next,
) -> Response {
    let sent = request.headers().get(correlation::HEADER);
    let sent = sent.and_then(|id| id.to_str().ok()).filter(|id| is_valid(id));
    let id = sent.map(str::to_ascii_uppercase);
    let new = RequestContext::new(client.controller_id());
    let shows_calls = call_trace::take_parameter(request.uri_mut());
    let context = RequestContext {
        id: id.unwrap_or(new.id),
        call: match &shows_calls {
            Ok(shown) if shown.unwrap_or(client.settings().debug) => {
                call_trace::describe_request(request.method(), request.uri())
            }
            Ok(_) | Err(_) => None,
        },
        ..new
    };
    let work = async {
        match shows_calls {
            Ok(_) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    context.scope(work).await
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
