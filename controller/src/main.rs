//! The binary `argus`: the controller, and the commands that use it.
//!
//! Each module is a room; the first lines of its file say what belongs into it. From the bottom up:
//!
//! - [`process`] has what every command needs: [`process::exit`] maps errors to exit codes, [`process::runtime`] and
//!   [`process::blocking_io`] run futures and blocking reads.
//! - [`settings`] merges flags, variables and `argus.toml`. [`local_state`] reads the files of the state directory.
//! - [`spec_files`] reads spec files without a controller. [`compose`] translates Compose files, and drafts spec files; [`init`] writes a
//!   first one.
//! - [`view`] holds the published status documents, [`metrics`] feeds Prometheus, and [`render`] makes text of everything.
//! - [`engine`] connects to the engine for commands without a controller. [`client`] lets operations and commands use a controller in
//!   this process or over its socket.
//! - [`api`] defines each operation once. HTTP, `OpenAPI` and MCP derive from it, and commands print its outputs. To add one, start there.
//!   [`operations`] lists them, [`test_runner`] runs suites.
//! - [`http`] and [`mcp`] serve the operations. [`mock`] serves mocks inside their containers.
//! - [`app`] runs a controller: it composes the engine client, the reconciler, HTTP (which also serves MCP) and output.
//!   [`session`] runs one for the environment of a command, and [`selftest`] one into which it injects faults.
//! - [`cli`] defines the subcommands: arguments and rendering.
//!
//! A tool call of an agent ends in the file of its operation, for example `api/retry.rs` for `argus_retry`. The operation sends a command
//! with [`client::ControllerClient::send`]: to the `Handle` of the reconciler in this process, or over the socket.
//!
//! Start with [`app`] for the controller and with [`api`] for the operations.

mod api;
mod app;
mod cli;
mod client;
mod compose;
#[cfg(test)]
mod document_tests;
mod engine;
#[cfg(test)]
mod error_fixtures;
mod http;
mod init;
mod local_state;
mod mcp;
mod metrics;
mod mock;
mod operations;
mod process;
mod render;
mod selftest;
mod session;
mod settings;
mod spec_files;
mod test_runner;
mod view;

/// Allocator of the program. With 250 containers, it needs half of the memory of glibc's allocator, which keeps the largest size of the
/// arena of each thread. Its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
