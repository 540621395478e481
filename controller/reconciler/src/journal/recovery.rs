//! What a run that did not end well left: looked through once, told in an incident, and gone on from.

use argus_core::journal::{Event, IntentResolution, resolve_intent};
use argus_core::observed::Store;
use argus_core::reconcile::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_crds::incident::{Adopted, INCIDENT_VERSION, Incident, JournalSummary, OpenIntent, SetAside};

use super::log_file::JournalContents;
use super::quarantine::Quarantined;
use crate::identity;
use crate::overrides::DesiredState;

/// More of a kind help nobody.
const MOST: usize = 1_000;

/// What is to be looked through before the controller goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The run before ended with a clean stop; only files were damaged.
    pub clean: bool,
    /// What the journal tells.
    pub past: JournalContents,
    /// What could not be used.
    pub asides: Vec<Quarantined>,
}

impl Recovery {
    /// Why there is something to look through, for people; `None`: there is not.
    pub fn reason(&self) -> Option<String> {
        if !self.clean {
            let since = self.past.last.as_ref();
            let since = since.map_or_else(String::new, |(_, at)| format!(", last heard of at {at}"));
            Some(format!("the last run did not end with a clean stop{since}"))
        } else if !self.asides.is_empty() || self.past.damaged > 0 || self.past.torn > 0 {
            Some("parts of the state directory were damaged".to_owned())
        } else {
            None
        }
    }

    /// Settles every open intent by a world that is listed completely: the incident, and notes for the journal.
    pub(crate) fn conclude(
        &self,
        store: &Store,
        desires: &DesiredState,
        memory: &PlannerState,
        identity: &ControllerIdentity,
        now: Timestamp,
    ) -> (Incident, Vec<Event>) {
        let mut notes = Vec::new();
        let mut open_intents = Vec::new();
        for (seq, open) in &self.past.open {
            let (settled, how) = resolve_intent(&open.intent, open.time(), store);
            notes.push(Event::IntentResolved {
                of: *seq,
                resolution: settled,
                how: how.clone(),
            });
            if open_intents.len() < MOST {
                open_intents.push(OpenIntent {
                    seq: *seq,
                    at: open.at.clone(),
                    environment: open.intent.environment.as_ref().map(ToString::to_string),
                    subject: open.intent.subject.to_string(),
                    verb: open.intent.action.verb.clone(),
                    resolution: word(settled).to_owned(),
                    how,
                });
            }
        }
        let (died, last_heard) = self.past.last.clone().unzip();
        let incident = Incident {
            schema_version: INCIDENT_VERSION,
            id: identity::fresh(now),
            at: now.to_string(),
            controller: identity.controller.clone(),
            run: identity.run.clone(),
            clean: self.clean,
            died,
            last_seen: last_heard,
            open_intents,
            adopted: adopted(store, desires, identity),
            restarts: restarts(memory),
            set_aside: self.asides.iter().map(set_aside).collect(),
            journal: JournalSummary {
                records: self.past.records,
                damaged: self.past.damaged,
                newer: self.past.newer,
                torn: self.past.torn,
            },
        };
        (incident, notes)
    }
}

fn word(settled: IntentResolution) -> &'static str {
    match settled {
        IntentResolution::Done => "done",
        IntentResolution::NotApplied => "notApplied",
        IntentResolution::Repeat => "repeat",
    }
}

fn adopted(store: &Store, desires: &DesiredState, identity: &ControllerIdentity) -> Vec<Adopted> {
    let containers = store
        .containers()
        .filter(|it| it.is_made_by(&identity.controller))
        .filter_map(|it| {
            let owner = it.owner()?;
            let service = owner.service?;
            let accepted = desires.get(&owner.environment)?;
            accepted.desired.services.contains_key(&service).then(|| Adopted {
                environment: owner.environment.to_string(),
                service: service.to_string(),
                container: it.name.clone(),
                id: it.id.to_string(),
                state: format!("{:?}", it.state).to_lowercase(),
            })
        });
    containers.take(MOST).collect()
}

fn restarts(memory: &PlannerState) -> std::collections::BTreeMap<String, u32> {
    let services = memory.environments.iter().flat_map(|(env, kept)| {
        let of = move |name: &argus_core::ident::ServiceName| format!("{env}/{name}");
        kept.services
            .iter()
            .map(move |(name, service)| (of(name), service.restarts))
    });
    services
        .filter(|(_, restarts)| *restarts > 0)
        .take(MOST)
        .collect()
}

fn set_aside(aside: &Quarantined) -> SetAside {
    SetAside {
        path: aside.path.display().to_string(),
        why: aside.why.clone(),
        to: aside.to.as_ref().map(|to| to.display().to_string()),
    }
}
