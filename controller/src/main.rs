//! The binary `argus`: the controller, and the commands that use it.
//!
//! - [`cli`] defines the subcommands. `argus run` starts the controller through [`app`].
//! - [`app`] composes the engine client, the reconciler, HTTP (which also serves MCP) and output.
//! - [`client`] lets HTTP, MCP and commands use a controller in this process or over its socket.
//! - [`http`] and [`mcp`] serve the interfaces of a controller. [`metrics`] feeds Prometheus.
//! - [`live`] prints the state of a running controller. [`view`] holds the published status documents.
//! - [`mock`] serves mocks inside their containers.
//! - [`settings`] merges flags, variables and `argus.toml`. [`exit`] maps errors to exit codes.
//!
//! Start with [`app`] for the controller and with [`cli`] for the commands.

mod api;
mod app;
mod blocking_io;
mod breaker_reset;
mod call_trace;
mod cli;
mod client;
mod command_reply;
mod engine_observer;
mod evidence_store;
mod exit;
mod failure;
mod http;
mod live;
mod mcp;
mod metrics;
mod mock;
mod output;
mod own_image;
mod service;
mod settings;
mod spec_files;
mod status;
mod status_text;
mod table;
mod telemetry;
mod view;

fn main() -> std::process::ExitCode {
    cli::main()
}
