//! The Docker backend: an [`argus_backend::Backend`] for one Docker engine, and the only crate that uses `bollard`.
//!
//! The crate decides nothing. [`Docker`] is its main type; it has three kinds of work:
//!
//! - **Watch**: [`Backend::watch`] reports all labelled objects as [`WatchEvent`]s. The module `watch` documents its
//!   states, its guarantees and its recovery.
//! - **Actions**: [`Backend::execute`] performs exactly one change (module `action`). It changes an object only after it
//!   has checked that the object belongs to Argus (module `ownership`).
//! - **Queries**: logs, command execution, leases, host facts, port holders, connectivity checks.
//!
//! Every call has its own deadline (module `call`), and the module `error` maps every refusal of an engine to an
//! [`ActionError`]. A few queries need a view from inside the engine's host; they run a short-lived helper container
//! of this program's own image ([`OwnImageBuilder`], module `helper`).
//!
//! Start reading at [`Docker`], then `action.rs` for the changes and `watch.rs` for the watch.

mod action;
mod bridges;
mod build_cleanup;
mod call;
mod connect;
mod create;
mod error;
mod evidence;
mod exec;
mod helper;
mod host_facts;
mod image;
mod in_flight;
mod info;
mod inspect;
mod lease;
mod links;
mod listeners;
mod logs;
mod memory_peaks;
mod own_stops;
mod ownership;
mod prune;
mod raw_http;
mod service_sockets;
mod similar_file;
mod tls_hello;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};
use argus_core::action::{Action, Deadlines};
use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::delays::Delays;
use argus_core::ident::{ContainerId, ProtocolPort};
use argus_core::journal::EngineChange;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done, PortOwner};
use argus_core::preflight::HostFacts;
use argus_core::prune::BuiltImage;
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;

pub use connect::{BadEndpoint, Endpoint};
pub use exec::{Exec, ExecCommand, ExecOutput, ExecSession};
pub use helper::OwnImageBuilder;
pub use image::context::digest as context_digest;
pub use listeners::{outgoing_ports, port_holder};
pub use service_sockets::listening_addresses;

use bridges::Bridges;
use build_cleanup::BuildCleanup;
use call::CallTimes;
use connect::Connection;
use helper::Helpers;
use in_flight::InFlightCalls;
use info::EffectiveLimits;
use memory_peaks::MemoryPeaks;
use own_stops::OwnStops;
use ownership::{ImageLabels, OwnedIds};

/// A log filter that keeps `bollard` below the level at which it logs request bodies.
pub const QUIET_LOG: &str = "bollard=info";

/// Source of the current time; this crate never reads the system clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Receiver of the changes that no plan contains.
pub type ChangeRecorder = Box<dyn Fn(EngineChange) + Send + Sync>;

/// One Docker engine. The constructor does not connect: an engine that is down at start is a normal state.
#[derive(Clone)]
pub struct Docker {
    shared: Arc<Shared>,
}

/// Holders of host ports.
#[derive(Debug, Clone, Default)]
pub struct PortHolders {
    /// Holder of each port that is in use.
    pub holders: BTreeMap<ProtocolPort, PortOwner>,
    /// True when every port that is not in `holders` is free. Otherwise a process outside containers may hold it.
    pub complete: bool,
}

/// State shared by the watch and the actions of one engine.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) now: Clock,
    pub(crate) relist: Notify,
    pub(crate) reconnect: Notify,
    pub(crate) own_stops: OwnStops,
    pub(crate) in_flight: InFlightCalls,
    pub(crate) owned_ids: OwnedIds,
    pub(crate) bind_mounts: action::mounts::BindMounts,
    pub(crate) peaks: MemoryPeaks,
    pub(crate) image_labels: ImageLabels,
    pub(crate) leases: lease::RenewalCache,
    pub(crate) helpers: Helpers,
    changes: OnceLock<ChangeRecorder>,
    /// Deadlines of single calls.
    pub(crate) times: CallTimes,
    /// Time without progress after which a pull or a build is given up.
    pub(crate) progress_timeout: Duration,
    /// Minimum interval of the lists in addition to events.
    pub(crate) list_interval: Duration,
    /// Maximum size of the unused build cache in bytes after a build.
    pub(crate) build_cache_limit: Option<u64>,
    /// References and ids of the images that the clean-up after a build keeps.
    pub(crate) kept_images: Mutex<BTreeSet<String>>,
    pub(crate) build_cleanup: BuildCleanup,
    pub(crate) limits: EffectiveLimits,
    pub(crate) bridges: Bridges,
    /// True after the engine refused `host-gateway`, for example because it runs without its default bridge.
    pub(crate) lacks_host_gateway: AtomicBool,
}

impl Shared {
    /// Passes a change to its receiver. Commands have none.
    pub(crate) fn record_change(&self, change: EngineChange) {
        if let Some(record) = self.changes.get() {
            record(change);
        }
    }
}

impl Docker {
    /// Facts for the preflight checks without a measurement of the disk, which can need a helper container.
    pub async fn host_facts_without_disk(&self) -> HostFacts {
        Box::pin(host_facts::collect(&self.shared, false)).await
    }

    /// A backend for the engine at `endpoint`, without helper containers.
    pub fn new(endpoint: Endpoint, now: Clock) -> Self {
        let list_interval = Delays::default().list_interval;
        Self::with_own_image(endpoint, now, None, Deadlines::default(), list_interval, None)
    }

    /// A backend for the engine at `endpoint`.
    ///
    /// `own_image` builds this program's image for helper containers; `None` disables them. The deadlines of all calls follow
    /// from `deadlines`; a pull or a build without progress for the long one is given up. The watch lists every `list_interval`,
    /// or less often if that is expensive.
    /// `build_cache_limit` is the maximum size of the unused build cache in bytes after a build.
    pub fn with_own_image(
        endpoint: Endpoint,
        now: Clock,
        own_image: Option<OwnImageBuilder>,
        deadlines: Deadlines,
        list_interval: Duration,
        build_cache_limit: Option<u64>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                connection: Connection::new(endpoint),
                now,
                relist: Notify::new(),
                reconnect: Notify::new(),
                own_stops: OwnStops::default(),
                in_flight: InFlightCalls::default(),
                owned_ids: OwnedIds::default(),
                bind_mounts: action::mounts::BindMounts::default(),
                peaks: MemoryPeaks::default(),
                image_labels: ImageLabels::default(),
                leases: lease::RenewalCache::default(),
                helpers: Helpers::new(own_image),
                changes: OnceLock::new(),
                times: CallTimes::of(deadlines),
                progress_timeout: deadlines.long,
                list_interval,
                build_cache_limit,
                kept_images: Mutex::default(),
                build_cleanup: BuildCleanup::default(),
                limits: EffectiveLimits::default(),
                bridges: Bridges::default(),
                lacks_host_gateway: AtomicBool::new(false),
            }),
        }
    }

    /// Sets the receiver of changes, once.
    pub fn record_changes(&self, recorder: ChangeRecorder) {
        // A second receiver would record each change twice.
        let _already_set = self.shared.changes.set(recorder);
    }

    /// Address of the engine, for people.
    pub fn endpoint(&self) -> String {
        self.shared.connection.endpoint().to_string()
    }

    /// Pings the engine; fails unless it responds within two seconds, or more with longer settings.
    pub async fn ping(&self) -> Result<(), ActionError> {
        call::ping(&self.shared).await
    }

    /// All images on the engine that Argus has built.
    pub async fn built_images(&self) -> Result<Vec<BuiltImage>, ActionError> {
        prune::list_built_images(&self.shared).await
    }

    /// Removes an image that Argus built, by id. Succeeds when the image does not exist.
    pub async fn remove_image(&self, id: &str) -> Result<(), ActionError> {
        prune::remove_image(&self.shared, id).await
    }

    /// Size of the unused build cache, in bytes.
    pub async fn build_cache(&self) -> Result<u64, ActionError> {
        image::build::control::unused_cache(&self.shared).await
    }

    /// Removes the unused build cache beyond `keep` bytes, and returns the freed bytes.
    pub async fn prune_build_cache(&self, keep: u64) -> Result<u64, ActionError> {
        prune::prune_build_cache(&self.shared, keep).await
    }

    /// Removes what each build leaves, without end: replaced builds of its tag, and the build cache beyond its limit. Then passes the size
    /// of the unused build cache in bytes to `report`.
    pub async fn clean_up_builds(&self, report: impl Fn(u64) + Send + Sync) {
        Box::pin(build_cleanup::run(&self.shared, report)).await;
    }

    /// Pauses a container that Argus owns. No plan does this; it is a fault that `argus selftest` injects.
    pub async fn pause(&self, id: &ContainerId) -> Result<Done, ActionError> {
        action::pause(&self.shared, id).await
    }

    /// Starts a command in a container, with its streams attached.
    pub async fn start_exec(
        &self,
        id: &ContainerId,
        command: &ExecCommand,
    ) -> Result<ExecSession, ActionError> {
        exec::start(&self.shared, id, command).await
    }

    /// Runs a command as [`Backend::exec`] does, until it or `limit` ends, and returns the last `max_output` bytes of its output.
    pub async fn run_command(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: impl Future<Output = ()> + Send,
        max_output: usize,
    ) -> Result<ExecResult, ActionError> {
        exec::run(&self.shared, id, command, limit, max_output).await
    }

    /// True when the engine has an image with this reference.
    pub async fn has_image(&self, reference: &str) -> Result<bool, ActionError> {
        Ok(ownership::inspect_image(&self.shared, reference).await?.is_some())
    }

    /// The holders of these host ports, as far as they are visible from this host.
    pub async fn port_holders(&self, ports: &BTreeSet<ProtocolPort>) -> PortHolders {
        let snapshot = listeners::take_snapshot(&self.shared, None).await;
        let holders = ports
            .iter()
            .filter_map(|port| Some((*port, snapshot.owner(*port)?)));
        PortHolders {
            holders: holders.collect(),
            complete: snapshot.is_complete(),
        }
    }
}

impl std::fmt::Debug for Docker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Docker")
            .field("endpoint", &self.endpoint())
            .finish_non_exhaustive()
    }
}

impl Backend for Docker {
    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        watch::watch_events(self.shared.clone()).boxed()
    }

    fn request_relist(&self) {
        // `Notify` keeps one permit for the next waiter, so several requests become one list.
        self.shared.relist.notify_one();
    }

    fn reconnect(&self) {
        // `notify_one` would keep a permit while the engine is reachable and end the next backoff immediately.
        self.shared.reconnect.notify_waiters();
    }

    fn keep_images(&self, images: BTreeSet<String>) {
        let kept = self.shared.kept_images.lock();
        *kept.unwrap_or_else(PoisonError::into_inner) = images;
    }

    async fn execute(&self, action: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        Box::pin(action::execute(&self.shared, action, progress)).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        logs::lines(&self.shared, id, &query)
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecResult, ActionError> {
        let limit = tokio::time::sleep(timeout);
        exec::run(&self.shared, id, command, limit, exec::MAX_PROBE_OUTPUT).await
    }

    async fn is_run_intact(
        &self,
        id: &ContainerId,
        started_at: Option<Timestamp>,
    ) -> Result<bool, ActionError> {
        let container = watch::inspect_container(&self.shared, id).await?;
        let Some(container) = container.filter(|container| container.is_run(started_at)) else {
            return Ok(false);
        };
        let networks = container.networks.values().filter_map(|at| at.network.as_ref());
        let is_broken = self.shared.bridges.is_any_missing(networks);
        if is_broken {
            self.request_relist();
        }
        Ok(!is_broken && container.has_network())
    }

    async fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        Box::pin(links::check(&self.shared, source, targets)).await
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        lease::list(&self.shared).await
    }

    async fn renew_lease(&self, spec: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        lease::renew(&self.shared, spec).await
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActionError> {
        lease::release(&self.shared, run).await
    }

    async fn host_facts(&self) -> HostFacts {
        Box::pin(host_facts::collect(&self.shared, true)).await
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        info::fetch(&self.shared).await
    }
}
