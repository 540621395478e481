//! The Docker backend: eyes and hands for one engine, and the only crate that names its client.
//!
//! It decides nothing. [`watch`](Docker) reports what is there; `act` carries out exactly one call and says what
//! came of it. Nothing is changed whose owner was not made sure of.

mod about;
mod act;
mod call;
mod connect;
mod create;
mod dirty;
mod error;
mod evidence;
mod exec;
mod grip;
mod helper;
mod image;
mod inspect;
mod lease;
mod limits;
mod links;
mod listeners;
mod logs;
mod own_stops;
mod ownership;
mod peaks;
mod raw;
mod reclaim;
mod survey;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::{About, Backend, ExecResult, LogLine, LogQuery, NO_PROGRESS, Progress};
use argus_core::connectivity::{Aim, Seen};
use argus_core::ident::{ContainerId, HostPort};
use argus_core::lease::{Lease, Note};
use argus_core::observed::Sighting;
use argus_core::outcome::{ActError, Done, PortOwner};
use argus_core::plan::Act;
use argus_core::preflight::Ground;
use argus_core::reclaim::BuiltImage;
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;

pub use connect::{BadEndpoint, Endpoint};
pub use helper::OwnImage;
pub use image::context::digest as context_digest;

use connect::Connection;
use grip::Grip;
use helper::Helpers;
use limits::Limits;
use own_stops::OwnStops;
use ownership::{ImageLabels, Own};
use peaks::Peaks;

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
pub struct Holders {
    /// Those that are held.
    pub holders: BTreeMap<HostPort, PortOwner>,
    /// What is not in there is free; else it may be held by something that is no container.
    pub complete: bool,
}

/// What the eyes and the hands have in common.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) now: Clock,
    pub(crate) look_again: Notify,
    pub(crate) reconnect: Notify,
    pub(crate) own_stops: OwnStops,
    pub(crate) grip: Grip,
    pub(crate) own: Own,
    pub(crate) peaks: Peaks,
    pub(crate) image_labels: ImageLabels,
    pub(crate) leases: lease::Known,
    pub(crate) helpers: Helpers,
    /// A pull or a build without progress for as long is given up.
    pub(crate) no_progress: Duration,
    pub(crate) limits: Limits,
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
                look_again: Notify::new(),
                reconnect: Notify::new(),
                own_stops: OwnStops::default(),
                grip: Grip::default(),
                own: Own::default(),
                peaks: Peaks::default(),
                image_labels: ImageLabels::default(),
                leases: lease::Known::default(),
                helpers: Helpers::new(own_image),
                no_progress,
                limits: Limits::default(),
            }),
        }
    }

    /// How the engine is reached, for people.
    pub fn endpoint(&self) -> String {
        self.shared.connection.endpoint().to_string()
    }

    /// Whether the engine answers a ping within two seconds.
    pub async fn ping(&self) -> Result<(), ActError> {
        call::ping(&self.shared).await
    }

    /// All images on the engine that Argus built.
    pub async fn built_images(&self) -> Result<Vec<BuiltImage>, ActError> {
        reclaim::built(&self.shared).await
    }

    /// Removes an image that Argus built, by id; one that is gone is success.
    pub async fn remove_image(&self, id: &str) -> Result<(), ActError> {
        reclaim::remove(&self.shared, id).await
    }

    /// Bytes of the builder's cache that nothing uses at present.
    pub async fn build_cache(&self) -> Result<u64, ActError> {
        reclaim::build_cache(&self.shared).await
    }

    /// Empties the builder's cache of what nothing uses; the bytes that came back.
    pub async fn prune_build_cache(&self) -> Result<u64, ActError> {
        reclaim::prune_build_cache(&self.shared).await
    }

    /// Freezes a container of ours. No plan ever wants that: it is a trouble that a selftest makes.
    pub async fn pause(&self, id: &ContainerId) -> Result<Done, ActError> {
        act::pause(&self.shared, id).await
    }

    /// Whether the engine has an image under this reference.
    pub async fn has_image(&self, reference: &str) -> Result<bool, ActError> {
        Ok(ownership::ask_image(&self.shared, reference).await?.is_some())
    }

    /// Who holds these host ports, as far as it can be seen from here.
    pub async fn port_holders(&self, ports: &BTreeSet<HostPort>) -> Holders {
        let seen = listeners::look(&self.shared, None).await;
        let busy = seen.busy();
        let holders = ports
            .intersection(&busy)
            .filter_map(|port| Some((*port, seen.owner(*port)?)));
        Holders {
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
    fn watch(&self) -> BoxStream<'static, Sighting> {
        watch::sightings(self.shared.clone()).boxed()
    }

    fn look_again(&self) {
        // A permit is kept until somebody waits for it, and many permits are one.
        self.shared.look_again.notify_one();
    }

    fn reconnect(&self) {
        // Nobody waits while the engine answers: a permit that was kept would end the next wait at once.
        self.shared.reconnect.notify_waiters();
    }

    async fn act(&self, act: &Act, progress: &dyn Progress) -> Result<Done, ActError> {
        act::carry_out(&self.shared, act, progress).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActError>> {
        logs::lines(&self.shared, id, &query)
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<ExecResult, ActError> {
        exec::run(&self.shared, id, command).await
    }

    async fn look_from(&self, source: &ContainerId, aims: &[Aim]) -> Result<Vec<Seen>, ActError> {
        Box::pin(links::look(&self.shared, source, aims)).await
    }

    async fn leases(&self) -> Result<Vec<Lease>, ActError> {
        lease::all(&self.shared).await
    }

    async fn renew_lease(&self, note: &Note) -> Result<Vec<Lease>, ActError> {
        lease::renew(&self.shared, note).await
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActError> {
        lease::release(&self.shared, run).await
    }

    async fn survey(&self) -> Ground {
        Box::pin(survey::take(&self.shared)).await
    }

    async fn about(&self) -> Result<About, ActError> {
        about::ask(&self.shared).await
    }
}
