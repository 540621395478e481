//! Random spec files and paths: Argus refuses them or works with them, in bounded time and without a panic.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

mod admission;
mod host_paths;
