//! What a state directory tells at start, whatever became of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use argus_core::ident::ContainerId;
use argus_core::journal::Event;
use argus_core::time::Timestamp;

use super::handle::{self, Journal, WriterTask};
use super::quarantine::{self, Quarantined};
use super::recorder::EventRecorder;
use super::recovery::Recovery;
use crate::clock::Clock;
use crate::reconciler::PersistedState;
use crate::specs::StartingPoint;
use crate::state_dir::StateDir;
use crate::supervise::{Importance, Supervisor};
use crate::{identity, persisted};

/// All that was found.
#[derive(Debug)]
pub(crate) struct Startup {
    pub(crate) controller: String,
    pub(crate) persisted: PersistedState,
    pub(crate) starting_point: StartingPoint,
    pub(crate) journal: Journal,
    pub(crate) writer: WriterTask,
    pub(crate) recovery: Recovery,
}

impl Startup {
    /// Reads everything of a directory whose lock is held. What cannot be used is put aside, and never an error.
    pub(crate) fn read(
        state: &StateDir,
        specs: &Path,
        run: &str,
        clock: Clock,
        limit: u64,
        mut asides: Vec<Quarantined>,
    ) -> Self {
        let now = clock.now();
        let (journal, mut writer, past, journals) = handle::open(&state.journal(), run, clock, limit);
        asides.extend(journals);
        let (controller, spoilt) =
            identity::read_or_make(&state.identity(), specs, past.controller.as_deref(), now);
        asides.extend(spoilt);
        let marked = marker(state, now, &mut asides);
        let persisted = persisted::read(&state.state_json(), now);
        asides.extend(persisted.quarantined);
        let kept = persisted::read(&state.specs_json(), now);
        asides.extend(kept.quarantined);
        let ran = !past.is_fresh() || state.controller_json().exists();
        let stuck: Vec<(PathBuf, String)> = asides
            .iter()
            .filter(|aside| aside.to.is_none())
            .map(|aside| (aside.path.clone(), aside.why.clone()))
            .collect();
        writer.blocked_by(stuck);
        Self {
            controller,
            persisted: persisted.value.unwrap_or_default(),
            // What was lost may have held something that its file does not say any more.
            starting_point: kept.value.unwrap_or(StartingPoint {
                incomplete: true,
                ..StartingPoint::default()
            }),
            journal,
            writer,
            recovery: Recovery {
                clean: marked || !ran,
                past,
                asides,
            },
        }
    }
}

/// What the tasks begin with.
pub(crate) struct Started {
    pub(crate) persisted: PersistedState,
    /// Containers that the runs before stopped themselves.
    pub(crate) stopped: BTreeSet<ContainerId>,
    pub(crate) starting_point: StartingPoint,
    pub(crate) journal: Journal,
    pub(crate) recorder: EventRecorder,
}

impl Startup {
    /// Starts the one who writes the journal, with the note that the controller starts.
    pub(crate) fn begin(self, supervisor: &Supervisor, run: &str, incidents: PathBuf) -> Started {
        let clean = self.recovery.clean;
        tracing::info!(controller = self.controller, run, clean, "controller starts");
        self.journal.record_event(Event::Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            controller: self.controller,
            clean,
        });
        let closer = self.writer.closer();
        supervisor.spawn_once("journal", Importance::Critical, self.writer.run());
        Started {
            persisted: self.persisted,
            stopped: self.recovery.past.stopped.clone(),
            starting_point: self.starting_point,
            recorder: EventRecorder::new(self.journal.clone(), closer, self.recovery, incidents),
            journal: self.journal,
        }
    }
}

/// Takes the marker of a clean stop; whether it was there.
fn marker(state: &StateDir, now: Timestamp, asides: &mut Vec<Quarantined>) -> bool {
    state.take_clean_shutdown().unwrap_or_else(|error| {
        asides.push(quarantine::set(&state.clean_shutdown(), &error.to_string(), now));
        false
    })
}
