//! Context of the current request for its errors: the request's identifier, the controller that serves it, and whether its errors contain
//! their calls.
//!
//! Each HTTP request and each tool call runs in its own [`RequestContext`]. Everything else in a process belongs to its one command. A client
//! sends its identifier to the controller, so that the journal, the client and the controller use the same one.

use std::sync::OnceLock;

use argus_crds::error::Call;
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
    /// The request itself, as the outermost call of its errors; `None` if errors are shown without their calls.
    pub(crate) call: Option<Call>,
}

tokio::task_local! {
    static CURRENT: RequestContext;
}

/// Context of the command of this process.
static PROCESS: OnceLock<RequestContext> = OnceLock::new();

/// Sets the context of the command of this process; called at its start.
pub(crate) fn set_process(command: RequestContext) {
    // Called once per process.
    drop(PROCESS.set(command));
}

/// Returns the context of the current request, or of the command of this process.
pub(crate) fn current() -> RequestContext {
    let of_process = || PROCESS.get_or_init(|| RequestContext::new(None)).clone();
    CURRENT
        .try_with(Clone::clone)
        .unwrap_or_else(|_outside| of_process())
}

/// Returns true if the current request shows errors with their calls.
pub(crate) fn shows_calls() -> bool {
    current().call.is_some()
}

impl RequestContext {
    /// Creates the context of a new request, whose errors are shown without their calls.
    pub(crate) fn new(controller: Option<String>) -> Self {
        Self {
            id: identity::new_ulid(clock::now()),
            controller,
            call: None,
        }
    }

    /// Runs a future as this request.
    pub(crate) async fn scope<T>(self, request: impl Future<Output = T>) -> T {
        CURRENT.scope(self, request).await
    }

    /// Runs a function as this request, on another thread.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }
}
