//! Tasks of the Argus controller, with the channels, files and clocks that connect them.
//!
//! The planner of `argus-core` is deterministic and does no I/O; this crate owns its state and runs it. Each task owns its state and publishes it on
//! a watch channel, so every fact has exactly one writer:
//!
//! - `specs` ([`specs::run`]): the [`SpecRegistry`](specs::SpecRegistry), from the specs folder.
//! - `informer` ([`informer::run`]): the observed objects of the engine, as a [`Store`](argus_core::observed::Store).
//! - `prober` ([`prober::run`]): the health of the probed containers.
//! - `preflight`: engine, disk and state directory ([`preflight`]).
//! - `connectivity` ([`connectivity::run`]): the declared links between services.
//! - `lease` ([`lease`]): the lease of this controller, and those of others.
//! - `reconciler` ([`reconciler`]): the planner's state, the [`overrides`], the [`executor`] and the [`Snapshot`].
//! - `journal` ([`journal`]): the file of intents, results and events.
//! - `status_writer` ([`status_writer::run`]): the status files; `state_writer` and `registry_writer`
//!   ([`persisted`]): the files that survive a restart.
//! - `lock` ([`lock`]): the lock of the state directory ([`state_dir`], [`state_file`]).
//!
//! The [`supervise::Supervisor`] restarts failed tasks. Clients read [`Snapshot`]s and send [`Command`]s through a
//! [`Handle`]. The [`BreakerGuard`] wraps the backend and refuses calls while a breaker is open, and all tasks read the time from [`clock::Clock`].
//!
//! The head of `run/tasks.rs` says why wake-ups have no content and what the next task needs. [`Supervisor::run`](supervise::Supervisor::run)
//! says who owns which future at the stop.
//!
//! Start with [`run`]: [`Controller::open`] reads the state directory, and [`Controller::start`] connects the tasks.
//! Continue with [`reconciler`], the pass that turns these facts into actions. Host ports move in the planner, see
//! [`argus_core::plan::port`].

mod blocking;
pub mod breaker_guard;
pub mod clock;
pub mod command;
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
pub mod private_folder;
pub mod prober;
pub mod quarantine;
pub mod reconciler;
pub mod run;
pub mod shutdown;
pub mod snapshot;
pub mod specs;
pub mod state_dir;
pub mod state_file;
mod state_modes;
pub mod status_writer;
pub mod supervise;
mod write_batch;

pub use argus_core::action::Deadlines;
pub use breaker_guard::BreakerGuard;
pub use command::{Command, CommandError, Reply, TestReport};
pub use handle::Handle;
pub use journal::Journal;
pub use metrics::TaskMetrics;
pub use run::{Controller, Options, Running};
pub use snapshot::{ControllerProblems, Snapshot};
pub use status_writer::{EnvFiles, StatusView};
pub use supervise::TaskDied;
