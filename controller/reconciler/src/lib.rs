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
//! # Wake-ups have no content
//!
//! Except for a command and the result of an action, a wake-up has no content. The task reads the newest value of each channel, and its work
//! covers all that changed: many wake-ups cost one pass, a missed one costs one interval, and a restarted task needs no replay. An event
//! with content would have to arrive exactly once and in order, at a task that was perhaps restarted in between. `select!` names only the
//! reason of the wake-up, for the metrics.
//!
//! For the next task:
//!
//! - A new fact is a watch channel with one writer. A second writer of a fact is a second opinion about it.
//! - The work follows the `select!`: work in an arm is dropped when another arm is first.
//! - A task that can be created again from its inputs is `spawn`ed. One that owns something that exists once, such as the state of the
//!   planner, is `spawn_once`d: its panic ends the controller, and a new process reads everything again.
//! - A writer takes no stop token. It ends with its channel.
//!
//! # End of the tasks
//!
//! The stop token ends every task that only observes. The reconciler then waits for the actions in flight, publishes its last snapshot and
//! drops its senders. The writers and the lease end when the channel that they read is closed, so none misses that snapshot, and no other
//! controller takes over before the last action. The marker of a clean stop follows all of them. The lock goes last, with
//! [`run::Running`].
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
