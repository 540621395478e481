//! Start functions of the tasks, each with its channels.

use std::path::Path;
use std::sync::Arc;

use argus_backend::Backend;
use argus_core::connectivity::CheckResults;
use argus_core::lease::ControllerLeases;
use argus_core::observed::Store;
use argus_core::plan::ControllerIdentity;
use argus_core::preflight::PreflightSnapshot;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Options;
use crate::clock::Clock;
use crate::connectivity;
use crate::lease;
use crate::overrides::DesiredState;
use crate::persisted::{self, WriteResult};
use crate::preflight::{self, PreflightIo};
use crate::prober::{self, Addresses, ProberIo};
use crate::reconciler::StateToPersist;
use crate::snapshot::Snapshot;
use crate::specs::admission::SpecAdmitter;
use crate::specs::location::HostAccess;
use crate::specs::source::SpecSource;
use crate::specs::sync_barrier::SyncResponder;
use crate::specs::{self, PersistedSpecs, SpecLoaderSettings, SpecRegistry};
use crate::state_dir::StateDir;
use crate::supervise::{Importance, Supervisor};

/// Inputs of the prober.
pub(super) type Watches = (watch::Receiver<Arc<DesiredState>>, watch::Receiver<Arc<Store>>);

pub(super) fn start_specs(
    supervisor: &Supervisor,
    (options, identity): (&Options, &ControllerIdentity),
    (persisted_specs, sender, responder): (
        watch::Sender<PersistedSpecs>,
        watch::Sender<Arc<SpecRegistry>>,
        SyncResponder,
    ),
    clock: Clock,
    stop: &CancellationToken,
) {
    let (rules, scan_interval) = (rules(options, identity), options.waits.scan_interval);
    let stop = stop.clone();
    supervisor.spawn("specs", Importance::Critical, move || {
        let (persisted_specs, sender) = (persisted_specs.clone(), sender.clone());
        specs::run(
            rules.clone(),
            persisted_specs,
            sender,
            responder.clone(),
            scan_interval,
            clock,
            stop.clone(),
        )
    });
}

/// Starts the tasks that persist values after each change.
pub(super) fn start_writers(
    supervisor: &Supervisor,
    state: &StateDir,
    (snapshots, saved): (
        watch::Receiver<Arc<Snapshot>>,
        watch::Sender<Option<WriteResult<StateToPersist>>>,
    ),
    persisted_specs: watch::Receiver<PersistedSpecs>,
) {
    let dir = state.clone();
    let state_writer = persisted::persist(
        snapshots,
        |snapshot| StateToPersist::of(snapshot),
        |state, written| state.accepted_commands != written.accepted_commands,
        move |state, written| state.write(written, &dir),
        Some(saved),
    );
    supervisor.spawn_once("state_writer", Importance::Critical, state_writer);
    let path = state.specs_json();
    let registry_writer = persisted::persist(
        persisted_specs,
        Clone::clone,
        |_, _| true,
        move |specs, _| persisted::write(&path, specs),
        None,
    );
    supervisor.spawn_once("registry_writer", Importance::Critical, registry_writer);
}

pub(super) fn start_prober<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    watches: Watches,
    io: ProberIo,
    addresses: Addresses,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("prober", Importance::Critical, move || {
        let (desired, stores) = watches.clone();
        prober::run(
            backend.clone(),
            desired,
            stores,
            io.clone(),
            addresses,
            clock,
            stop.clone(),
        )
    });
}

pub(super) fn start_lease<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    own_lease: lease::OwnLease,
    inputs: lease::LeaseInputs,
    leases: watch::Sender<ControllerLeases>,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("lease", Importance::Critical, move || {
        let (own_lease, inputs) = (own_lease.clone(), inputs.clone());
        lease::run(
            backend.clone(),
            own_lease,
            inputs,
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
    let needs_preflight = Arc::new(Notify::new());
    let channels = PreflightIo {
        wanted: needs_preflight.clone(),
        stores,
        preflights,
    };
    let (backend, state, stop) = (backend.clone(), state.clone(), stop.clone());
    // Critical, because new environments wait for a preflight check.
    supervisor.spawn("preflight", Importance::Critical, move || {
        preflight::run(
            backend.clone(),
            state.clone(),
            channels.clone(),
            clock,
            stop.clone(),
        )
    });
    (needs_preflight, seen)
}

pub(super) fn start_connectivity<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    helpers: bool,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    clock: Clock,
    stop: &CancellationToken,
) -> watch::Receiver<Arc<CheckResults>> {
    let results = CheckResults {
        helpers_allowed: helpers,
        ..CheckResults::default()
    };
    let (sender, seen) = watch::channel(Arc::new(results));
    let (backend, stop) = (backend.clone(), stop.clone());
    // Only useful: the controller works without connectivity checks.
    supervisor.spawn("connectivity", Importance::Useful, move || {
        connectivity::run(
            backend.clone(),
            snapshots.clone(),
            sender.clone(),
            clock,
            stop.clone(),
        )
    });
    seen
}

fn rules(options: &Options, identity: &ControllerIdentity) -> SpecLoaderSettings {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let own = absolute(options.state.locked_folder());
    SpecLoaderSettings {
        source: SpecSource::new(&options.specs, options.state.root()),
        strict: options.strict,
        env_allow: options.env_allow.clone(),
        process_env: options.process_env.clone(),
        controller: identity.controller.clone(),
        admitter: SpecAdmitter {
            access: HostAccess {
                allow_mounts: options.allow_mounts.clone(),
                allowed: options.allowed.clone(),
                git_writable: options.git_writable,
                state: absolute(options.state.root()),
                private: options.private_folders.iter().cloned().chain([own]).collect(),
                engine: options.engine_socket.clone(),
            },
            own_image: options.own_image.clone(),
            namespace_from: options.namespace_from.clone(),
            ceiling: options.ceiling,
        },
        translate: options.translate,
    }
}
