//! The tasks, each started with what it listens to and what it tells.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::connectivity::CheckResults;
use argus_core::lease::Leases;
use argus_core::observed::Store;
use argus_core::preflight::PreflightSnapshot;
use argus_core::reconcile::ControllerIdentity;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Options;
use crate::clock::Clock;
use crate::connectivity;
use crate::lease;
use crate::overrides::DesiredState;
use crate::persisted::{self, Saved};
use crate::preflight::{self, PreflightIo};
use crate::prober::{self, Addresses, ProberIo};
use crate::reconciler::PersistedState;
use crate::snapshot::Snapshot;
use crate::specs::admission::SpecAdmitter;
use crate::specs::surroundings::Access;
use crate::specs::sync_barrier::SyncResponder;
use crate::specs::{self, Rules, SpecRegistry, StartingPoint};
use crate::state_dir::StateDir;
use crate::supervise::{Importance, Supervisor};

/// What the prober looks at.
pub(super) type Watches = (watch::Receiver<Arc<DesiredState>>, watch::Receiver<Arc<Store>>);

pub(super) fn start_specs(
    supervisor: &Supervisor,
    rules: Rules,
    (kept, books, reader): (
        watch::Sender<StartingPoint>,
        watch::Sender<Arc<SpecRegistry>>,
        SyncResponder,
    ),
    clock: Clock,
    stop: &CancellationToken,
) {
    let stop = stop.clone();
    supervisor.spawn("specs", Importance::Critical, move || {
        let (kept, books) = (kept.clone(), books.clone());
        specs::run(rules.clone(), kept, books, reader.clone(), clock, stop.clone())
    });
}

/// What outlives the process is written by those who are told of it.
pub(super) fn start_keepers(
    supervisor: &Supervisor,
    state: &StateDir,
    (persisted, written): (
        watch::Receiver<PersistedState>,
        watch::Sender<Option<Saved<PersistedState>>>,
    ),
    kept: watch::Receiver<StartingPoint>,
) {
    let memory = persisted::persist(state.state_json(), persisted, Some(written));
    supervisor.spawn_once("memory", Importance::Critical, memory);
    let book = persisted::persist(state.specs_json(), kept, None);
    supervisor.spawn_once("book", Importance::Critical, book);
}

pub(super) fn start_prober<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    eyes: Watches,
    voice: ProberIo,
    places: Addresses,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("prober", Importance::Critical, move || {
        let (desires, stores) = eyes.clone();
        prober::run(
            backend.clone(),
            desires,
            stores,
            voice.clone(),
            places,
            clock,
            stop.clone(),
        )
    });
}

pub(super) fn start_lease<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    holder: lease::OwnLease,
    about: lease::LeaseInputs,
    leases: watch::Sender<Leases>,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("lease", Importance::Critical, move || {
        let (holder, about) = (holder.clone(), about.clone());
        lease::run(
            backend.clone(),
            holder,
            about,
            leases.clone(),
            clock,
            stop.clone(),
        )
    });
}

pub(super) fn start_preflight<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    state: &StateDir,
    stores: watch::Receiver<Arc<Store>>,
    clock: Clock,
    stop: &CancellationToken,
) -> (Arc<Notify>, watch::Receiver<Arc<PreflightSnapshot>>) {
    let (preflights, seen) = watch::channel(Arc::default());
    let wanted = Arc::new(Notify::new());
    let lines = PreflightIo {
        wanted: wanted.clone(),
        stores,
        preflights,
    };
    let (backend, state, stop) = (backend.clone(), state.clone(), stop.clone());
    // New environments wait for it.
    supervisor.spawn("surveyor", Importance::Critical, move || {
        preflight::run(backend.clone(), state.clone(), lines.clone(), clock, stop.clone())
    });
    (wanted, seen)
}

pub(super) fn start_connectivity<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    helpers: bool,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    clock: Clock,
    stop: &CancellationToken,
) -> watch::Receiver<Arc<CheckResults>> {
    let book = CheckResults {
        helpers,
        ..CheckResults::default()
    };
    let (books, seen) = watch::channel(Arc::new(book));
    let (backend, stop) = (backend.clone(), stop.clone());
    // Without it everything goes on; it only tells.
    supervisor.spawn("verifier", Importance::Useful, move || {
        connectivity::run(
            backend.clone(),
            snapshots.clone(),
            books.clone(),
            clock,
            stop.clone(),
        )
    });
    seen
}

pub(super) fn rules(options: &Options, identity: &ControllerIdentity) -> Rules {
    Rules {
        folder: std::path::absolute(&options.specs).unwrap_or_else(|_| options.specs.clone()),
        strict: options.strict,
        env_allow: options.env_allow.clone(),
        process_env: options.process_env.clone(),
        controller: identity.controller.clone(),
        own_image: options.own_image.clone(),
        admitter: Arc::new(SpecAdmitter {
            access: Access {
                allow_mounts: options.allow_mounts.clone(),
                state: std::path::absolute(&options.state).unwrap_or_else(|_| options.state.clone()),
                engine: options.engine_socket.clone(),
            },
            own_image: options.own_image.folder.clone(),
        }),
    }
}
