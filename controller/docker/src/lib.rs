//! The Docker backend: eyes and hands for one engine, and the only crate that names its client.
//!
//! It decides nothing. [`watch`](Docker) reports what is there; `act` carries out exactly one call and says what
//! came of it. Nothing is changed whose owner was not made sure of.

mod action;
mod call;
mod connect;
mod create;
mod effective_limits;
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
mod watch;
mod work_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, NO_PROGRESS, Progress};
use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::{ContainerId, HostPort};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done, PortOwner};
use argus_core::plan::Action;
use argus_core::preflight::HostFacts;
use argus_core::prune::BuiltImage;
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;

pub use connect::{BadEndpoint, Endpoint};
pub use helper::OwnImage;
pub use image::context::digest as context_digest;

use connect::Connection;
use effective_limits::EffectiveLimits;
use helper::Helpers;
use in_flight::InFlightCalls;
use memory_peaks::MemoryPeaks;
use own_stops::OwnStops;
use ownership::{ImageLabels, OwnedIds};

/// A log filter that keeps the client below the level at which it prints request bodies.
pub const QUIET_LOG: &str = "bollard=info";

/// Tells the time; this crate never asks the system for it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// One Docker engine. Making it connects to nothing: an engine that is down at boot is a normal state.
#[derive(Clone)]
pub struct Docker {
    shared: Arc<Shared>,
}

/// Who holds host ports.
#[derive(Debug, Clone, Default)]
pub struct PortHolders {
    /// Those that are held.
    pub holders: BTreeMap<HostPort, PortOwner>,
    /// What is not in there is free; else it may be held by something that is no container.
    pub complete: bool,
}

/// What the eyes and the hands have in common.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) now: Clock,
    pub(crate) relist: Notify,
    pub(crate) reconnect: Notify,
    pub(crate) own_stops: OwnStops,
    pub(crate) in_flight: InFlightCalls,
    pub(crate) owned_ids: OwnedIds,
    pub(crate) binds: action::mounts::Binds,
    pub(crate) peaks: MemoryPeaks,
    pub(crate) image_labels: ImageLabels,
    pub(crate) leases: lease::RenewalCache,
    pub(crate) helpers: Helpers,
    /// A pull or a build without progress for as long is given up.
    pub(crate) no_progress: Duration,
    pub(crate) limits: EffectiveLimits,
}

impl Docker {
    /// The engine behind `endpoint`.
    pub fn new(endpoint: Endpoint, now: Clock) -> Self {
        Self::with_own_image(endpoint, now, None, NO_PROGRESS)
    }

    /// The same, with an image of this program to look with where nothing can be seen from here, and with how long a pull or a build
    /// may make no progress.
    pub fn with_own_image(
        endpoint: Endpoint,
        now: Clock,
        own_image: Option<OwnImage>,
        no_progress: Duration,
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
                binds: action::mounts::Binds::default(),
                peaks: MemoryPeaks::default(),
                image_labels: ImageLabels::default(),
                leases: lease::RenewalCache::default(),
                helpers: Helpers::new(own_image),
                no_progress,
                limits: EffectiveLimits::default(),
            }),
        }
    }

    /// How the engine is reached, for people.
    pub fn endpoint(&self) -> String {
        self.shared.connection.endpoint().to_string()
    }

    /// Whether the engine answers a ping within two seconds.
    pub async fn ping(&self) -> Result<(), ActionError> {
        call::ping(&self.shared).await
    }

    /// All images on the engine that Argus built.
    pub async fn built_images(&self) -> Result<Vec<BuiltImage>, ActionError> {
        prune::built(&self.shared).await
    }

    /// Removes an image that Argus built, by id; one that is gone is success.
    pub async fn remove_image(&self, id: &str) -> Result<(), ActionError> {
        prune::remove(&self.shared, id).await
    }

    /// Bytes of the builder's cache that nothing uses at present.
    pub async fn build_cache(&self) -> Result<u64, ActionError> {
        prune::build_cache(&self.shared).await
    }

    /// Empties the builder's cache of what nothing uses; the bytes that came back.
    pub async fn prune_build_cache(&self) -> Result<u64, ActionError> {
        prune::prune_build_cache(&self.shared).await
    }

    /// Freezes a container of ours. No plan ever wants that: it is a trouble that a selftest makes.
    pub async fn pause(&self, id: &ContainerId) -> Result<Done, ActionError> {
        action::pause(&self.shared, id).await
    }

    /// Whether the engine has an image under this reference.
    pub async fn has_image(&self, reference: &str) -> Result<bool, ActionError> {
        Ok(ownership::inspect_image(&self.shared, reference).await?.is_some())
    }

    /// Who holds these host ports, as far as it can be seen from here.
    pub async fn port_holders(&self, ports: &BTreeSet<HostPort>) -> PortHolders {
        let seen = listeners::look(&self.shared, None).await;
        let busy = seen.busy();
        let holders = ports
            .intersection(&busy)
            .filter_map(|port| Some((*port, seen.owner(*port)?)));
        PortHolders {
            holders: holders.collect(),
            complete: seen.complete(),
        }
    }

    /// Every host port that is taken on the engine's host, as far as it can be seen from here.
    pub async fn taken_ports(&self) -> BTreeSet<HostPort> {
        listeners::look(&self.shared, None).await.busy()
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
        watch::events(self.shared.clone()).boxed()
    }

    fn request_relist(&self) {
        // A permit is kept until somebody waits for it, and many permits are one.
        self.shared.relist.notify_one();
    }

    fn reconnect(&self) {
        // Nobody waits while the engine answers: a permit that was kept would end the next wait at once.
        self.shared.reconnect.notify_waiters();
    }

    async fn execute(&self, execute: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        action::carry_out(&self.shared, execute, progress).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        logs::lines(&self.shared, id, &query)
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<ExecResult, ActionError> {
        exec::run(&self.shared, id, command).await
    }

    async fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        Box::pin(links::check(&self.shared, source, targets)).await
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        lease::all(&self.shared).await
    }

    async fn renew_lease(&self, note: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        lease::renew(&self.shared, note).await
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActionError> {
        lease::release(&self.shared, run).await
    }

    async fn host_facts(&self) -> HostFacts {
        Box::pin(host_facts::take(&self.shared)).await
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        info::ask(&self.shared).await
    }
}
