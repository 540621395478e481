//! The port to an engine: what the reconciler asks of it, whoever answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::preflight::HostFacts;
use argus_core::time::Timestamp;
use futures::stream::BoxStream;

pub mod contract;
pub mod host_path;
pub mod sim;

/// An engine that can be watched and acted on.
///
/// Every act can be repeated: what is already so is success. Removal and stop look at the labels again first.
pub trait Backend: Send + Sync + 'static {
    /// Sightings for ever: subscribes, lists, and does so again by itself after every loss. Called once.
    fn watch(&self) -> BoxStream<'static, WatchEvent>;

    /// Asks the running watch for a full list soon; many requests make one list.
    fn request_relist(&self);

    /// Looks for an engine that is away at once, instead of when the next try is due.
    fn reconnect(&self);

    /// Carries out one act. The caller sets the deadline; dropping the future abandons the call, not its effect.
    fn execute(
        &self,
        act: &Action,
        progress: &dyn Progress,
    ) -> impl Future<Output = Result<Done, ActionError>> + Send;

    /// Log lines of a container, oldest first.
    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>>;

    /// Runs a command inside a container and waits for it.
    fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
    ) -> impl Future<Output = Result<ExecResult, ActionError>> + Send;

    /// Looks from inside a running container's network whether it reaches these, all at once; one answer an aim, in their order.
    /// Needs nothing in its image, and leaves nothing behind.
    fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> impl Future<Output = Result<Vec<TargetResult>, ActionError>> + Send;

    /// The leases of all controllers on the engine, each with its age by the engine's clock.
    fn leases(&self) -> impl Future<Output = Result<Vec<ControllerLease>, ActionError>> + Send;

    /// Writes a lease in place of the run's last one, and answers with all that are there after that. Leases of dead runs on the
    /// same place go, and so do those of others that have been dead for long.
    fn renew_lease(
        &self,
        note: &LeaseSpec,
    ) -> impl Future<Output = Result<Vec<ControllerLease>, ActionError>> + Send;

    /// Takes a run's lease away: nobody waits for it any more.
    fn release_lease(&self, run: &str) -> impl Future<Output = Result<(), ActionError>> + Send;

    /// Whether things can be made on it: the engine, its disk and its networks. Never fails and never takes longer than
    /// [`SURVEY`]: what could not be found out says why.
    fn host_facts(&self) -> impl Future<Output = HostFacts> + Send;

    /// What the engine says of itself.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, ActionError>> + Send;
}

/// Hears how far a pull or a build has come.
pub trait Progress: Send + Sync {
    /// One line for people, such as `layer 3/7 12.1 MB of 40 MB` or `Step 2/5 : COPY`.
    fn report_line(&self, line: &str);

    /// The same of what is only worth reading now, and not worth keeping.
    fn report_status(&self, line: &str);
}

/// Nobody listens.
impl Progress for () {
    fn report_line(&self, _line: &str) {}

    fn report_status(&self, _line: &str) {}
}

/// Which log lines are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only the last so many lines.
    pub tail: Option<u32>,
    /// Go on until the container ends.
    pub follow: bool,
    /// With the engine's time in front.
    pub timestamps: bool,
    /// Nothing older, to the second.
    pub since: Option<Timestamp>,
    /// One stream only.
    pub only: Option<Stream>,
}

/// One of the two streams that a process writes.
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
    /// It came from stderr.
    pub stderr: bool,
    /// Text without its line end, cut to 64 KiB.
    pub text: String,
}

/// What came of a command in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecResult {
    /// Exit code.
    pub exit_code: i64,
    /// Its output, both streams, cut to 4 KiB.
    pub output: String,
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineInfo {
    /// Version of the engine.
    pub version: String,
    /// Highest API version it speaks.
    pub api_version: String,
    /// Where it keeps its data.
    pub data_root: String,
    /// How it is reached.
    pub endpoint: String,
    /// Further facts by name.
    pub facts: BTreeMap<String, String>,
}

/// No part of a survey takes longer.
pub const HOST_FACTS: Duration = Duration::from_secs(3);
/// Pulls and builds may take as long as they show progress; everything else has one deadline per verb.
pub const NO_PROGRESS: Duration = Duration::from_secs(120);
