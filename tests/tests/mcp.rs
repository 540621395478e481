//! MCP: the official Python client and the Inspector call every tool over every transport, on a real controller.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

#[path = "mcp/agent.rs"]
mod agent;

#[path = "mcp/calls.rs"]
mod calls;
#[path = "mcp/circuit.rs"]
mod circuit;
#[path = "mcp/concurrent_agents.rs"]
mod concurrent_agents;
#[path = "mcp/inspector.rs"]
mod inspector;
#[path = "mcp/mocks.rs"]
mod mocks;
#[path = "mcp/no_controller.rs"]
mod no_controller;
#[path = "mcp/preflight_fix.rs"]
mod preflight_fix;
#[path = "mcp/recovery.rs"]
mod recovery;
#[path = "mcp/remedies.rs"]
mod remedies;
#[path = "mcp/tour.rs"]
mod tour;
