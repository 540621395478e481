//! What the controller knows as status files, and as what `argus run` shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::journal::{Event, controller_events, events_between};
use argus_core::state::EnvHistory;
use argus_core::status::{EngineView, Rejection, StatusInput, env_file, environment};
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::Code;
use argus_crds::status::{Calls, ControllerStatus, EnvironmentStatus, Phase};
use argus_reconciler::specs::{FileEntry, FileState};
use argus_reconciler::{EnvFiles, Journal, Snapshot, StatusView};
use serde::Serialize;
use tokio::sync::watch;

mod calls;
mod controller;

pub(crate) use controller::About;

/// All that was written last, for those who watch `argus run`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatusDocuments {
    /// By name.
    pub(crate) environments: BTreeMap<String, EnvironmentStatus>,
    /// The calls behind their errors, for those who ask.
    pub(crate) calls: BTreeMap<String, Calls>,
    /// The controller itself.
    pub(crate) controller: ControllerStatus,
}

/// Makes the files.
#[derive(Debug)]
pub(crate) struct View {
    about: About,
    /// Of the round that is being written; a round ends with the controller's file.
    round: Mutex<StatusDocuments>,
    shown: watch::Sender<Arc<StatusDocuments>>,
    journal: Journal,
    /// The revisions that were ready in this run: how long that took is told once.
    ready: Mutex<BTreeSet<(EnvName, String)>>,
}

impl View {
    /// A view that tells `shown` what it wrote, and the journal what changed.
    pub(crate) fn new(about: About, shown: watch::Sender<Arc<StatusDocuments>>, journal: Journal) -> Self {
        Self {
            about,
            journal,
            round: Mutex::default(),
            ready: Mutex::default(),
            shown,
        }
    }

    /// It was not ready with this revision before.
    fn is_first(&self, env: &EnvName, revision: Option<&str>) -> bool {
        let Some(revision) = revision else { return false };
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ready.insert((env.clone(), revision.to_owned()));
        // Of each environment the last one is enough.
        ready.retain(|(other, known)| other != env || known == revision);
        is_first
    }
}

impl StatusView for View {
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        let ours = snapshot.store.containers().filter_map(|container| {
            let owner = container.owner()?;
            (owner.controller == snapshot.identity.controller).then_some(owner.environment)
        });
        let desired = snapshot.specs.environments.keys().cloned();
        let planned = snapshot
            .plans
            .iter()
            .filter(|(_, plan)| !plan.is_settled())
            .map(|(env, _)| env.clone());
        let mut all: BTreeSet<EnvName> = desired.chain(ours).chain(planned).collect();
        all.retain(|env| !is_down_for_good(snapshot, env));
        all.extend(refused(snapshot).filter_map(|(_, entry)| named(entry)));
        all
    }

    fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles {
        // What was said last, whether it could be written or not; else what an earlier run wrote.
        let said = self.shown.borrow().environments.get(env.as_str()).cloned();
        let first = said.is_none();
        let previous = said.or_else(|| previous.and_then(|text| serde_json::from_str(text).ok()));
        let mut status = status(env, snapshot, &self.about, previous.as_ref());
        let before = previous.as_ref().map(|previous| previous.phase);
        if before != Some(status.phase) {
            let accepted = snapshot.desired.get(env);
            let took = |accepted: &Arc<Accepted>| snapshot.as_of.since(accepted.accepted_at).as_millis();
            let ready = status.phase == Phase::Ready && self.is_first(env, status.revision.as_deref());
            self.journal.record_event(Event::Phase {
                environment: env.clone(),
                from: before.map_or_else(String::new, |phase| format!("{phase:?}")),
                to: format!("{:?}", status.phase),
                revision: status.revision.clone(),
                after_ms: accepted
                    .filter(|_| ready)
                    .map(took)
                    .and_then(|ms| u64::try_from(ms).ok()),
            });
        }
        // A breaker does not outlive its controller.
        let before = previous.map(|previous| EnvironmentStatus {
            breaker: previous.breaker.filter(|_| !first),
            ..previous
        });
        let nothing = EnvHistory::default();
        let memory = snapshot.state.environments.get(env).unwrap_or(&nothing);
        for note in events_between(env, before.as_ref(), &status, memory) {
            self.journal.record_event(note);
        }
        let now = status.take_calls();
        if self.about.debug {
            status.put_calls(&now);
        }
        let before = self.shown.borrow().calls.get(env.as_str()).cloned();
        let calls = calls::with_earlier(now, before.as_ref(), status.phase);
        let files = EnvFiles {
            json: json(&status),
            env: env_file(&status.port_mappings),
            debug: (!calls.is_empty()).then(|| json(&calls)),
        };
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        round.environments.insert(env.to_string(), status);
        round.calls.insert(env.to_string(), calls);
        files
    }

    fn controller(&self, snapshot: &Snapshot, previous_text: Option<&str>) -> String {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let StatusDocuments {
            environments, calls, ..
        } = std::mem::take(&mut *round);
        let said = self.shown.borrow().controller.clone();
        let first = said.as_of.is_empty();
        let previous = Some(said).filter(|_| !first);
        let previous: Option<ControllerStatus> =
            previous.or_else(|| previous_text.and_then(|text| serde_json::from_str(text).ok()));
        let controller = controller::status(snapshot, &environments, &self.about, previous.as_ref());
        let before = previous.map(|previous| ControllerStatus {
            breaker: previous.breaker.filter(|_| !first),
            ..previous
        });
        for note in controller_events(before.as_ref(), &controller) {
            self.journal.record_event(note);
        }
        let text = json(&controller);
        self.shown.send_replace(Arc::new(StatusDocuments {
            environments,
            calls,
            controller,
        }));
        text
    }
}

fn status(
    env: &EnvName,
    snapshot: &Snapshot,
    about: &About,
    previous: Option<&EnvironmentStatus>,
) -> EnvironmentStatus {
    let accepted = snapshot.desired.get(env);
    let holder = snapshot.specs.file_of(env);
    let file = holder.or_else(|| refused(snapshot).find(|(_, entry)| named(entry).as_ref() == Some(env)));
    let path = file
        .map(|(path, _)| path.display().to_string())
        .unwrap_or_default();
    let rejected = file.and_then(|(_, entry)| rejection(&path, entry));
    let rivals = rivals(env, snapshot, &path);
    let rivals: Vec<_> = rivals
        .iter()
        .filter_map(|(path, entry)| rejection(path, entry))
        .collect();
    let (nothing, nothing_seen) = (EnvHistory::default(), Arc::default());
    environment(&StatusInput {
        env,
        accepted: accepted.map(AsRef::as_ref),
        rejected: rejected.filter(|_| !snapshot.overrides.down.contains_key(env)),
        rivals: &rivals,
        warnings: file.map_or(&[][..], |(_, entry)| &entry.diagnostics),
        requests: &snapshot.overrides.requests,
        breakers: &snapshot.state.breakers,
        can_roll_back: accepted.is_some_and(|accepted| snapshot.overrides.good_before(accepted).is_some()),
        outages: snapshot.store.outages(),
        specs_gone: snapshot.specs.unavailable.as_deref(),
        engine: engine(snapshot, about),
        observed: snapshot.store.of(env).unwrap_or(&nothing_seen),
        plan: snapshot.plans.get(env).map(AsRef::as_ref),
        health: &snapshot.health,
        state: snapshot.state.environments.get(env).unwrap_or(&nothing),
        refused: &snapshot.state.refused,
        progress: &snapshot.progress,
        preflight: Some(&snapshot.preflight),
        links: &snapshot.links,
        disk_full: snapshot.state.disk_full,
        previous,
        publish_address: snapshot.identity.publish_address,
        mode: snapshot.mode,
        safe: snapshot.problems.safe.as_deref(),
        state_dir: &about.state,
        now: snapshot.as_of,
    })
}

/// The engine as statuses tell it.
fn engine<'a>(snapshot: &'a Snapshot, about: &'a About) -> EngineView<'a> {
    EngineView {
        reachable: snapshot.store.reachable(),
        synced: snapshot.store.synced(),
        reason: snapshot.store.unreachable_reason(),
        endpoint: &about.endpoint,
        since: snapshot.store.lost_at(),
        retry: snapshot.store.retry(),
    }
}

/// Files that claim to be an environment which the file at `holder` describes.
fn rivals<'a>(env: &EnvName, snapshot: &'a Snapshot, holder: &str) -> Vec<(String, &'a FileEntry)> {
    let all = snapshot.specs.files.iter();
    // Few files are at odds with another, and only those are read for their name.
    let at_odds =
        all.filter(|(_, entry)| matches!(entry.state, FileState::Conflict { .. }) && entry.holds.is_none());
    let with_path = at_odds.map(|(path, entry)| (path.display().to_string(), entry));
    with_path
        .filter(|(path, entry)| path != holder && named(entry).as_ref() == Some(env))
        .collect()
}

/// Taken down by a person, and nothing of it is left.
fn is_down_for_good(snapshot: &Snapshot, env: &EnvName) -> bool {
    let settled = snapshot.plans.get(env).is_none_or(|plan| plan.is_settled());
    // Named volumes stay behind unless the file said otherwise.
    let gone = snapshot
        .store
        .of(env)
        .is_none_or(|seen| seen.containers.is_empty() && seen.networks.is_empty());
    snapshot.overrides.down.contains_key(env) && settled && gone
}

/// Files that hold nothing, for what they say was never accepted.
fn refused(snapshot: &Snapshot) -> impl Iterator<Item = (&Path, &FileEntry)> {
    let without = |entry: &FileEntry| match entry.state {
        FileState::Rejected | FileState::Conflict { .. } => entry.holds.is_none(),
        FileState::Unread | FileState::Accepted => false,
    };
    snapshot
        .specs
        .files
        .iter()
        .filter(move |(_, entry)| without(entry))
        .map(|(path, entry)| (path.as_path(), entry))
}

/// The environment that a refused file speaks of, as far as that can be told.
fn named(entry: &FileEntry) -> Option<EnvName> {
    let text = entry.text.as_ref()?;
    let reading = argus_crds::yaml::read("", &text.bytes);
    // Whatever is refused in it, its name may be right.
    let spec = reading.spec.or(reading.rest)?;
    match &spec.isolation.namespace {
        Some(namespace) => EnvName::new(namespace.clone()).ok(),
        None => EnvName::slug(&spec.project.name).ok(),
    }
}

/// How a file is refused; `None` where it is not.
fn rejection<'a>(path: &'a str, entry: &'a FileEntry) -> Option<Rejection<'a>> {
    let code = match entry.state {
        FileState::Rejected => Code::SpecInvalid,
        FileState::Conflict { .. } => Code::SpecConflict,
        FileState::Unread | FileState::Accepted => return None,
    };
    let is_refused = entry.diagnostics.iter().any(Diagnostic::is_error);
    is_refused.then_some(Rejection {
        spec_path: path,
        code,
        diagnostics: &entry.diagnostics,
    })
}

fn json<T: Serialize>(value: &T) -> String {
    // Our own types have text keys and no foreign serializers: they can always be written.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
