//! MCP: the official Python client and the Inspector call every tool over every transport, on a real controller.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

mod agent;

mod calls;
mod circuit;
mod concurrent_agents;
mod foreign_text;
mod inspector;
mod mocks;
mod no_controller;
mod preflight_fix;
mod recovery;
mod remedies;
mod test_runs;
mod tour;
