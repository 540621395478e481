//! Journal of a command without a controller. It holds the lock of the state directory, so it is the only writer.

use std::path::{Path, PathBuf};

use argus_core::action::Step;
use argus_core::journal::{Entry, Event, Intent, outcome_of};
use argus_core::outcome::{ActionError, Done};
use argus_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

use super::handle::{self, DEFAULT_MAX_SIZE, JournalHealth, result_of};
use super::writer::{JournalWriter, WriteRequest};
use crate::clock::Clock;
use crate::state_dir::{StateDir, write_private};

/// Journal of a command. All methods block on the disk.
#[derive(Debug)]
pub struct CommandJournal {
    writer: JournalWriter,
    health: watch::Receiver<JournalHealth>,
    path: PathBuf,
    clock: Clock,
    /// Marker of a clean stop for the end of the command; `None` after a crash, which the next controller still resolves.
    marker: Option<PathBuf>,
    /// Number of intents without a result.
    open: usize,
}

/// Intent on disk whose action has not completed.
#[derive(Debug, Clone, Copy)]
pub struct StartedStep {
    seq: u64,
    at: Timestamp,
}

impl CommandJournal {
    /// Opens the journal of a locked state directory; `run` identifies the command.
    pub fn open(state: &StateDir, run: &str, clock: Clock) -> Self {
        let (journal, task, contents, _) = handle::open(&state.journal(), run, clock, DEFAULT_MAX_SIZE);
        let never_ran = contents.is_fresh() && !state.controller_json().exists();
        // Without the marker, the next controller resolves the intents of a command that was killed.
        let had_marker = state.remove_clean_shutdown().unwrap_or(false);
        Self {
            marker: (had_marker || never_ran).then(|| state.clean_shutdown()),
            open: 0,
            writer: task.writer,
            health: journal.health(),
            path: state.journal(),
            clock,
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an intent, and returns once it is on disk. `id` identifies the command.
    ///
    /// # Errors
    /// [`ActionError::JournalUnwritable`], and the action must not run.
    pub fn intend(&mut self, step: &Step, id: &str) -> Result<StartedStep, ActionError> {
        let (reply, mut replied) = oneshot::channel();
        let at = self.clock.now();
        let intent = Box::new(Intent::of(step, id));
        self.writer
            .execute(vec![WriteRequest::Intend { at, intent, reply }]);
        let written = replied
            .try_recv()
            .unwrap_or_else(|_| Err("it is closed".to_owned()));
        let seq = written.map_err(ActionError::JournalUnwritable)?;
        self.open += 1;
        Ok(StartedStep { seq, at })
    }

    /// Records the outcome of an action.
    pub fn record_outcome(&mut self, started: StartedStep, step: &Step, outcome: &Result<Done, ActionError>) {
        self.open = self.open.saturating_sub(1);
        let took = self.clock.now().since(started.at);
        self.record(result_of(started.seq, step, outcome_of(outcome), took));
    }

    /// Records an event.
    ///
    /// # Errors
    /// [`ActionError::JournalUnwritable`] if this or an earlier record cannot be written.
    pub fn record_event(&mut self, event: Event) -> Result<(), ActionError> {
        self.record(Entry::Event(event));
        match &self.health.borrow().safe {
            Some(why) => Err(ActionError::JournalUnwritable(why.clone())),
            None => Ok(()),
        }
    }

    fn record(&mut self, entry: Entry) {
        let at = self.clock.now();
        let entry = Box::new(entry);
        self.writer.execute(vec![WriteRequest::Event { at, entry }]);
    }
}

impl Drop for CommandJournal {
    fn drop(&mut self) {
        self.writer.finish();
        if let Some(marker) = self.marker.take().filter(|_| self.open == 0) {
            // Without it, the next controller reads the whole engine before it acts.
            drop(write_private(&marker, b""));
        }
    }
}

#[cfg(test)]
mod tests {
    use argus_core::action::{Action, Cause, Subject};
    use argus_core::ident::ContainerId;
    use argus_core::journal::{ChangedObject, EngineChange, Record};

    use super::*;
    use crate::journal::Tail;

    fn step() -> Step {
        let id = ContainerId::new("c1").unwrap();
        Step {
            subject: Subject::ExtraContainer { id: id.clone() },
            action: Action::RemoveContainer {
                id,
                name: "shop-web".to_owned(),
            },
            cause: Cause::Missing,
        }
    }

    fn state(dir: &tempfile::TempDir) -> StateDir {
        StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap()
    }

    fn records(state: &StateDir) -> Vec<Record> {
        Tail::new(state.journal()).read_new().unwrap()
    }

    #[test]
    fn command_records_its_actions_after_those_of_controllers() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(&dir);
        for run in ["ONE", "TWO"] {
            let mut journal = CommandJournal::open(&state, run, Clock::system());
            let started = journal.intend(&step(), "REQUEST").unwrap();
            journal.record_outcome(started, &step(), &Ok(Done::Applied));
            let change = EngineChange::removed(ChangedObject::Image, "sha256:1");
            journal.record_event(Event::EngineChange(change)).unwrap();
        }
        let found = records(&state);
        let seen: Vec<_> = found
            .iter()
            .map(|it| (it.seq, it.run.as_str(), it.name()))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "ONE", "intent"),
                (2, "ONE", "result"),
                (3, "ONE", "engine_change"),
                (4, "TWO", "intent"),
                (5, "TWO", "result"),
                (6, "TWO", "engine_change"),
            ]
        );
        assert!(matches!(found[4].entry, Entry::Result { of: 4, .. }));
    }

    #[test]
    fn killed_command_is_a_crash_for_the_next_controller() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(&dir);
        let run = |is_killed: bool| {
            let mut journal = CommandJournal::open(&state, "ONE", Clock::system());
            assert!(!state.clean_shutdown().exists(), "it runs");
            let started = journal.intend(&step(), "REQUEST").unwrap();
            if !is_killed {
                journal.record_outcome(started, &step(), &Ok(Done::Applied));
            }
            drop(journal);
            state.clean_shutdown().exists()
        };
        assert!(run(false), "no controller has crashed");
        assert!(run(false));
        assert!(!run(true));
        assert!(!run(false), "the earlier crash is not resolved");
    }

    #[test]
    fn unwritable_journal_refuses_the_action() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(&dir);
        // A folder in the place of the file, also for root; the writer cannot move it away.
        let mut journal = CommandJournal::open(&state, "ONE", Clock::system());
        drop(std::fs::remove_file(state.journal()));
        std::fs::create_dir(state.journal()).unwrap();
        std::fs::write(state.journal().join("x"), "").unwrap();
        let refused = journal.intend(&step(), "REQUEST").unwrap_err();
        assert!(
            matches!(refused, ActionError::JournalUnwritable(_)),
            "{refused:?}"
        );
        let change = Event::EngineChange(EngineChange::removed(ChangedObject::Image, "sha256:1"));
        assert!(journal.record_event(change).is_err());
    }
}
