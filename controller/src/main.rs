//! The binary `argus`: one controller, and the commands around it.

mod app;
mod blocking_io;
mod breaker_reset;
mod call_trace;
mod cli;
mod client;
mod command_reply;
mod exit;
mod http;
mod live;
mod mcp;
mod metrics;
mod mock;
mod own_image;
mod service;
mod settings;
mod telemetry;
mod view;

fn main() -> std::process::ExitCode {
    cli::main()
}
