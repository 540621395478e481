//! Results of works, which the driver passes to a run.

use crate::check::Failure;
use crate::container::CommandOutput;
use crate::response::Response;

/// Result of a [`Work`](crate::Work).
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The wait has ended.
    Done,
    /// Response to a request, after its redirects.
    Response(Response),
    /// Outputs of all commands.
    Outputs(Vec<CommandOutput>),
    /// True if the port accepts connections.
    Port(bool),
    /// The work was not possible.
    Failed(Failure),
    /// Argus does not support the work, for this reason. The case has no verdict.
    Unsupported(String),
}
