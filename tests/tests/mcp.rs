//! What an agent holds: the official Python client and the Inspector drive every tool over every transport, against a real controller.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot look ends with a message"
)]

#[path = "mcp/agent.rs"]
mod agent;

#[path = "mcp/alone.rs"]
mod alone;
#[path = "mcp/calls.rs"]
mod calls;
#[path = "mcp/circuit.rs"]
mod circuit;
#[path = "mcp/claims.rs"]
mod claims;
#[path = "mcp/fit.rs"]
mod fit;
#[path = "mcp/inspector.rs"]
mod inspector;
#[path = "mcp/mocks.rs"]
mod mocks;
#[path = "mcp/recovery.rs"]
mod recovery;
#[path = "mcp/remedies.rs"]
mod remedies;
#[path = "mcp/tour.rs"]
mod tour;
