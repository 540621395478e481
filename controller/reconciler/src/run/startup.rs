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

/// Number of runs in a row that a critical task may end before the next run waits for a person.
const MAX_CRASHES: u32 = 3;

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
        let (journal, mut task, contents, corrupt_journals) =
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
        let stuck: Vec<&Quarantined> = quarantined.iter().filter(|file| file.to.is_none()).collect();
        task.writer.enter_safe_mode(&stuck);
        if contents.crashes_in_a_row() >= MAX_CRASHES {
            let why = "a critical task ended each of the last three runs; `argus events --type task_end` lists them";
            task.writer.require_resume(why.to_owned());
        }
        // A short record can fit on a full disk; the first action would then fail after its intent.
        if let Err(error) = preflight::try_to_write(&state.private()) {
            task.writer
                .set_unwritable(format!("`{}`: {error}", state.private().shown()));
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
            writer: task,
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
    use argus_core::journal::{Entry, Event, JOURNAL_VERSION, Record};

    use super::*;
    use crate::journal::checksum::with_checksum;

    #[test]
    fn crashes_and_unwritable_directory_mean_mode_safe() {
        let dir = tempfile::tempdir().unwrap();
        let read = |state: &StateDir| {
            let loaded = LoadedState::read(state, dir.path(), "RUN", Clock::system(), 1_000, Vec::new());
            let health = loaded.journal.health().borrow().clone();
            (health.safe, health.unwritable)
        };
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        assert_eq!(read(&state), (None, None));
        let record = |seq: u64, entry| Record {
            v: JOURNAL_VERSION,
            seq,
            at: Timestamp(1_000).to_string(),
            run: "RUN".to_owned(),
            entry: Entry::Event(entry),
        };
        let crash = |run: u64| {
            let start = Event::Start {
                version: String::new(),
                controller: "ID".to_owned(),
                clean: false,
            };
            let end = Event::TaskEnded {
                task: "reconciler".to_owned(),
                reason: "it panicked".to_owned(),
                restarts: false,
                critical: true,
            };
            let line = |record: &Record| with_checksum(&serde_json::to_string(record).unwrap()) + "\n";
            line(&record(2 * run, start)) + &line(&record(2 * run + 1, end))
        };
        for (runs, is_safe) in [(2, false), (3, true)] {
            let text: String = (0..runs).map(crash).collect();
            std::fs::write(state.journal(), text).unwrap();
            assert_eq!(read(&state).0.is_some(), is_safe, "{runs} runs");
        }
        let (safe, unwritable) = read(&StateDir::at(dir.path().join("gone")));
        assert!(safe.is_some_and(|why| why.starts_with("cannot write the journal")));
        assert!(unwritable.is_some());
    }
}
