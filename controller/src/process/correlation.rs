//! Context of the current request for its errors: the request's identifier, and the controller that serves it.
//!
//! Each HTTP request and each tool call runs in its own [`scope`]. Everything else in a process belongs to its one command. A client
//! sends its identifier to the controller, so that the journal, the client and the controller use the same one.

use std::sync::OnceLock;

use argus_reconciler::{clock, identity};

/// Header with the identifier of a request.
pub(crate) const HEADER: &str = "x-correlation-id";

/// Context of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    /// Identifier of the request, as in the journal.
    pub(crate) id: String,
    /// Identifier of the controller; `None` if no controller has used the state directory.
    pub(crate) controller: Option<String>,
}

tokio::task_local! {
    static CURRENT: RequestContext;
}

/// Context of the command of this process.
static PROCESS: OnceLock<RequestContext> = OnceLock::new();

/// Sets the controller of this process; called at its start.
pub(crate) fn set_process_controller(controller: Option<String>) {
    // Called once per process.
    drop(PROCESS.set(RequestContext::new(controller)));
}

/// Returns the context of the current request, or of the command of this process.
pub(crate) fn current() -> RequestContext {
    let of_process = || PROCESS.get_or_init(|| RequestContext::new(None)).clone();
    CURRENT
        .try_with(Clone::clone)
        .unwrap_or_else(|_outside| of_process())
}

/// Runs a future as a request of its own, with the identifier that its client sent.
pub(crate) async fn scope<T>(
    controller: Option<String>,
    sent_id: Option<String>,
    request: impl Future<Output = T>,
) -> T {
    let new = RequestContext::new(controller);
    let context = RequestContext {
        id: sent_id.unwrap_or(new.id),
        ..new
    };
    CURRENT.scope(context, request).await
}

impl RequestContext {
    fn new(controller: Option<String>) -> Self {
        let id = identity::new_ulid(clock::now());
        Self { id, controller }
    }
}
