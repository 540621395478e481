//! Preflight on real engines: full disks, unreachable engines, orphans, and the removal of unused images.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

mod disk;
mod prune;
mod remote_engine;
mod report;
mod service;
