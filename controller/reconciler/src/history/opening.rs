//! What a state directory tells at start, whatever became of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use argus_core::ident::ContainerId;
use argus_core::record::Note;
use argus_core::time::Timestamp;

use super::aside::{self, Aside};
use super::chronicle::Chronicle;
use super::journal::{self, Journal, Writer};
use super::recovery::Recovery;
use crate::clock::Clock;
use crate::reconciler::Remembered;
use crate::specs::Kept;
use crate::state::StateDir;
use crate::supervise::{Importance, Supervisor};
use crate::{identity, keeper};

/// All that was found.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) controller: String,
    pub(crate) remembered: Remembered,
    pub(crate) kept: Kept,
    pub(crate) journal: Journal,
    pub(crate) writer: Writer,
    pub(crate) recovery: Recovery,
}

impl Opening {
    /// Reads everything of a directory whose lock is held. What cannot be used is put aside, and never an error.
    pub(crate) fn read(
        state: &StateDir,
        specs: &Path,
        run: &str,
        clock: Clock,
        limit: u64,
        mut asides: Vec<Aside>,
    ) -> Self {
        let now = clock.now();
        let (journal, mut writer, past, journals) = journal::open(&state.journal(), run, clock, limit);
        asides.extend(journals);
        let (controller, spoilt) =
            identity::read_or_make(&state.identity(), specs, past.controller.as_deref(), now);
        asides.extend(spoilt);
        let marked = marker(state, now, &mut asides);
        let remembered = keeper::read(&state.memory_json(), now);
        asides.extend(remembered.aside);
        let kept = keeper::read(&state.book_json(), now);
        asides.extend(kept.aside);
        let ran = !past.is_fresh() || state.controller_json().exists();
        let stuck: Vec<(PathBuf, String)> = asides
            .iter()
            .filter(|aside| aside.to.is_none())
            .map(|aside| (aside.path.clone(), aside.why.clone()))
            .collect();
        writer.blocked_by(stuck);
        Self {
            controller,
            remembered: remembered.kept.unwrap_or_default(),
            // What was lost may have held something that its file does not say any more.
            kept: kept.kept.unwrap_or(Kept {
                incomplete: true,
                ..Kept::default()
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
pub(crate) struct Beginning {
    pub(crate) remembered: Remembered,
    /// Containers that the runs before stopped themselves.
    pub(crate) stopped: BTreeSet<ContainerId>,
    pub(crate) kept: Kept,
    pub(crate) journal: Journal,
    pub(crate) chronicle: Chronicle,
}

impl Opening {
    /// Starts the one who writes the journal, with the note that the controller starts.
    pub(crate) fn begin(self, supervisor: &Supervisor, run: &str, incidents: PathBuf) -> Beginning {
        let clean = self.recovery.clean;
        tracing::info!(controller = self.controller, run, clean, "controller starts");
        self.journal.note(Note::Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            controller: self.controller,
            clean,
        });
        let closer = self.writer.closer();
        supervisor.spawn_once("journal", Importance::Critical, self.writer.run());
        Beginning {
            remembered: self.remembered,
            stopped: self.recovery.past.stopped.clone(),
            kept: self.kept,
            chronicle: Chronicle::new(self.journal.clone(), closer, self.recovery, incidents),
            journal: self.journal,
        }
    }
}

/// Takes the marker of a clean stop; whether it was there.
fn marker(state: &StateDir, now: Timestamp, asides: &mut Vec<Aside>) -> bool {
    state.take_clean_shutdown().unwrap_or_else(|error| {
        asides.push(aside::set(&state.clean_shutdown(), &error.to_string(), now));
        false
    })
}
