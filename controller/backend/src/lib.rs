//! Interface to a container engine: one trait with the calls that the reconciler makes.
//!
//! [`Backend`] is the only way from Argus to an engine. Two types implement it:
//!
//! - `argus_docker::Docker` talks to a Docker engine over its API.
//! - [`sim::Sim`] is an engine in memory, deterministic for a seed, with the faults of a [`sim::FaultProfile`].
//!
//! A backend decides nothing. [`Backend::watch`] reports objects as [`WatchEvent`]s, as a Kubernetes informer does.
//! [`Backend::execute`] performs exactly one [`Action`] and returns its result. Every other method is a single query or
//! a single write.
//!
//! [`contract::ContractTest`] tests that both implementations behave alike: it performs every action, most of them twice,
//! and compares the results and the watch events with the contract.
//!
//! Start reading at [`Backend`]; then read [`contract`] for the details of each action and [`sim`] for the possible
//! faults.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use argus_core::action::{Action, ActionProgress};
use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::preflight::HostFacts;
use argus_core::time::Timestamp;
use futures::stream::BoxStream;

pub mod contract;
pub mod host_path;
pub mod http1;
pub mod run_log;
pub mod sim;

/// An engine that can be watched and acted on.
///
/// Every action is idempotent: a state that is already reached is a success. Removals and stops check the labels first.
pub trait Backend: Send + Sync + 'static {
    /// Watch events without end: subscribes, lists, and repeats both after every loss of the engine. Call it once.
    fn watch(&self) -> BoxStream<'static, WatchEvent>;

    /// Requests a full list from the running watch. Several requests are merged into one list.
    fn request_relist(&self);

    /// Ends the current backoff of the watch, so that it tries an unreachable engine immediately.
    fn reconnect(&self);

    /// Replaces the references and ids of the images that the clean-up after a build keeps, such as those of a rollback.
    fn keep_images(&self, images: BTreeSet<String>);

    /// Performs one action. The caller sets the deadline. A dropped future abandons the call; its effect may still occur.
    fn execute(
        &self,
        action: &Action,
        progress: &dyn Progress,
    ) -> impl Future<Output = Result<Done, ActionError>> + Send;

    /// Log lines of a container, oldest first.
    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>>;

    /// Runs a command inside a container and waits until it ends, for this time at most. Afterwards its processes are killed; an image
    /// without `sh` and `tr` keeps them.
    fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> impl Future<Output = Result<ExecResult, ActionError>> + Send;

    /// Inspects a container once. True if it runs, its run began at `started_at` if that time is known, and it is attached
    /// to networks that work. Otherwise a failed probe does not concern the container.
    fn is_run_intact(
        &self,
        id: &ContainerId,
        started_at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, ActionError>> + Send;

    /// Checks in parallel which targets can be reached from the network namespace of a running container, or from a new
    /// endpoint on a network.
    ///
    /// Returns one result per target, in the order of `targets`. The check needs no program in the container's image
    /// and leaves nothing behind.
    fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> impl Future<Output = Result<Vec<TargetResult>, ActionError>> + Send;

    /// The leases of all controllers on the engine, each with its age by the engine's clock.
    fn leases(&self) -> impl Future<Output = Result<Vec<ControllerLease>, ActionError>> + Send;

    /// Writes a lease in place of the run's previous one and returns all leases that exist afterwards.
    ///
    /// Also removes the leases of dead runs of the same state directory, and leases of others that expired long ago.
    fn renew_lease(
        &self,
        spec: &LeaseSpec,
    ) -> impl Future<Output = Result<Vec<ControllerLease>, ActionError>> + Send;

    /// Removes the lease of a run, so that other controllers no longer wait for it to expire.
    fn release_lease(&self, run: &str) -> impl Future<Output = Result<(), ActionError>> + Send;

    /// Facts for the preflight checks: the engine, its disk and its networks.
    ///
    /// Never fails. Each part has a deadline near [`HOST_FACTS_TIMEOUT`]; a part that cannot be determined holds the reason.
    fn host_facts(&self) -> impl Future<Output = HostFacts> + Send;

    /// Version and facts that the engine reports about itself.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, ActionError>> + Send;
}

/// Receiver of the progress of a pull or a build.
pub trait Progress: Send + Sync {
    /// Reports progress whose line is stored in the log.
    fn report_step(&self, progress: ActionProgress);

    /// Reports progress that is only of interest now and is not stored.
    fn report_status(&self, progress: ActionProgress);
}

/// Discards all progress.
impl Progress for () {
    fn report_step(&self, _progress: ActionProgress) {}

    fn report_status(&self, _progress: ActionProgress) {}
}

/// Selection of log lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Maximum number of lines, counted from the end; `None` for all.
    pub tail: Option<u32>,
    /// Wait for further lines until the container ends.
    pub follow: bool,
    /// Prefix each line with the engine's time.
    pub timestamps: bool,
    /// Time of the oldest line, in whole seconds; `None` for no limit.
    pub since: Option<Timestamp>,
    /// Restriction to one stream; `None` for both.
    pub only: Option<Stream>,
}

/// One of the two output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// True for standard error, false for standard output.
    pub stderr: bool,
    /// Text without its line end, cut to 64 KiB.
    pub text: String,
}

/// Result of a command in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecResult {
    /// Exit code of the command; `None` if it did not end in time.
    pub exit_code: Option<i64>,
    /// End of the output of both streams, at most 3.5 KiB.
    pub output: String,
}

/// Self-description of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineInfo {
    /// Version of the engine.
    pub version: String,
    /// Highest API version that the engine supports.
    pub api_version: String,
    /// Path of the engine's data on its own host.
    pub data_root: String,
    /// Address of the engine, for people.
    pub endpoint: String,
    /// Further facts by name.
    pub facts: BTreeMap<String, String>,
}

/// Deadline of one part of [`Backend::host_facts`].
pub const HOST_FACTS_TIMEOUT: Duration = Duration::from_secs(3);
/// Default time without progress after which a pull or a build is given up. Every other action has one deadline.
pub const PROGRESS_TIMEOUT: Duration = Duration::from_secs(120);
