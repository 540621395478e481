//! Error codes that no other test provokes, each raised by its real cause, complete and equal on every surface.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

#[path = "codes/case.rs"]
mod case;
#[path = "codes/engine.rs"]
mod engine;
#[path = "codes/files.rs"]
mod files;
#[path = "codes/queries.rs"]
mod queries;
#[path = "codes/refusals.rs"]
mod refusals;
#[path = "codes/registry.rs"]
mod registry;
