//! The binary `argus`: the controller, and the commands that use it.
//!
//! - [`api`] defines each operation once. HTTP, `OpenAPI` and MCP derive from it, and commands print its outputs. To add one, start there.
//! - [`cli`] defines the subcommands: arguments and rendering. [`output`], [`table`] and [`status_text`] format what they print.
//! - [`app`] runs a controller: it composes the engine client, the reconciler, HTTP (which also serves MCP) and output.
//!   [`session`] runs one for the environment of a command, [`controller_start`] one for the selftest. [`engine`] connects to the engine, [`service_manager`] notifies systemd.
//! - [`client`] lets operations and commands use a controller in this process or over its socket. Commands return a
//!   [`command_reply`]; [`breaker_reset`] waits for the effect of a reset.
//! - [`http`] and [`mcp`] serve the operations. [`http_address`] describes their address. [`metrics`] feeds Prometheus.
//! - [`live`] prints the state of a running controller. [`view`] holds the published status documents.
//! - [`status`] reads status files, [`liveness`] determines if they are current, [`evidence_store`] reads crash reports,
//!   [`run_summary`] describes the end of a run, [`spec_files`] reads spec files without a controller, [`call_trace`] adds the
//!   calls behind an error, and [`correlation`] the request.
//! - [`init`] writes a first spec file, [`selftest`] injects faults, [`test_runner`] runs suites, [`mock`] serves mocks inside their
//!   containers.
//! - [`ci_system`] formats texts for CI systems, and [`ci_files`] adds logs and evidence to the report of a CI run.
//! - [`foreign_text`] marks and escapes text that containers wrote.
//! - [`settings`] merges flags, variables and `argus.toml`. [`exit`] maps errors to exit codes. [`runtime`] and [`blocking_io`] run
//!   futures and blocking reads. [`own_image`] builds the image of this program for helpers. [`telemetry`] starts the log.
//!
//! A tool call of an agent ends in the file of its operation, for example `api/retry.rs` for `argus_retry`. The operation sends a command
//! with [`client::ControllerClient::send`]: to the `Handle` of the reconciler in this process, or over the socket.
//!
//! Start with [`app`] for the controller and with [`api`] for the operations.

mod api;
mod app;
mod blocking_io;
mod breaker_reset;
mod call_trace;
mod ci_files;
mod ci_system;
mod cli;
mod client;
mod command_reply;
mod compose;
mod controller_start;
mod correlation;
#[cfg(test)]
mod document_tests;
mod engine;
#[cfg(test)]
mod error_fixtures;
mod evidence_store;
mod exit;
mod foreign_text;
mod http;
mod http_address;
mod init;
mod live;
mod liveness;
mod mcp;
mod metrics;
mod mock;
mod operations;
mod output;
mod own_image;
mod run_summary;
mod runtime;
mod selftest;
mod service_manager;
mod session;
mod settings;
mod spec_draft;
mod spec_files;
mod status;
mod status_text;
mod table;
mod telemetry;
mod test_runner;
mod view;

fn main() -> std::process::ExitCode {
    cli::main()
}
