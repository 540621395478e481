//! Operations of Argus, each defined once for all interfaces.
//!
//! An [`Operation`] is a type whose fields are the arguments. Its file also has the output, the errors and the
//! [`Route`]s; a [`Tool`] adds the summary for a model. [`registry::all`] lists the operations. From this list, `http`
//! builds its routes and the `OpenAPI` document, and `mcp` builds its tools. The command line prints the same outputs,
//! as JSON or as a table.
//!
//! To add an operation, write one file in this folder with a type that implements [`Operation`] (and [`Tool`], if
//! agents may call it), and name it in [`registry::all`].

pub(crate) mod apply;
pub(crate) mod arguments;
pub(crate) mod breaker;
pub(crate) mod commands;
mod context;
pub(crate) mod doctor;
pub(crate) mod environment_summary;
pub(crate) mod environments;
pub(crate) mod events;
pub(crate) mod evidence;
pub(crate) mod explain;
pub(crate) mod incidents;
pub(crate) mod logs;
pub(crate) mod mock_requests;
pub(crate) mod network;
mod operation;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod preflight;
pub(crate) mod prune;
pub(crate) mod registry;
mod status;
mod summary;
pub(crate) mod target;
pub(crate) mod test;
pub(crate) mod validate;
pub(crate) mod wait;
pub(crate) mod why;

pub(crate) use context::Context;
pub(crate) use environment_summary::output_tail;
pub(crate) use operation::{Effect, Method, Operation, Route, Tool};
pub(crate) use registry::{CallError, OperationEntry, ToolEntry};
pub(crate) use summary::{NextStep, Summary, ToolOutput};
