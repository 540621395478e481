//! Who reaches whom on a real engine: verified, told when it is broken, and healed where that can be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "networks/broken.rs"]
mod broken;
#[path = "networks/by_hand.rs"]
mod by_hand;
#[path = "networks/fixture.rs"]
mod fixture;
#[path = "networks/verified.rs"]
mod verified;
