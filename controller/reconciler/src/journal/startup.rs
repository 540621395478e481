//! Start of the controller: reads the state directory, whatever its condition.

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

/// Content of the state directory.
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
    /// Reads the state of a directory whose lock is held. Unusable files are quarantined and never an error.
    pub(crate) fn read(
        state: &StateDir,
        specs: &Path,
        run: &str,
        clock: Clock,
        limit: u64,
        mut quarantined: Vec<Quarantined>,
    ) -> Self {
        let now = clock.now();
        let (journal, mut writer, contents, corrupt_journals) =
            handle::open(&state.journal(), run, clock, limit);
        quarantined.extend(corrupt_journals);
        let (controller, corrupt) =
            identity::read_or_make(&state.identity(), specs, contents.controller.as_deref(), now);
        quarantined.extend(corrupt);
        let had_marker = take_marker(state, now, &mut quarantined);
        let persisted = persisted::read(&state.state_json(), now);
        quarantined.extend(persisted.quarantined);
        let specs = persisted::read(&state.specs_json(), now);
        quarantined.extend(specs.quarantined);
        let ran = !contents.is_fresh() || state.controller_json().exists();
        let immovable: Vec<(PathBuf, String)> = quarantined
            .iter()
            .filter(|aside| aside.to.is_none())
            .map(|aside| (aside.path.clone(), aside.why.clone()))
            .collect();
        writer.blocked_by(immovable);
        Self {
            controller,
            persisted: persisted.value.unwrap_or_default(),
            // A lost file may have contained environments that their spec files no longer define.
            starting_point: specs.value.unwrap_or(StartingPoint {
                incomplete: true,
                ..StartingPoint::default()
            }),
            journal,
            writer,
            recovery: Recovery {
                clean: had_marker || !ran,
                contents,
                quarantined,
            },
        }
    }
}

/// Inputs of the tasks.
pub(crate) struct Started {
    pub(crate) persisted: PersistedState,
    /// Containers that earlier runs stopped themselves.
    pub(crate) stopped: BTreeSet<ContainerId>,
    pub(crate) starting_point: StartingPoint,
    pub(crate) journal: Journal,
    pub(crate) recorder: EventRecorder,
}

impl Startup {
    /// Starts the journal writer, and records the start of the controller.
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
            stopped: self.recovery.contents.stopped.clone(),
            starting_point: self.starting_point,
            recorder: EventRecorder::new(self.journal.clone(), closer, self.recovery, incidents),
            journal: self.journal,
        }
    }
}

/// Removes the marker of a clean stop. Returns whether it existed.
fn take_marker(state: &StateDir, now: Timestamp, quarantined: &mut Vec<Quarantined>) -> bool {
    state.take_clean_shutdown().unwrap_or_else(|error| {
        quarantined.push(quarantine::set(&state.clean_shutdown(), &error.to_string(), now));
        false
    })
}
