//! Tasks, channels and time around the brain: eyes publish, the brain decides, hands act.

pub mod clock;
#[cfg(test)]
mod fake;
pub mod gated;
pub mod handle;
pub mod hands;
pub mod history;
pub mod identity;
pub mod informer;
pub mod keeper;
pub mod lease;
pub mod lock;
pub mod metrics;
pub mod outlook;
pub mod prober;
pub mod reconciler;
pub mod run;
pub mod shutdown;
pub mod specs;
pub mod state;
pub mod status_writer;
pub mod supervise;
pub mod surveyor;
pub mod verifier;
pub mod wishes;

pub use argus_core::plan::Deadlines;
pub use gated::Gated;
pub use handle::{Answer, Command, CommandError, Handle, TestReport};
pub use history::Journal;
pub use metrics::Tally;
pub use outlook::{Outlook, Trouble};
pub use run::{Controller, Options, Running};
pub use status_writer::{EnvFiles, StatusView};
pub use supervise::TaskDied;
