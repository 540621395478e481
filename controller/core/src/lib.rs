//! The brain of Argus: pure planning, memory, admission and status, without I/O, clock or randomness.

pub mod backoff;
pub mod brain;
pub mod connectivity;
pub mod desired;
pub mod diagnose;
pub mod ident;
pub mod labels;
pub mod lease;
pub mod memory;
pub mod mode;
pub mod observed;
pub mod orders;
pub mod outcome;
pub mod plan;
pub mod preflight;
pub mod probe;
pub mod reclaim;
pub mod record;
pub mod secrets;
pub mod status;
pub mod time;
