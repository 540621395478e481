//! Operations of Argus, each defined once for all interfaces.
//!
//! An [`Operation`] is a type whose fields are the arguments. Its file also has the output, the errors and the
//! [`Route`]s; a [`Tool`] adds the summary for a model. [`registry::all`] lists the operations. From this list, `http`
//! builds its routes and the `OpenAPI` document, and `mcp` builds its tools. A command of the command line creates the
//! operation from its own arguments, runs it, and prints the output as JSON or as a table.
//!
//! To add an operation, write one file in this folder with a type that implements [`Operation`] (and [`Tool`], if
//! agents may call it), and add one line to [`registry::all`].

pub(crate) mod arguments;
mod context;
mod explain;
mod network;
mod operation;
mod plan;
pub(crate) mod registry;
mod summary;

pub(crate) use context::Context;
pub(crate) use operation::{Effect, Method, Operation, Route, Tool};
pub(crate) use registry::{CallError, Entry, ToolEntry};
pub(crate) use summary::{NextStep, Summary, ToolOutput};
