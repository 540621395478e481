//! What the reconciler tells the journal, and what the journal means for the mode.

use std::path::PathBuf;

use argus_core::ident::EnvName;
use argus_core::journal::Event;
use argus_core::mode::Mode;
use argus_core::time::Timestamp;
use argus_core::user_requests::Restrictions;
use tokio_util::sync::DropGuard;

use super::handle::{Journal, JournalHealth};
use super::recovery::Recovery;
use crate::handle::Command;
use crate::snapshot::{ControllerProblems, Snapshot};

/// Incidents that are kept.
const INCIDENTS: usize = 50;

/// The journal as the reconciler has it.
#[derive(Debug)]
pub(crate) struct EventRecorder {
    journal: Journal,
    /// Dropped with the reconciler, which is the last that has something to say.
    _closer: DropGuard,
    recovery: Option<Recovery>,
    incidents: PathBuf,
    mode: Option<Mode>,
}

impl EventRecorder {
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
    pub(crate) fn record_pass(&self, why: &str, seconds: f64) {
        let tally = self.journal.tally();
        tally.turns.with_label_values(&[why]).inc();
        tally.turn_seconds.observe(seconds);
    }

    /// How it stands with the journal and what the last run left.
    pub(crate) fn problems(&self) -> ControllerProblems {
        let JournalHealth {
            unwritable,
            corrupt,
            safe,
        } = self.journal.health().borrow().clone();
        ControllerProblems {
            unwritable,
            corrupt,
            safe,
            recovering: self.recovery.as_ref().and_then(Recovery::reason),
        }
    }

    /// What must not be done as things stand.
    pub(crate) fn restrictions(&self, snapshot: &RecoveryInputs<'_>) -> Restrictions {
        let safe = self.journal.health().borrow().safe.clone();
        let doubted = if snapshot.specs.is_incomplete() {
            let known = |env: &&EnvName| !snapshot.specs.environments.contains_key(*env);
            let seen = snapshot.store.environments().keys();
            seen.filter(known).cloned().collect()
        } else {
            std::collections::BTreeSet::new()
        };
        Restrictions {
            safe,
            incomplete: doubted,
        }
    }

    /// Settles what the last run left, as soon as everything was looked at and the journal takes it.
    pub(crate) fn recover(&mut self, seen: &RecoveryInputs<'_>) {
        let ready = seen.specs.scanned && seen.store.synced();
        if !ready || self.journal.health().borrow().safe.is_some() {
            return;
        }
        let Some(recovery) = self.recovery.take() else {
            return;
        };
        let (incident, notes) =
            recovery.conclude(seen.store, seen.desired, seen.memory, seen.identity, seen.now);
        for note in notes {
            self.journal.record_event(note);
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
    pub(crate) fn record_command(&self, command: &Command, taken: bool) {
        self.journal.record_event(Event::Command {
            environment: command.environment().cloned(),
            verb: command.verb().to_owned(),
            accepted: taken,
        });
    }

    /// Says when the mode changed.
    pub(crate) fn mode(&mut self, snapshot: &Snapshot) {
        let (now, why) = (snapshot.mode, snapshot.mode_reason());
        if self.mode == Some(now) {
            return;
        }
        let from = self
            .mode
            .replace(now)
            .map_or_else(String::new, |mode| format!("{mode:?}"));
        let to = format!("{now:?}");
        tracing::info!(from, to, why, "mode");
        self.journal.record_event(Event::Mode { from, to, why });
    }

    /// The reconciler has ended.
    pub(crate) fn stopped(&self) {
        self.journal.record_event(Event::Stop);
    }
}

/// What a turn looks at.
pub(crate) struct RecoveryInputs<'a> {
    pub(crate) specs: &'a crate::specs::SpecRegistry,
    pub(crate) store: &'a argus_core::observed::Store,
    pub(crate) desired: &'a crate::overrides::DesiredState,
    pub(crate) memory: &'a argus_core::state::PlannerState,
    pub(crate) identity: &'a argus_core::reconcile::ControllerIdentity,
    pub(crate) now: Timestamp,
}
