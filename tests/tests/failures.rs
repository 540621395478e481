//! Failing containers on a real engine: reported errors, stored evidence, and restarts or their absence.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

#[path = "failures/case.rs"]
mod case;

#[path = "failures/exits.rs"]
mod exits;
#[path = "failures/flapping.rs"]
mod flapping;
#[path = "failures/health.rs"]
mod health;
#[path = "failures/lease.rs"]
mod lease;
#[path = "failures/loops.rs"]
mod loops;
#[path = "failures/memory.rs"]
mod memory;
#[path = "failures/output.rs"]
mod output;
#[path = "failures/patience.rs"]
mod patience;
#[path = "failures/remedies.rs"]
mod remedies;
#[path = "failures/restart_rate_limit.rs"]
mod restart_rate_limit;
#[path = "failures/secrets.rs"]
mod secrets;
#[path = "failures/wedged.rs"]
mod wedged;
