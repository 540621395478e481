//! Error codes that no other test provokes, each raised by its real cause, complete and equal on every surface.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

mod case;
mod engine;
mod files;
mod queries;
mod refusals;
mod registry;
