//! Connectivity on a real engine: verified links, reported failures, and their repair.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test"
)]

mod broken;
mod by_hand;
mod down;
pub(crate) mod fixture;
mod verified;
