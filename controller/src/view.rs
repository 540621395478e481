//! Status documents of the controller, as files and for the display of `argus run`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::journal::{Event, controller_events, events_between};
use argus_core::observed::{Container, Observed};
use argus_core::published::Addresses;
use argus_core::state::EnvHistory;
use argus_core::status::{EngineView, Rejection, StatusInput, env_file, environment, public_view};
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::Code;
use argus_crds::status::{Calls, ControllerStatus, EnvironmentStatus, Phase};
use argus_reconciler::specs::{FileEntry, FileState};
use argus_reconciler::{EnvFiles, Journal, Snapshot, StatusView};
use serde::Serialize;
use tokio::sync::{Notify, watch};

pub(crate) mod breaker_reset;
mod calls;
mod controller;
pub(crate) mod http_address;

pub(crate) use controller::{About, ENGINE_READABLE, FILES_WATCHED};

/// The status documents of the last write.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Statuses {
    /// Status by environment name.
    pub(crate) environments: BTreeMap<String, Arc<EnvironmentStatus>>,
    /// Calls behind the errors, by environment name.
    pub(crate) calls: BTreeMap<String, Arc<Calls>>,
    /// Status of the controller.
    pub(crate) controller: ControllerStatus,
}

impl Statuses {
    /// Returns the statuses for callers without the token.
    pub(crate) fn public(&self) -> Self {
        let environments = self.environments.iter();
        Self {
            environments: environments
                .map(|(name, status)| (name.clone(), Arc::new(public_view::environment(status))))
                .collect(),
            calls: BTreeMap::new(),
            controller: public_view::controller(&self.controller),
        }
    }

    /// Returns the statuses with the calls behind their errors.
    pub(crate) fn with_calls(&self) -> Self {
        let mut all = self.clone();
        for (env, calls) in &self.calls {
            if let Some(status) = all.environments.get_mut(env) {
                Arc::make_mut(status).put_calls(calls);
            }
        }
        all
    }
}

/// Builds the status files from snapshots.
#[derive(Debug)]
pub(crate) struct StatusBuilder {
    about: About,
    /// Statuses built so far from the current snapshot. The status of the controller completes them.
    next: Mutex<Statuses>,
    statuses: watch::Sender<Arc<Statuses>>,
    journal: Journal,
    /// Last revision per environment that was ready in this run; its duration is recorded once.
    ready: Mutex<BTreeSet<(EnvName, String)>>,
}

impl StatusBuilder {
    /// Creates a view that publishes its documents to `statuses` and records changes in the journal.
    pub(crate) fn new(about: About, statuses: watch::Sender<Arc<Statuses>>, journal: Journal) -> Self {
        Self {
            about,
            journal,
            next: Mutex::default(),
            ready: Mutex::default(),
            statuses,
        }
    }

    /// True if the environment was not ready with this revision before.
    fn is_first(&self, env: &EnvName, revision: Option<&str>) -> bool {
        let Some(revision) = revision else { return false };
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ready.insert((env.clone(), revision.to_owned()));
        // Keep only the last revision per environment.
        ready.retain(|(other, known)| other != env || known == revision);
        is_first
    }
}

impl StatusView for StatusBuilder {
    fn changed(&self) -> Arc<Notify> {
        self.about.changed.clone()
    }

    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        let is_ours = |container: &Arc<Container>| container.is_made_by(&snapshot.identity.controller);
        let seen = snapshot.store.environments().iter();
        let ours = seen
            .filter(|(_, observed)| observed.containers.values().any(is_ours))
            .map(|(env, _)| env.clone());
        let desired = snapshot.specs.environments.keys().cloned();
        let planned = snapshot
            .plans
            .iter()
            .filter(|(_, plan)| !plan.is_settled())
            .map(|(env, _)| env.clone());
        let mut all: BTreeSet<EnvName> = desired.chain(ours).chain(planned).collect();
        all.retain(|env| !is_down_and_gone(snapshot, env));
        // An action that began before the removal can still create an object.
        all.extend(snapshot.state.busy_environments().cloned());
        all.extend(
            rejected_files(snapshot).filter_map(|(path, entry)| claimed_environment(path, entry, snapshot)),
        );
        all
    }

    fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles {
        // Use the last published status, even if it could not be written; else the file of an earlier run.
        let last = self.statuses.borrow().environments.get(env.as_str()).cloned();
        let first = last.is_none();
        let previous =
            last.or_else(|| previous.and_then(|text| serde_json::from_str(text).ok().map(Arc::new)));
        let mut status = status_condition(env, snapshot, &self.about, previous.as_deref());
        let before = previous.as_ref().map(|previous| previous.phase);
        if before != Some(status.phase) {
            let accepted = snapshot.desired.get(env);
            let duration = |accepted: &Arc<Accepted>| {
                let history = snapshot.state.environments.get(env);
                let start = history.map_or(accepted.accepted_at, |history| history.started_at(accepted));
                snapshot.as_of.since(start).as_millis()
            };
            let ready = status.phase == Phase::Ready && self.is_first(env, status.revision.as_deref());
            self.journal.record_event(Event::Phase {
                environment: env.clone(),
                from: before.map_or_else(String::new, |phase| format!("{phase:?}")),
                to: format!("{:?}", status.phase),
                revision: status.revision.clone(),
                after_ms: accepted
                    .filter(|_| ready)
                    .map(duration)
                    .and_then(|ms| u64::try_from(ms).ok()),
            });
        }
        // A new controller does not inherit the breaker of the previous one.
        let before = previous.map(|previous| EnvironmentStatus {
            breaker: previous.breaker.clone().filter(|_| !first),
            ..EnvironmentStatus::clone(&previous)
        });
        let no_history = EnvHistory::default();
        let history = snapshot.state.history(env).unwrap_or(&no_history);
        for note in events_between(env, before.as_ref(), &status, history, &snapshot.state.refused) {
            self.journal.record_event(note);
        }
        let now = status.take_calls();
        if self.about.debug {
            status.put_calls(&now);
        }
        let before = self.statuses.borrow().calls.get(env.as_str()).cloned();
        let calls = calls::merge_calls(now, before.as_deref(), status.phase);
        let files = EnvFiles {
            json: to_json(&status),
            env: env_file(&status.port_mappings),
            debug: (!calls.is_empty()).then(|| to_json(&calls)),
            project_file: status.env_file.as_deref().map(Into::into),
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.environments.insert(env.to_string(), Arc::new(status));
        next.calls.insert(env.to_string(), Arc::new(calls));
        files
    }

    fn keep_environment(&self, env: &EnvName) -> bool {
        let shown = self.statuses.borrow().clone();
        let Some(status) = shown.environments.get(env.as_str()) else {
            return false;
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.environments.insert(env.to_string(), status.clone());
        let calls = shown.calls.get(env.as_str()).cloned();
        next.calls.insert(env.to_string(), calls.unwrap_or_default());
        true
    }

    fn controller(&self, snapshot: &Snapshot, previous_text: Option<&str>) -> String {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Statuses {
            environments, calls, ..
        } = std::mem::take(&mut *next);
        let last = self.statuses.borrow().controller.clone();
        let first = last.as_of.is_empty();
        let previous = Some(last).filter(|_| !first);
        let previous: Option<ControllerStatus> =
            previous.or_else(|| previous_text.and_then(|text| serde_json::from_str(text).ok()));
        let controller = controller::create_status(snapshot, &environments, &self.about, previous.as_ref());
        let before = previous.map(|previous| ControllerStatus {
            breaker: previous.breaker.filter(|_| !first),
            ..previous
        });
        for note in controller_events(before.as_ref(), &controller) {
            self.journal.record_event(note);
        }
        let text = to_json(&controller);
        self.statuses.send_replace(Arc::new(Statuses {
            environments,
            calls,
            controller,
        }));
        text
    }
}

fn status_condition(
    env: &EnvName,
    snapshot: &Snapshot,
    about: &About,
    previous: Option<&EnvironmentStatus>,
) -> EnvironmentStatus {
    let accepted = snapshot.desired.get(env);
    let holder = snapshot.specs.file_of(env);
    let file = holder.or_else(|| {
        rejected_files(snapshot)
            .find(|(path, entry)| claimed_environment(path, entry, snapshot).as_ref() == Some(env))
    });
    let path = file
        .map(|(path, _)| path.display().to_string())
        .unwrap_or_default();
    let rejected = file.and_then(|(_, entry)| create_rejection(&path, entry));
    let conflicting_specs = list_conflicting_specs(env, snapshot, &path);
    let conflicting_specs: Vec<_> = conflicting_specs
        .iter()
        .filter_map(|(path, entry)| create_rejection(path, entry))
        .collect();
    let (no_history, no_objects) = (EnvHistory::default(), Arc::default());
    let specs_problem = snapshot.specs.problem();
    environment(&StatusInput {
        env,
        accepted: accepted.map(AsRef::as_ref),
        rejected: rejected.filter(|_| !snapshot.overrides.down.contains_key(env)),
        conflicting_specs: &conflicting_specs,
        warnings: file.map_or(&[][..], |(_, entry)| &entry.diagnostics),
        requests: &snapshot.overrides.requests,
        breakers: &snapshot.state.breakers,
        can_roll_back: accepted
            .is_some_and(|accepted| snapshot.overrides.rollback_target(accepted).is_some()),
        outages: snapshot.store.outages(),
        specs_scanned: snapshot.specs.scanned,
        specs_problem: specs_problem.as_ref(),
        engine: engine_view(snapshot, about),
        observed: snapshot.store.of(env).unwrap_or(&no_objects),
        plan: snapshot.plans.get(env).map(AsRef::as_ref),
        health: &snapshot.health,
        history: snapshot.state.history(env).unwrap_or(&no_history),
        repairs: &snapshot.overrides.repairs,
        refused: &snapshot.state.refused,
        progress: &snapshot.progress,
        preflight: Some(&snapshot.preflight),
        connectivity: &snapshot.links,
        disk_full: snapshot.state.disk_full,
        previous,
        addresses: Addresses {
            publish_address: snapshot.identity.publish_address,
            engine_host: about.engine_host,
        },
        mode: snapshot.mode,
        safe_mode_reason: snapshot.problems.safe.as_deref(),
        controller: &snapshot.identity.controller,
        state_dir: &about.state,
        now: snapshot.as_of,
    })
}

/// Returns the engine state for statuses.
fn engine_view<'a>(snapshot: &'a Snapshot, about: &'a About) -> EngineView<'a> {
    EngineView {
        reachable: snapshot.store.is_reachable(),
        synced: snapshot.store.is_synced(),
        reason: snapshot.store.unreachable_reason(),
        endpoint: &about.endpoint,
        since: snapshot.store.outage_started_at(),
        retry: snapshot.store.retry(),
        events_lost: snapshot.store.events_lost(),
    }
}

/// Returns the conflicting files that claim the environment of the file at `holder`.
fn list_conflicting_specs<'a>(
    env: &EnvName,
    snapshot: &'a Snapshot,
    holder: &str,
) -> Vec<(String, &'a FileEntry)> {
    let all = snapshot.specs.files.iter();
    // Only few files have a conflict.
    let conflicting = all
        .filter(|(_, entry)| matches!(entry.state, FileState::Conflict { .. }) && entry.accepted.is_none());
    conflicting
        .filter(|(path, entry)| claimed_environment(path, entry, snapshot).as_ref() == Some(env))
        .map(|(path, entry)| (path.display().to_string(), entry))
        .filter(|(path, _)| path != holder)
        .collect()
}

/// True if a person removed the environment and nothing of it is left. Another controller can have one of the same name.
fn is_down_and_gone(snapshot: &Snapshot, env: &EnvName) -> bool {
    let plan = snapshot.plans.get(env);
    let settled = plan.is_none_or(|plan| plan.is_settled());
    // Named volumes stay unless the file requests their removal.
    let is_empty = |seen: &Arc<Observed>| seen.containers.is_empty() && seen.networks.is_empty();
    let gone = snapshot.store.of(env).is_none_or(is_empty) || plan.is_some_and(|plan| plan.is_left_to_others);
    snapshot.overrides.down.contains_key(env) && settled && gone
}

/// Returns the files without an accepted spec.
fn rejected_files(snapshot: &Snapshot) -> impl Iterator<Item = (&Path, &FileEntry)> {
    let without = |entry: &FileEntry| match entry.state {
        FileState::Rejected | FileState::Conflict { .. } => entry.accepted.is_none(),
        FileState::Unread | FileState::Accepted => false,
    };
    snapshot
        .specs
        .files
        .iter()
        .filter(move |(_, entry)| without(entry))
        .map(|(path, entry)| (path.as_path(), entry))
}

/// Returns the environment that a rejected file names. If its name cannot be read, the file or its directory names the
/// environment, so that every command finds the diagnostics under that name. An environment of that name stays as it is.
fn claimed_environment(path: &Path, entry: &FileEntry, snapshot: &Snapshot) -> Option<EnvName> {
    // A rejected file can still have a valid name.
    let of_path = || name_of_path(path).filter(|env| !snapshot.desired.contains_key(env));
    entry.env.clone().or_else(of_path)
}

/// Name of `NAME.e2e.yaml` or `NAME/e2e.yaml`.
fn name_of_path(path: &Path) -> Option<EnvName> {
    let file = path.file_name()?.to_str()?;
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    EnvName::slug(folder.filter(|_| stem == "e2e").unwrap_or(stem)).ok()
}

/// Returns the rejection of a file; `None` for an accepted file.
fn create_rejection<'a>(path: &'a str, entry: &'a FileEntry) -> Option<Rejection<'a>> {
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
        is_compose: entry.is_compose_conflict(),
    })
}

fn to_json<T: Serialize>(value: &T) -> String {
    // Our own types have text keys and no foreign serializers, so they always serialize.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
