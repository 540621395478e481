//! The binary `argus`: one controller, and the commands around it.

mod circuit;
mod cli;
mod debug;
mod exit;
mod files;
mod http;
mod live;
mod mcp;
mod metrics;
mod mock;
mod own_image;
mod service;
mod settings;
mod surface;
mod taken;
mod telemetry;
mod view;
mod wire;

fn main() -> std::process::ExitCode {
    cli::main()
}
