//! Start of the controller: reads the state directory, whatever its condition.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use argus_core::ident::ContainerId;
use argus_core::journal::Event;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;

use crate::clock::Clock;
use crate::journal::handle::{self, Journal, WriterTask};
use crate::quarantine::{self, Quarantined};
use crate::reconciler::PersistedState;
use crate::reconciler::recorder::ReconcilerJournal;
use crate::reconciler::recovery::Recovery;
use crate::specs::PersistedSpecs;
use crate::state_dir::StateDir;
use crate::supervise::{Importance, Supervisor};
use crate::{identity, persisted, preflight};

/// Content of the state directory.
#[derive(Debug)]
pub(crate) struct LoadedState {
    pub(crate) controller: String,
    pub(crate) persisted: PersistedState,
    pub(crate) persisted_specs: PersistedSpecs,
    pub(crate) journal: Journal,
    pub(crate) writer: WriterTask,
    pub(crate) recovery: Recovery,
}

impl LoadedState {
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
            identity::read_or_create(&state.identity(), specs, contents.controller.as_deref(), now);
        quarantined.extend(corrupt);
        let had_marker = remove_marker(state, now, &mut quarantined);
        let (persisted, damaged) = PersistedState::read(state, now);
        quarantined.extend(damaged);
        let specs = persisted::read(&state.specs_json(), now);
        quarantined.extend(specs.quarantined);
        let ran = !contents.is_fresh() || state.controller_json().exists();
        let unquarantined: Vec<(PathBuf, String)> = quarantined
            .iter()
            .filter(|file| file.to.is_none())
            .map(|file| (file.path.clone(), file.why.clone()))
            .collect();
        writer.enter_safe_mode(unquarantined);
        // A short record can fit on a full disk; the first action would then fail after its intent.
        if let Err(error) = preflight::try_to_write(&state.private()) {
            writer.start_unwritable(format!("`{}`: {error}", state.private().shown()));
        }
        Self {
            controller,
            persisted,
            // A lost file may have contained environments that their spec files no longer define.
            persisted_specs: specs.value.unwrap_or(PersistedSpecs {
                incomplete: true,
                ..PersistedSpecs::default()
            }),
            journal,
            writer,
            recovery: Recovery {
                ended_cleanly: had_marker || !ran,
                contents,
                quarantined,
            },
        }
    }
}

/// Inputs of the tasks.
pub(crate) struct LoadedInputs {
    pub(crate) persisted: PersistedState,
    /// Containers that Argus stopped in an earlier run.
    pub(crate) stopped_by_us: BTreeSet<ContainerId>,
    pub(crate) persisted_specs: PersistedSpecs,
    pub(crate) journal: Journal,
    pub(crate) recorder: ReconcilerJournal,
}

impl LoadedState {
    /// Starts the journal writer, and records the start of the controller.
    pub(crate) fn start_journal(
        self,
        supervisor: &Supervisor,
        run: &str,
        incidents: PathBuf,
    ) -> LoadedInputs {
        let clean = self.recovery.ended_cleanly;
        tracing::info!(controller = self.controller, run, clean, "controller starts");
        self.journal.record_event(Event::Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            controller: self.controller,
            clean,
        });
        supervisor.record_in(self.journal.clone());
        let closer = self.writer.closer();
        supervisor.spawn_once("journal", Importance::Critical, self.writer.run());
        LoadedInputs {
            persisted: self.persisted,
            stopped_by_us: self.recovery.contents.stopped.clone(),
            persisted_specs: self.persisted_specs,
            recorder: ReconcilerJournal::new(self.journal.clone(), closer, self.recovery, incidents),
            journal: self.journal,
        }
    }
}

/// Removes the marker of a clean stop. Returns whether it existed.
fn remove_marker(state: &StateDir, now: Timestamp, quarantined: &mut Vec<Quarantined>) -> bool {
    state.remove_clean_shutdown().unwrap_or_else(|error| {
        quarantined.push(quarantine::move_file(
            &state.clean_shutdown(),
            &error.to_string(),
            now,
        ));
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_directory_means_mode_safe_before_the_first_action() {
        let dir = tempfile::tempdir().unwrap();
        let read = |state: &StateDir| {
            let loaded = LoadedState::read(state, dir.path(), "RUN", Clock::system(), 1_000, Vec::new());
            let health = loaded.journal.health().borrow().clone();
            (health.safe, health.unwritable)
        };
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        assert_eq!(read(&state), (None, None));
        let (safe, unwritable) = read(&StateDir::at(dir.path().join("gone")));
        assert!(safe.is_some_and(|why| why.starts_with("cannot write the journal")));
        assert!(unwritable.is_some());
    }
}
