//! The surfaces of a running controller: HTTP, MCP, metrics, error codes, commands that follow, and mock servers.

mod codes;
mod diff;
mod error_context;
mod followed_logs;
mod http;
mod mcp;
mod metrics;
mod mocks;
mod service_commands;
mod watch_commands;
