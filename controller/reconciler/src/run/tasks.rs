//! Start functions of the tasks, each with its channels.
//!
//! # Wake-ups have no content
//!
//! Except for a command and the result of an action, a wake-up has no content. The task reads the newest value of each channel, and its work
//! covers all that changed: many wake-ups cost one pass, a missed one costs one interval, and a restarted task needs no replay. An event
//! with content would have to arrive exactly once and in order, at a task that was perhaps restarted in between. `select!` names only the
//! reason of the wake-up, for the metrics.
//!
//! For the same reason, the arguments of a task are channels, and what never changes: settings, the backend, the clock. A fact in an argument
//! would be that of the first start, also for the task that a restart creates.
//!
//! # For the next task
//!
//! - A new fact is a watch channel with one writer. A second writer of a fact is a second opinion about it.
//! - The work follows the `select!`: work in an arm is dropped when another arm is first.
//! - A task that can be created again from its inputs is `spawn`ed. One that owns something that exists once, such as the state of the
//!   planner, is `spawn_once`d: its panic ends the controller, and a new process reads everything again.
//! - A writer takes no stop token. It ends with its channel, see [`Supervisor::run`].

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
use crate::specs::{self, PersistedSpecs, SpecLoaderSettings, SpecOutputs};
use crate::state_dir::StateDir;
use crate::supervise::{Importance, Supervisor};

/// Inputs of the prober.
pub(super) type Watches = (watch::Receiver<Arc<DesiredState>>, watch::Receiver<Arc<Store>>);

/// Start of the tasks, with what most of them need.
pub(super) struct Starter<'a, B> {
    pub(super) supervisor: &'a Supervisor,
    pub(super) backend: &'a Arc<B>,
    pub(super) clock: Clock,
    pub(super) stop: &'a CancellationToken,
}

impl<B: Backend> Starter<'_, B> {
    pub(super) fn start_specs(
        &self,
        (options, identity): (&Options, &ControllerIdentity),
        (outputs, responder): (SpecOutputs, SyncResponder),
    ) {
        let (rules, scan_interval) = (rules(options, identity), options.delays.scan_interval);
        let (clock, stop) = (self.clock, self.stop.clone());
        self.supervisor.spawn("specs", Importance::Critical, move || {
            specs::run(
                rules.clone(),
                outputs.clone(),
                responder.clone(),
                scan_interval,
                clock,
                stop.clone(),
            )
        });
    }

    pub(super) fn start_prober(&self, watches: Watches, io: ProberIo, addresses: Addresses) {
        let (backend, clock, stop) = (self.backend.clone(), self.clock, self.stop.clone());
        self.supervisor.spawn("prober", Importance::Critical, move || {
            let (desired, stores) = watches.clone();
            let (backend, io) = (backend.clone(), io.clone());
            prober::run(backend, desired, stores, io, addresses, clock, stop.clone())
        });
    }

    pub(super) fn start_lease(
        &self,
        own_lease: lease::OwnLease,
        inputs: lease::LeaseInputs,
        leases: watch::Sender<ControllerLeases>,
    ) {
        let (backend, clock, stop) = (self.backend.clone(), self.clock, self.stop.clone());
        self.supervisor.spawn("lease", Importance::Critical, move || {
            let (own_lease, inputs, leases) = (own_lease.clone(), inputs.clone(), leases.clone());
            lease::run(backend.clone(), own_lease, inputs, leases, clock, stop.clone())
        });
    }

    pub(super) fn start_preflight(
        &self,
        state: &StateDir,
        (stores, noticed): (watch::Receiver<Arc<Store>>, Arc<Notify>),
    ) -> (Arc<Notify>, watch::Receiver<Arc<PreflightSnapshot>>) {
        let (preflights, seen) = watch::channel(Arc::default());
        let needs_preflight = Arc::new(Notify::new());
        let channels = PreflightIo {
            wanted: needs_preflight.clone(),
            noticed,
            stores,
            preflights,
        };
        let (backend, clock, stop) = (self.backend.clone(), self.clock, self.stop.clone());
        let state = state.clone();
        // Critical, because new environments wait for a preflight check.
        self.supervisor.spawn("preflight", Importance::Critical, move || {
            let (state, channels) = (state.clone(), channels.clone());
            preflight::run(backend.clone(), state, channels, clock, stop.clone())
        });
        (needs_preflight, seen)
    }

    pub(super) fn start_connectivity(
        &self,
        helpers: bool,
        snapshots: watch::Receiver<Arc<Snapshot>>,
    ) -> watch::Receiver<Arc<CheckResults>> {
        let results = CheckResults {
            helpers_allowed: helpers,
            ..CheckResults::default()
        };
        let (sender, seen) = watch::channel(Arc::new(results));
        let (backend, clock, stop) = (self.backend.clone(), self.clock, self.stop.clone());
        // Only useful: the controller works without connectivity checks.
        self.supervisor
            .spawn("connectivity", Importance::Useful, move || {
                let (snapshots, sender) = (snapshots.clone(), sender.clone());
                connectivity::run(backend.clone(), snapshots, sender, clock, stop.clone())
            });
        seen
    }
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
                allow_external: options.allow_external.clone(),
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
