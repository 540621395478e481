//! What is checked before anything is made, on real engines: full disks, engines that are away, leftovers, what is given back.
#![allow(clippy::expect_used, reason = "a test that cannot look ends with a message")]

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
