//! Tasks, channels and time around the brain: eyes publish, the brain decides, hands act.

pub mod breaker_guard;
pub mod clock;
pub mod connectivity;
pub mod executor;
#[cfg(test)]
mod fake_backend;
pub mod handle;
pub mod identity;
pub mod informer;
pub mod journal;
pub mod lease;
pub mod lock;
pub mod metrics;
pub mod overrides;
pub mod persisted;
pub mod preflight;
pub mod prober;
pub mod reconciler;
pub mod run;
pub mod shutdown;
pub mod snapshot;
pub mod specs;
pub mod state_dir;
pub mod status_writer;
pub mod supervise;

pub use argus_core::plan::Deadlines;
pub use breaker_guard::BreakerGuard;
pub use handle::{Command, CommandError, Handle, Reply, TestReport};
pub use journal::Journal;
pub use metrics::Tally;
pub use run::{Controller, Options, Running};
pub use snapshot::{ControllerProblems, Snapshot};
pub use status_writer::{EnvFiles, StatusView};
pub use supervise::TaskDied;
