//! The test harness: a private Docker engine, a running controller, a faulty wire between the two.
//!
//! Everything here belongs to tests. A harness that cannot do its part must end the test at once and say why, so it panics
//! with a message instead of returning errors that every test would unwrap.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a harness that cannot do its part ends the test with a message"
)]

pub mod binary;
pub mod controller;
pub mod dam;
pub mod engine;
pub mod holder;
pub mod http;
pub mod image;
pub mod mock;
pub mod prometheus;
pub mod proxy;
pub mod registry;
pub mod stage;
pub mod terminal;
pub mod wait;

pub use controller::{Controller, RunOptions};
pub use dam::Dam;
pub use engine::{Options, PrivateEngine};
pub use holder::Holder;
pub use proxy::Proxy;
pub use registry::Registry;
pub use terminal::Terminal;
