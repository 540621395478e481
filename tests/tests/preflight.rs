//! Preflight on real engines: full disks, unreachable engines, orphans, and the removal of unused images.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

#[path = "preflight/disk.rs"]
mod disk;
#[path = "preflight/prune.rs"]
mod prune;
#[path = "preflight/remote_engine.rs"]
mod remote_engine;
#[path = "preflight/report.rs"]
mod report;
#[path = "preflight/service.rs"]
mod service;
