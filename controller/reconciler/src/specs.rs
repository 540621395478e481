//! The spec folder.

pub mod book;
mod clash;
pub mod digest;
pub mod nudge;
pub mod scan;
pub mod settle;
