//! Status of the controller: `controller.json`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use argus_backend::EngineInfo;
use argus_core::desired::PreflightSettings;
use argus_core::desired::admit::MAX_DIAGNOSTICS;
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::observed::{Store, Unreadable};
use argus_core::status::{
    breaker, events_unavailable, orphan_errors, orphans, spec_errors, unavailable, unwritable,
    with_controller, with_kept_retry_after,
};
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::StructuredError;
use argus_crds::status::{
    BreakerScope, Condition, ControllerStatus, EngineStatus, EnvironmentStatus, Orphan, RejectedSpec,
    STATUS_VERSION, Truth,
};
use argus_reconciler::Snapshot;
use argus_reconciler::specs::SpecRegistry;
use tokio::sync::{Notify, watch};

use crate::view::http_address::HttpAddress;

/// Condition that is false while a limit of the system prevents notifications about files.
pub(crate) const FILES_WATCHED: &str = "FilesWatched";
/// Condition that is false from a response of the engine that Argus cannot read until the next complete list.
pub(crate) const ENGINE_READABLE: &str = "EngineReadable";

/// Facts of this run that do not change, and the current data of the engine and the listener.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// Start of this run.
    pub(crate) started_at: Timestamp,
    /// Specs folder.
    pub(crate) specs: PathBuf,
    /// State directory.
    pub(crate) state: String,
    /// Address of the engine.
    pub(crate) endpoint: String,
    /// Host of the engine as clients reach it; `None` if it is this host.
    pub(crate) engine_host: Option<IpAddr>,
    /// Engine data of the last query; `None` before the first one.
    pub(crate) engine: watch::Receiver<Option<EngineInfo>>,
    /// Address of the HTTP listener.
    pub(crate) http: watch::Receiver<HttpAddress>,
    /// Size of the engine's unused build cache after the last build, in bytes; `None` before the first one.
    pub(crate) build_cache: watch::Receiver<Option<u64>>,
    /// Notified after each change of the address and of the size of the build cache.
    pub(crate) changed: Arc<Notify>,
    /// Source of the namespace of files without one.
    pub(crate) namespace_from: NamespaceFrom,
    /// True if errors always contain their call traces.
    pub(crate) debug: bool,
}

/// Builds the controller's status.
pub(super) fn create_status(
    snapshot: &Snapshot,
    environments: &BTreeMap<String, Arc<EnvironmentStatus>>,
    about: &About,
    previous: Option<&ControllerStatus>,
) -> ControllerStatus {
    let engine = about.engine.borrow().clone();
    let current = || snapshot.plans.values().flat_map(|plan| orphans(plan)).collect();
    let orphans: Vec<Orphan> = match previous {
        // Before the first list, missing orphans are unknown, not gone.
        Some(previous) if !snapshot.is_complete() => previous.orphans.clone(),
        Some(_) | None => current(),
    };
    let mut status = ControllerStatus {
        schema_version: STATUS_VERSION,
        controller: snapshot.identity.controller.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: about.started_at.to_string(),
        mode: snapshot.mode,
        mode_reason: snapshot.mode_reason(),
        specs: about.specs.display().to_string(),
        namespace_from: (about.namespace_from != NamespaceFrom::File)
            .then(|| about.namespace_from.to_string()),
        namespace: about.namespace_from.value().map(str::to_owned),
        conditions: create_conditions(snapshot, previous),
        engine: Some(EngineStatus {
            endpoint: about.endpoint.clone(),
            reachable: snapshot.store.is_reachable(),
            version: engine.as_ref().map(|engine| engine.version.clone()),
            api_version: engine.map(|engine| engine.api_version),
            build_cache_bytes: *about.build_cache.borrow(),
        }),
        breaker: Some(breaker(snapshot.state.breakers.engine(), BreakerScope::Engine)),
        environments: environments
            .iter()
            .map(|(name, status)| (name.clone(), status.phase))
            .collect(),
        preflight: snapshot.preflight.report(
            &PreflightSettings::default(),
            (!snapshot.store.is_reachable())
                .then(|| snapshot.engine_problem())
                .as_deref(),
            snapshot.state.disk_full,
            Vec::new(),
            previous.and_then(|previous| previous.preflight.as_ref()),
            snapshot.as_of,
        ),
        rejected: list_rejected(snapshot),
        errors: list_errors(snapshot, environments, about, &orphans, previous),
        orphans,
        http: about.http.borrow().bound().map(|at| format!("http://{at}")),
        ..ControllerStatus::default()
    };
    let same = previous.is_some_and(|previous| {
        ControllerStatus {
            as_of: String::new(),
            ..previous.clone()
        } == status
    });
    status.as_of = match previous {
        Some(previous) if same => previous.as_of.clone(),
        Some(_) | None => snapshot.as_of.to_string(),
    };
    status
}

fn create_conditions(snapshot: &Snapshot, previous: Option<&ControllerStatus>) -> Vec<Condition> {
    let engine = if snapshot.store.is_synced() {
        (Truth::True, "Reachable", "the engine answers".to_owned())
    } else if snapshot.store.is_reachable() || snapshot.store.unreachable_reason().is_empty() {
        (
            Truth::Unknown,
            "NotListed",
            "the engine has not been listed yet".to_owned(),
        )
    } else {
        (Truth::False, "NoAnswer", snapshot.engine_problem())
    };
    let specs = match (snapshot.specs.problem(), snapshot.specs.scanned) {
        (Some(problem), _) => {
            let (reason, message) = problem.condition();
            (Truth::False, reason, message)
        }
        (None, true) => (Truth::True, "Scanned", "the specs folder is read".to_owned()),
        (None, false) => (
            Truth::Unknown,
            "NotScanned",
            "the specs folder has not been read yet".to_owned(),
        ),
    };
    let dated = |kind: &str, (status, reason, message): (Truth, &str, String)| {
        let old = previous.and_then(|previous| previous.conditions.iter().find(|old| old.kind == kind));
        let since = old
            .filter(|old| old.status == status)
            .map(|old| old.last_transition_time.clone());
        let last_transition_time = since.unwrap_or_else(|| snapshot.as_of.to_string());
        Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message,
            last_transition_time,
        }
    };
    vec![
        dated("EngineReachable", engine),
        dated("SpecsAvailable", specs),
        dated(ENGINE_READABLE, engine_readable(&snapshot.store)),
        dated(FILES_WATCHED, files_watched(&snapshot.specs)),
    ]
}

fn engine_readable(store: &Store) -> (Truth, &'static str, String) {
    match (store.unreadable(), store.is_synced()) {
        (Some(Unreadable { what, version, .. }), _) => {
            let text = format!(
                "cannot read {what} of the engine (version {version}); `argus events --type watch_degraded` shows it"
            );
            (Truth::False, "Unreadable", text)
        }
        (None, true) => (Truth::True, "Readable", "the last list is readable".to_owned()),
        (None, false) => (
            Truth::Unknown,
            "NotListed",
            "the engine has not been listed yet".to_owned(),
        ),
    }
}

fn files_watched(specs: &SpecRegistry) -> (Truth, &'static str, String) {
    match (&specs.watch_limit, specs.scanned && specs.unavailable.is_none()) {
        (Some(limit), _) => (Truth::False, "LimitReached", limit.clone()),
        (None, true) => (Truth::True, "Watched", "every folder is watched".to_owned()),
        (None, false) => (
            Truth::Unknown,
            "NotScanned",
            "the folders are not known yet".to_owned(),
        ),
    }
}

fn list_rejected(snapshot: &Snapshot) -> Vec<RejectedSpec> {
    let one = |(file, entry): (&PathBuf, &argus_reconciler::specs::FileEntry)| {
        let path = file.display().to_string();
        super::create_rejection(&path, entry)?;
        let held = entry.accepted.as_ref().map(|held| held.desired.env.to_string());
        Some(RejectedSpec {
            environment: held.or_else(|| super::claimed_environment(file, entry, snapshot).map(Into::into)),
            diagnostics: entry.diagnostics.clone(),
            spec_path: path,
        })
    };
    let mut all: Vec<RejectedSpec> = snapshot.specs.files.iter().filter_map(one).collect();
    bound_diagnostics(&mut all);
    all
}

/// Removes diagnostics beyond the limit; the last diagnostic of a cut file counts them.
fn bound_diagnostics(rejected: &mut [RejectedSpec]) {
    let mut left = MAX_DIAGNOSTICS;
    for file in rejected {
        let count = file.diagnostics.len();
        if count > left {
            file.diagnostics.truncate(left.saturating_sub(1));
            let message = format!("{} more problems are not listed", count - file.diagnostics.len());
            let notice = Diagnostic::error("", message);
            file.diagnostics.extend((left > 0).then_some(notice));
        }
        left -= file.diagnostics.len();
    }
}

/// Returns errors of the engine, of the journal, of orphans, and of rejected files that no environment names.
/// The statuses of the environments contain all other errors.
fn list_errors(
    snapshot: &Snapshot,
    environments: &BTreeMap<String, Arc<EnvironmentStatus>>,
    about: &About,
    orphans: &[Orphan],
    previous: Option<&ControllerStatus>,
) -> Vec<StructuredError> {
    let previous_errors = previous.map_or(&[][..], |previous| &previous.errors);
    let mut errors = Vec::new();
    if !snapshot.store.is_reachable() && !snapshot.store.unreachable_reason().is_empty() {
        let engine = super::engine_view(snapshot, about);
        let error = with_kept_retry_after(
            unavailable(&engine, snapshot.engine_problem(), snapshot.as_of),
            previous_errors,
        );
        let at = engine.since.unwrap_or(snapshot.as_of);
        let id = argus_core::status::error_id("", None, error.code, &error.message, at);
        errors.push(error.error_id(id).timestamp(at.to_string()));
    }
    let engine = super::engine_view(snapshot, about);
    if let Some(error) = events_unavailable(&engine) {
        let at = engine.events_lost.map_or(snapshot.as_of, |(at, _)| at);
        let id = argus_core::status::error_id("", None, error.code, &error.message, at);
        errors.push(error.error_id(id).timestamp(at.to_string()));
    }
    if let Some(cause) = &snapshot.problems.safe {
        let error = unwritable(&about.state, cause);
        let id = argus_core::status::error_id("", None, error.code, &error.message, snapshot.as_of);
        errors.push(error.error_id(id).timestamp(snapshot.as_of.to_string()));
    }
    if let Some(lost) = about.http.borrow().lost() {
        let error = lost.to_error();
        let id = argus_core::status::error_id("", None, error.code, &error.message, lost.since);
        errors.push(error.error_id(id).timestamp(lost.since.to_string()));
    }
    for (path, entry) in &snapshot.specs.files {
        let path = path.display().to_string();
        if let Some(rejection) = super::create_rejection(&path, entry)
            && entry.accepted.is_none()
            && environments.values().all(|status| status.spec_path != path)
        {
            errors.extend(spec_errors(None, rejection, snapshot.as_of));
        }
    }
    for error in orphan_errors(orphans) {
        let id = argus_core::status::error_id("", None, error.code, &error.message, snapshot.as_of);
        errors.push(error.error_id(id).timestamp(snapshot.as_of.to_string()));
    }
    for error in &mut errors {
        let alike = |old: &&StructuredError| old.code == error.code && old.message == error.message;
        let mut alike = previous_errors.iter().filter(alike);
        if let Some(old) = alike.next() {
            error.error_id.clone_from(&old.error_id);
            error.timestamp.clone_from(&old.timestamp);
        }
    }
    let controller = &snapshot.identity.controller;
    let complete = |error| with_controller(error, controller);
    errors.into_iter().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use argus_core::observed::WatchEvent;
    use argus_core::plan::ControllerIdentity;
    use argus_core::state::PlannerState;

    use super::*;

    #[test]
    fn unreadable_response_of_the_engine_is_a_condition() {
        let identity = ControllerIdentity {
            controller: "C".to_owned(),
            run: "R".to_owned(),
            publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        };
        let mut snapshot = Snapshot::blank(identity, PlannerState::default(), Timestamp(0));
        let mut condition_after = |events: Vec<WatchEvent>| {
            let store = Arc::make_mut(&mut snapshot.store);
            for event in events {
                store.apply(event);
            }
            let mut conditions = create_conditions(&snapshot, None).into_iter();
            let found = conditions.find(|it| it.kind == "EngineReadable").unwrap();
            (found.status, found.reason, found.message)
        };
        let list = || vec![WatchEvent::Init, WatchEvent::InitDone];
        let unreadable = |what: &str| {
            vec![WatchEvent::Unreadable(Box::new(Unreadable {
                what: what.to_owned(),
                version: "29.1.2".to_owned(),
                cause: "no `Type`".to_owned(),
                text: "{}".to_owned(),
            }))]
        };
        let (readable, text) = ("Readable".to_owned(), "the last list is readable".to_owned());
        let good = (Truth::True, readable, text);
        let bad = |what: &str| {
            let text = format!(
                "cannot read {what} of the engine (version 29.1.2); `argus events --type watch_degraded` shows it"
            );
            (Truth::False, "Unreadable".to_owned(), text)
        };
        assert_eq!(
            condition_after(vec![WatchEvent::Connected(Timestamp(1))]).0,
            Truth::Unknown
        );
        assert_eq!(condition_after(list()), good);
        assert_eq!(condition_after(unreadable("an event")), bad("an event"));
        assert_eq!(condition_after(list()), good, "a complete list is the end");
    }

    #[test]
    fn reached_limit_of_watches_is_a_condition() {
        let mut specs = SpecRegistry::default();
        assert_eq!(files_watched(&specs).0, Truth::Unknown);
        specs.scanned = true;
        assert_eq!(files_watched(&specs).0, Truth::True);
        specs.watch_limit = Some("raise it".to_owned());
        let reached = (Truth::False, "LimitReached", "raise it".to_owned());
        assert_eq!(files_watched(&specs), reached);
    }

    #[test]
    fn all_files_together_list_at_most_1000_diagnostics() {
        let file = |count: usize| RejectedSpec {
            diagnostics: (0..count)
                .map(|line| Diagnostic::error(format!("{line}"), "bad"))
                .collect(),
            ..RejectedSpec::default()
        };
        let mut rejected = vec![file(600), file(600), file(7)];
        bound_diagnostics(&mut rejected);
        let counts: Vec<usize> = rejected.iter().map(|file| file.diagnostics.len()).collect();
        assert_eq!(counts, [600, 400, 0]);
        assert_eq!(
            rejected[1].diagnostics[399].message,
            "201 more problems are not listed"
        );
    }
}
