//! The test harness: a private Docker engine, a running controller, a proxy with faults between the two.
//!
//! Everything here belongs to tests. A failure of the harness must end the test immediately with its cause. It
//! therefore panics with a message instead of returning errors that every test would unwrap.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a failure of the harness ends the test with a message"
)]

pub mod binary;
mod cleanup;
pub mod controller;
pub mod engine;
pub mod fixture;
pub mod fuzz;
pub mod http;
pub mod image;
pub mod mock;
pub mod pausable_pipe;
pub mod port_holder;
pub mod prometheus;
pub mod proxy;
pub mod pure;
pub mod registry;
pub mod terminal;
pub mod wait;

pub use controller::{Controller, RunOptions};
pub use engine::{Options, PrivateEngine};
pub use pausable_pipe::PausablePipe;
pub use port_holder::PortHolder;
pub use proxy::Proxy;
pub use registry::Registry;
pub use terminal::Terminal;
