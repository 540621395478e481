//! Failing containers on a real engine: reported errors, stored evidence, and restarts or their absence.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

mod architecture;
mod blocked;
mod broken;
mod case;
mod command_probes;
mod diagnosis;
mod evidence;
mod exits;
mod flapping;
mod health;
mod lease;
mod loops;
mod memory;
mod output;
mod patience;
mod remedies;
mod restart_rate_limit;
mod secrets;
mod wedged;
