//! Operations of Argus: arguments, output, errors and effect, each defined once.
//!
//! An [`Operation`] is a type whose fields are the arguments. Its file also has the output and the [`Route`]s; a [`Tool`] adds the summary
//! for a model. [`operations`](crate::operations) lists them. From this list, `http` builds its routes and the `OpenAPI` document, and `mcp`
//! builds its tools. A command in `cli` has its own arguments, runs the operation, and prints its output as JSON or as text.
//!
//! To add an operation, write one file in this folder with a type that implements [`Operation`] (and [`Tool`], if agents may call it), and
//! name it here and in [`operations`](crate::operations). Tests then ask for its rows in `docs/interfaces.md` and `docs/mcp.md`. For a command, write a file
//! in `cli` and name it in `cli.rs`.

pub(crate) mod apply;
pub(crate) mod arguments;
pub(crate) mod breaker;
pub(crate) mod commands;
mod context;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod environment_summary;
pub(crate) mod environments;
pub(crate) mod events;
pub(crate) mod evidence;
pub(crate) mod evidence_store;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod fix;
pub(crate) mod incidents;
pub(crate) mod logs;
pub(crate) mod mock_requests;
pub(crate) mod network;
mod operation;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod preflight;
pub(crate) mod prune;
pub(crate) mod repairs;
pub(crate) mod status;
mod summary;
pub(crate) mod sync;
pub(crate) mod target;
pub(crate) mod test;
pub(crate) mod test_results;
pub(crate) mod validate;
pub(crate) mod wait;
pub(crate) mod why;

pub(crate) use context::Context;
pub(crate) use environment_summary::output_tail;
pub(crate) use operation::{Effect, Method, Operation, Route, Tool};
pub(crate) use summary::{NextStep, Summary, ToolOutput, clip};
