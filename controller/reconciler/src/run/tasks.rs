//! The tasks, each started with what it listens to and what it tells.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::brain::Site;
use argus_core::connectivity::Book;
use argus_core::lease::Leases;
use argus_core::observed::World;
use argus_core::preflight::Survey;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Options;
use crate::clock::Clock;
use crate::keeper::{self, Written};
use crate::lease;
use crate::outlook::Outlook;
use crate::prober::{self, Places, Voice};
use crate::reconciler::Remembered;
use crate::specs::admission::Admission;
use crate::specs::caught::Reader;
use crate::specs::{self, Kept, Rules, SpecBook};
use crate::state::StateDir;
use crate::supervise::{Importance, Supervisor};
use crate::surveyor::{self, Lines};
use crate::verifier;
use crate::wishes::Desires;

/// What the prober looks at.
pub(super) type Eyes = (watch::Receiver<Arc<Desires>>, watch::Receiver<Arc<World>>);

pub(super) fn start_specs(
    supervisor: &Supervisor,
    rules: Rules,
    (kept, books, reader): (watch::Sender<Kept>, watch::Sender<Arc<SpecBook>>, Reader),
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
    (remembered, written): (
        watch::Receiver<Remembered>,
        watch::Sender<Option<Written<Remembered>>>,
    ),
    kept: watch::Receiver<Kept>,
) {
    let memory = keeper::run(state.memory_json(), remembered, Some(written));
    supervisor.spawn_once("memory", Importance::Critical, memory);
    let book = keeper::run(state.book_json(), kept, None);
    supervisor.spawn_once("book", Importance::Critical, book);
}

pub(super) fn start_prober<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    eyes: Eyes,
    voice: Voice,
    places: Places,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("prober", Importance::Critical, move || {
        let (desires, worlds) = eyes.clone();
        prober::run(
            backend.clone(),
            desires,
            worlds,
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
    holder: lease::Holder,
    about: lease::Facts,
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

pub(super) fn start_surveyor<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    state: &StateDir,
    worlds: watch::Receiver<Arc<World>>,
    clock: Clock,
    stop: &CancellationToken,
) -> (Arc<Notify>, watch::Receiver<Arc<Survey>>) {
    let (surveys, seen) = watch::channel(Arc::default());
    let wanted = Arc::new(Notify::new());
    let lines = Lines {
        wanted: wanted.clone(),
        worlds,
        surveys,
    };
    let (backend, state, stop) = (backend.clone(), state.clone(), stop.clone());
    // New environments wait for it.
    supervisor.spawn("surveyor", Importance::Critical, move || {
        surveyor::run(backend.clone(), state.clone(), lines.clone(), clock, stop.clone())
    });
    (wanted, seen)
}

pub(super) fn start_verifier<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    helpers: bool,
    outlooks: watch::Receiver<Arc<Outlook>>,
    clock: Clock,
    stop: &CancellationToken,
) -> watch::Receiver<Arc<Book>> {
    let book = Book {
        helpers,
        ..Book::default()
    };
    let (books, seen) = watch::channel(Arc::new(book));
    let (backend, stop) = (backend.clone(), stop.clone());
    // Without it everything goes on; it only tells.
    supervisor.spawn("verifier", Importance::Useful, move || {
        verifier::run(
            backend.clone(),
            outlooks.clone(),
            books.clone(),
            clock,
            stop.clone(),
        )
    });
    seen
}

pub(super) fn rules(options: &Options, site: &Site) -> Rules {
    Rules {
        folder: std::path::absolute(&options.specs).unwrap_or_else(|_| options.specs.clone()),
        strict: options.strict,
        env_allow: options.env_allow.clone(),
        process_env: options.process_env.clone(),
        controller: site.controller.clone(),
        own_image: options.own_image.clone(),
        judge: Arc::new(Admission {
            allow_mounts: options.allow_mounts.clone(),
            own_image: options.own_image.folder.clone(),
        }),
    }
}
