//! What the reconciler tells the journal, and what the journal means for the mode.

use std::path::PathBuf;

use argus_core::ident::EnvName;
use argus_core::mode::Mode;
use argus_core::orders::Bans;
use argus_core::record::Note;
use argus_core::time::Timestamp;
use tokio_util::sync::DropGuard;

use super::journal::{Health, Journal};
use super::recovery::Recovery;
use crate::handle::Command;
use crate::outlook::{Outlook, Trouble};

/// Incidents that are kept.
const INCIDENTS: usize = 50;

/// The journal as the reconciler has it.
#[derive(Debug)]
pub(crate) struct Chronicle {
    journal: Journal,
    /// Dropped with the reconciler, which is the last that has something to say.
    _closer: DropGuard,
    recovery: Option<Recovery>,
    incidents: PathBuf,
    mode: Option<Mode>,
}

impl Chronicle {
    /// What is to be recovered from is recovered from with the first complete look.
    pub(crate) fn new(journal: Journal, closer: DropGuard, recovery: Recovery, incidents: PathBuf) -> Self {
        let needed = recovery.reason().is_some();
        Self {
            journal,
            _closer: closer,
            recovery: needed.then_some(recovery),
            incidents,
            mode: None,
        }
    }

    /// A turn was made.
    pub(crate) fn turned(&self, why: &str, seconds: f64) {
        let tally = self.journal.tally();
        tally.turns.with_label_values(&[why]).inc();
        tally.turn_seconds.observe(seconds);
    }

    /// How it stands with the journal and what the last run left.
    pub(crate) fn trouble(&self) -> Trouble {
        let Health {
            unwritable,
            corrupt,
            safe,
        } = self.journal.health().borrow().clone();
        Trouble {
            unwritable,
            corrupt,
            safe,
            recovering: self.recovery.as_ref().and_then(Recovery::reason),
        }
    }

    /// What must not be done as things stand.
    pub(crate) fn bans(&self, outlook: &Looked<'_>) -> Bans {
        let safe = self.journal.health().borrow().safe.clone();
        let doubted = if outlook.specs.is_in_doubt() {
            let known = |env: &&EnvName| !outlook.specs.environments.contains_key(*env);
            let seen = outlook.world.environments().keys();
            seen.filter(known).cloned().collect()
        } else {
            std::collections::BTreeSet::new()
        };
        Bans { safe, doubted }
    }

    /// Settles what the last run left, as soon as everything was looked at and the journal takes it.
    pub(crate) fn recover(&mut self, seen: &Looked<'_>) {
        let ready = seen.specs.scanned && seen.world.synced();
        if !ready || self.journal.health().borrow().safe.is_some() {
            return;
        }
        let Some(recovery) = self.recovery.take() else {
            return;
        };
        let (incident, notes) = recovery.conclude(seen.world, seen.desired, seen.memory, seen.site, seen.now);
        for note in notes {
            self.journal.note(note);
        }
        tracing::warn!(
            incident = incident.id,
            open = incident.open_intents.len(),
            adopted = incident.adopted.len(),
            why = recovery.reason(),
            "the last run is settled"
        );
        let path = self.incidents.join(format!("{}.json", incident.id));
        // Our own types have text keys and no foreign serializers: they can always be written.
        let text = serde_json::to_string_pretty(&incident).unwrap_or_default() + "\n";
        self.journal.keep(path, text, INCIDENTS);
    }

    /// A command was taken in, or refused.
    pub(crate) fn commanded(&self, command: &Command, taken: bool) {
        self.journal.note(Note::Command {
            environment: command.environment().cloned(),
            verb: command.verb().to_owned(),
            taken,
        });
    }

    /// Says when the mode changed.
    pub(crate) fn mode(&mut self, outlook: &Outlook) {
        let (now, why) = (outlook.mode, outlook.mode_reason());
        if self.mode == Some(now) {
            return;
        }
        let from = self
            .mode
            .replace(now)
            .map_or_else(String::new, |mode| format!("{mode:?}"));
        let to = format!("{now:?}");
        tracing::info!(from, to, why, "mode");
        self.journal.note(Note::Mode { from, to, why });
    }

    /// The reconciler has ended.
    pub(crate) fn stopped(&self) {
        self.journal.note(Note::Stop);
    }
}

/// What a turn looks at.
pub(crate) struct Looked<'a> {
    pub(crate) specs: &'a crate::specs::SpecBook,
    pub(crate) world: &'a argus_core::observed::World,
    pub(crate) desired: &'a crate::wishes::Desires,
    pub(crate) memory: &'a argus_core::memory::Memory,
    pub(crate) site: &'a argus_core::brain::Site,
    pub(crate) now: Timestamp,
}
