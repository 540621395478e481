//! Recovery after a run without a clean stop: it resolves the open intents once, and reports them in an incident.
//! Invariant 13: a kill between any two calls changes no end state and restarts no healthy container.

use argus_core::journal::{Event, IntentResolution, resolve_intent};
use argus_core::observed::Store;
use argus_core::plan::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_crds::incident::{
    Adopted, INCIDENT_VERSION, Incident, JournalSummary, OpenIntent, QuarantinedFile,
};

use crate::identity;
use crate::journal::log_file::JournalContents;
use crate::overrides::DesiredState;
use crate::quarantine::Quarantined;
use crate::specs::SpecRegistry;

/// Maximum number of entries per list of an incident.
const MAX_ENTRIES: usize = 1_000;

/// Input of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// True if the previous run stopped cleanly, and only files were damaged.
    pub(crate) ended_cleanly: bool,
    /// Content of the journal.
    pub(crate) contents: JournalContents,
    /// Quarantined files.
    pub(crate) quarantined: Vec<Quarantined>,
}

/// Inputs of a reconcile pass for the recovery.
pub(crate) struct RecoveryInputs<'a> {
    pub(crate) specs: &'a SpecRegistry,
    pub(crate) store: &'a Store,
    pub(crate) desired: &'a DesiredState,
    pub(crate) state: &'a PlannerState,
    pub(crate) identity: &'a ControllerIdentity,
    pub(crate) now: Timestamp,
}

impl Recovery {
    /// Reason for the recovery, for people; `None` if none is needed.
    pub(crate) fn reason(&self) -> Option<String> {
        if !self.ended_cleanly {
            let since = self.contents.last.as_ref();
            let since = since.map_or_else(String::new, |(_, at)| format!(", last record at {at}"));
            Some(format!("the last run did not end with a clean stop{since}"))
        } else if !self.quarantined.is_empty() || self.contents.damaged > 0 || self.contents.torn > 0 {
            Some("parts of the state directory were damaged".to_owned())
        } else {
            None
        }
    }

    /// Resolves every open intent against a completely listed store. Returns the incident and the events for the
    /// journal.
    pub(crate) fn resolve_intents(&self, inputs: &RecoveryInputs<'_>) -> (Incident, Vec<Event>) {
        let mut events = Vec::new();
        let mut open_intents = Vec::new();
        for (seq, open) in &self.contents.open {
            let (resolution, how) = resolve_intent(&open.intent, open.time(), inputs.store);
            events.push(Event::IntentResolved {
                of: *seq,
                resolution,
                how: how.clone(),
            });
            if open_intents.len() < MAX_ENTRIES {
                open_intents.push(OpenIntent {
                    seq: *seq,
                    at: open.at.clone(),
                    environment: open.intent.environment.as_ref().map(ToString::to_string),
                    subject: open.intent.subject.to_string(),
                    verb: open.intent.action.verb.to_string(),
                    resolution: label(resolution).to_owned(),
                    how,
                });
            }
        }
        let (previous_run, last_record) = self.contents.last.clone().unzip();
        let incident = Incident {
            schema_version: INCIDENT_VERSION,
            id: identity::new_ulid(inputs.now),
            at: inputs.now.to_string(),
            controller: inputs.identity.controller.clone(),
            run: inputs.identity.run.clone(),
            clean: self.ended_cleanly,
            died: previous_run,
            last_seen: last_record,
            open_intents,
            adopted: adopted(inputs),
            restarts: restarts(inputs.state),
            quarantined: self.quarantined.iter().map(incident_entry).collect(),
            journal: JournalSummary {
                records: self.contents.records,
                damaged: self.contents.damaged,
                newer: self.contents.newer,
                torn: self.contents.torn,
            },
        };
        (incident, events)
    }
}

fn label(resolution: IntentResolution) -> &'static str {
    match resolution {
        IntentResolution::Done => "done",
        IntentResolution::NotApplied => "notApplied",
        IntentResolution::Repeat => "repeat",
    }
}

fn adopted(inputs: &RecoveryInputs<'_>) -> Vec<Adopted> {
    let containers = inputs
        .store
        .containers()
        .filter(|it| it.is_made_by(&inputs.identity.controller))
        .filter_map(|it| {
            let owner = it.owner()?;
            let service = owner.service?;
            let accepted = inputs.desired.get(&owner.environment)?;
            accepted.desired.services.contains_key(&service).then(|| Adopted {
                environment: owner.environment.to_string(),
                service: service.to_string(),
                container: it.name.clone(),
                id: it.id.to_string(),
                state: format!("{:?}", it.state).to_lowercase(),
            })
        });
    containers.take(MAX_ENTRIES).collect()
}

fn restarts(state: &PlannerState) -> std::collections::BTreeMap<String, u32> {
    let services = state.environments.iter().flat_map(|(env, history)| {
        let of = move |name: &argus_core::ident::ServiceName| format!("{env}/{name}");
        history
            .services
            .iter()
            .map(move |(name, service)| (of(name), service.restarts))
    });
    services
        .filter(|(_, restarts)| *restarts > 0)
        .take(MAX_ENTRIES)
        .collect()
}

fn incident_entry(file: &Quarantined) -> QuarantinedFile {
    QuarantinedFile {
        path: file.path.display().to_string(),
        why: file.why.clone(),
        to: file.to.as_ref().map(|to| to.display().to_string()),
    }
}
