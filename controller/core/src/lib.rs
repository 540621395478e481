//! The brain of Argus: pure planning, memory, admission and status, without I/O, clock or randomness.

pub mod backoff;
pub mod connectivity;
pub mod desired;
pub mod diagnose;
pub mod ident;
pub mod journal;
pub mod labels;
pub mod lease;
pub mod mode;
pub mod observed;
pub mod outcome;
pub mod plan;
pub mod preflight;
pub mod probe;
pub mod prune;
pub mod reconcile;
pub mod secrets;
pub mod state;
pub mod status;
pub mod time;
pub mod user_requests;
