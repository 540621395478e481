//! Connectivity on a real engine: verified links, reported failures, and their repair.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test"
)]

#[path = "networks/broken.rs"]
mod broken;
#[path = "networks/by_hand.rs"]
mod by_hand;
#[path = "networks/fixture.rs"]
mod fixture;
#[path = "networks/verified.rs"]
mod verified;
