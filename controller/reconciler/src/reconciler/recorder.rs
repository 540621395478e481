//! Event recorder of the reconciler: it writes events to the journal, and derives problems and restrictions from
//! the journal's state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use argus_core::action::Subject;
use argus_core::ident::EnvName;
use argus_core::journal::{Event, orphan_events, step_event};
use argus_core::mode::Mode;
use argus_core::plan::Plan;
use argus_core::status::orphans;
use argus_core::user_requests::Restrictions;
use argus_crds::status::Orphan;
use tokio_util::sync::DropGuard;

use super::recovery::{Recovery, RecoveryInputs};
use crate::command::Command;
use crate::executor::Finished;
use crate::journal::{Journal, JournalHealth};
use crate::snapshot::{ControllerProblems, Snapshot};

/// Number of incident files that are retained.
const MAX_INCIDENTS: usize = 50;

/// The reconciler's view of the journal.
#[derive(Debug)]
pub(crate) struct ReconcilerJournal {
    journal: Journal,
    /// Closes the journal when the reconciler ends, after its last event.
    _closer: DropGuard,
    recovery: Option<Recovery>,
    incidents: PathBuf,
    mode: Option<Mode>,
    /// Plans of the last recorded orphans.
    plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    orphans: Vec<Orphan>,
}

impl ReconcilerJournal {
    /// Creates a recorder. A needed recovery runs after the first complete list.
    pub(crate) fn new(journal: Journal, closer: DropGuard, recovery: Recovery, incidents: PathBuf) -> Self {
        let needed = recovery.reason().is_some();
        Self {
            journal,
            _closer: closer,
            recovery: needed.then_some(recovery),
            incidents,
            mode: None,
            plans: Arc::default(),
            orphans: Vec::new(),
        }
    }

    /// Counts a reconcile pass in the metrics.
    pub(crate) fn record_pass(&self, why: &str, seconds: f64) {
        let metrics = self.journal.metrics();
        metrics.passes.with_label_values(&[why]).inc();
        metrics.pass_seconds.observe(seconds);
    }

    /// Current problems of the journal and of the recovery.
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

    /// Restrictions in effect: the reason for mode `Safe`, and the environments of unknown origin. The origin of an
    /// observed environment is unknown while an incomplete spec registry does not contain it.
    pub(crate) fn restrictions(&self, inputs: &RecoveryInputs<'_>) -> Restrictions {
        let safe = self.journal.health().borrow().safe.clone();
        let unknown_origin = if inputs.specs.is_incomplete() {
            let is_unknown = |env: &&EnvName| !inputs.specs.environments.contains_key(*env);
            let observed = inputs.store.environments().keys();
            observed.filter(is_unknown).cloned().collect()
        } else {
            std::collections::BTreeSet::new()
        };
        Restrictions {
            safe_mode_reason: safe,
            protected: unknown_origin,
        }
    }

    /// Resolves the open intents of the last run, once the specs are scanned, the store is synced and the journal
    /// is writable.
    pub(crate) fn recover(&mut self, inputs: &RecoveryInputs<'_>) {
        let ready = inputs.specs.scanned && inputs.store.is_synced();
        if !ready || self.journal.health().borrow().safe.is_some() {
            return;
        }
        let Some(recovery) = self.recovery.take() else {
            return;
        };
        let (incident, events) = recovery.resolve_intents(inputs);
        self.record_events(events);
        tracing::warn!(
            incident = incident.id,
            open = incident.open_intents.len(),
            adopted = incident.adopted.len(),
            why = recovery.reason(),
            "recovery of the last run is complete"
        );
        let path = self.incidents.join(format!("{}.json", incident.id));
        // These types have string keys and derived serializers: serialization cannot fail.
        let text = serde_json::to_string_pretty(&incident).unwrap_or_default() + "\n";
        self.journal.write_file(path, text, MAX_INCIDENTS);
    }

    /// Records that a command was accepted or refused.
    pub(crate) fn record_command(&self, command: &Command, id: &str, accepted: bool) {
        self.journal.record_event(Event::Command {
            environment: command.environment().cloned(),
            verb: command.verb().to_owned(),
            accepted,
            correlation_id: Some(id.to_owned()),
        });
    }

    /// Records a change of the mode.
    pub(crate) fn record_mode(&mut self, snapshot: &Snapshot) {
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

    /// Records the orphans that appeared, and the begin and end of their removal. It precedes the results of the removals.
    pub(crate) fn record_orphans(&mut self, snapshot: &Snapshot) {
        let is_same = self.orphans.is_empty() && Arc::ptr_eq(&self.plans, &snapshot.plans);
        // Before the first list, missing orphans are unknown, not gone.
        if is_same || !snapshot.is_complete() {
            return;
        }
        self.plans = snapshot.plans.clone();
        let mut now: Vec<Orphan> = self.plans.values().flat_map(|plan| orphans(plan)).collect();
        // The watch can report the removal before the call returns. The orphan is gone after the result of the call.
        let in_flight = snapshot.state.in_flight.keys().filter_map(Subject::orphan_id);
        let known = in_flight.filter_map(|id| self.orphans.iter().find(|orphan| orphan.id == id));
        let gone = known.filter(|known| now.iter().all(|orphan| orphan.id != known.id));
        let gone: Vec<Orphan> = gone.cloned().collect();
        now.extend(gone);
        let before = std::mem::replace(&mut self.orphans, now);
        self.record_events(orphan_events(&before, &self.orphans));
    }

    /// Records these events.
    pub(crate) fn record_events(&self, events: Vec<Event>) {
        for event in events {
            self.journal.record_event(event);
        }
    }

    /// Records the result of an action that is an event of its own.
    pub(crate) fn record_result(&self, finished: &Finished) {
        let event = step_event(&finished.step, &finished.outcome, &self.orphans);
        self.record_events(event.into_iter().collect());
    }

    /// Records the end of the reconciler.
    pub(crate) fn record_stop(&self) {
        self.journal.record_event(Event::Stop);
    }
}
