//! Removal of environments without a controller: an [`OfflineController`] without specs, and only for these environments.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::host_path::folder;
use argus_core::desired::Accepted;
use argus_core::hex::hex;
use argus_core::ident::{EnvName, Hash};
use argus_core::lease::{ControllerLease, Ownership};
use argus_core::observed::Store;
use argus_core::plan::ControllerIdentity;
use argus_core::reconcile::ReconcileResult;
use argus_core::wait::WaitReason;
use argus_crds::compose::is_compose_name;
use argus_crds::error::{Code, StructuredError};
use argus_docker::Docker;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::journal::CommandJournal;
use argus_reconciler::overrides::Down;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::PersistedSpecs;
use argus_reconciler::specs::scan::{MAX_FILE_BYTES, Text, read_bounded};
use argus_reconciler::specs::source::SpecSource;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{identity, persisted};
use serde_json::json;

use crate::engine;
use crate::engine::observer;
use crate::engine::observer::EngineObserver;
use crate::engine::offline::{Next, OfflineController, lock_state};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::settings::Settings;

/// Removes the given environments, with their named volumes on request, or all environments of this controller if `envs` is empty.
pub(super) async fn remove_environments(
    settings: &Settings,
    envs: Vec<EnvName>,
    volumes: bool,
    timeout: Duration,
) -> Result<(), Failure> {
    let state = settings.state.clone();
    let now = clock::now();
    let run = identity::new_ulid(now);
    let (controller, lock) = lock_state(settings, &run)?;
    let docker = engine::connect_docker(settings).await?;
    let identity = ControllerIdentity {
        controller,
        run,
        publish_address: settings.publish_address,
    };
    let envs = if envs.is_empty() {
        list_environments(&docker, &state, &identity.controller).await?
    } else {
        envs.into_iter().collect()
    };
    let leases = observer::read_leases(&docker, &identity, &state).await?;
    for env in &envs {
        if let Ownership::HeldByOther(lease) = leases.ownership(env, true, now) {
            return Err(lease_held_failure(env, lease));
        }
    }
    let mut persisted = PersistedState::peek(&state);
    for env in envs.iter().filter(|_| volumes) {
        let history = persisted.environments.entry(env.clone()).or_default();
        Arc::make_mut(history).delete_volumes = Some(true);
    }
    let mut observer = EngineObserver::open(&docker, Some(envs.clone())).await?;
    observer.inspect().await?;
    let journal = CommandJournal::open(&state, &identity.run, Clock::system());
    let mut offline = OfflineController::new(docker, identity, leases, observer, persisted);
    offline.journal = Some(journal);
    let removed = offline.run(None, |pass, store, is_idle| {
        remove_all(pass, store, is_idle, &envs)
    });
    let done = tokio::time::timeout(timeout, removed).await;
    done.unwrap_or_else(|_| {
        let waited = humantime::format_duration(timeout);
        Err(
            Failure::with_code(Code::Timeout, format!("environments not removed within {waited}"))
                .with_details(json!({ "environments": envs, "waitedSeconds": timeout.as_secs() }))
                .with_exit(Exit::TimedOut),
        )
    })?;
    remove_state(&state, &settings.specs, &envs)?;
    drop((offline, lock));
    Ok(())
}

/// Error: another live controller claims the environment.
fn lease_held_failure(env: &EnvName, lease: &ControllerLease) -> Failure {
    let spec = &lease.spec;
    let message = format!(
        "controller {} (pid {} on `{}`) manages `{env}`",
        spec.controller, spec.pid, spec.host
    );
    let holder =
        json!({ "controller": spec.controller, "run": spec.run, "host": spec.host, "pid": spec.pid });
    let error = StructuredError::new(Code::LeaseHeld, message).details(json!({ "holder": holder }));
    Failure::new(error.environment(env.as_str()))
}

/// All environments that have a status file here or a container with this controller's label.
async fn list_environments(
    docker: &Docker,
    state: &StateDir,
    controller: &str,
) -> Result<BTreeSet<EnvName>, Failure> {
    let names = status::list_names(state)?
        .into_iter()
        .filter_map(|name| EnvName::new(name).ok());
    let observer = EngineObserver::open(docker, None).await?;
    let ours = observer
        .store
        .containers()
        .filter_map(|container| container.owner());
    let ours = ours
        .filter(|owner| owner.controller == controller)
        .map(|owner| owner.environment);
    Ok(names.chain(ours).collect())
}

/// Executes all steps of a pass. Ends when nothing remains, or fails when an object cannot be removed.
fn remove_all(
    pass: ReconcileResult,
    store: &Store,
    is_idle: bool,
    envs: &BTreeSet<EnvName>,
) -> Result<Next<()>, Failure> {
    if !is_idle || !pass.steps.is_empty() {
        return Ok(Next::Execute(pass.steps));
    }
    if pass.plans.values().all(|plan| plan.is_settled()) && are_all_removed(store, envs) {
        return Ok(Next::Done(()));
    }
    let mut waits = pass.plans.values().flat_map(|plan| &plan.waits);
    let is_final = |on: &WaitReason| matches!(on, WaitReason::Failed { .. } | WaitReason::InUse { .. });
    let Some(failed) = waits.find(|wait| is_final(&wait.on)) else {
        return Ok(Next::Execute(Vec::new()));
    };
    let reason = argus_core::status::describe_wait(&failed.on).message;
    let message = format!("{}: {reason}", failed.subject);
    Err(Failure::with_code(Code::CleanupFailed, message)
        .with_details(json!({ "subject": failed.subject.to_string(), "reason": reason })))
}

/// Returns true if no containers and networks remain. Named volumes may stay: the planner has decided about them.
fn are_all_removed(store: &Store, envs: &BTreeSet<EnvName>) -> bool {
    let gone = |env| {
        store
            .of(env)
            .is_none_or(|seen| seen.containers.is_empty() && seen.networks.is_empty())
    };
    envs.iter().all(gone)
}

/// Removes the status files, and records in the saved state that a user removed the environments with their current spec files.
fn remove_state(state: &StateDir, specs: &Path, envs: &BTreeSet<EnvName>) -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::operation_failed("cannot save the removal", &error);
    let now = clock::now();
    let stored: PersistedSpecs = persisted::read(&state.specs_json(), now)
        .value
        .unwrap_or_default();
    let (mut persisted, _) = PersistedState::read(state, now);
    let folder = SpecSource::new(specs, state.root()).folder;
    for accepted in stored
        .accepted
        .values()
        .filter(|accepted| envs.contains(&accepted.desired.env))
    {
        persisted
            .overrides
            .down
            .insert(accepted.desired.env.clone(), take_down(accepted, &folder));
    }
    // Ports and counters belong to one life of an environment.
    persisted.environments.retain(|env, _| !envs.contains(env));
    // A fork has no spec file that could start it again, so its record is dropped.
    persisted.overrides.forks.retain(|env, _| !envs.contains(env));
    persisted::write(&state.state_json(), &persisted).map_err(fault)?;
    for env in envs {
        for ending in ["json", "env", "debug"] {
            folder::remove(&state.environments().join(format!("{env}.{ending}"))).map_err(fault)?;
        }
    }
    Ok(())
}

/// Takes an environment down with its file as accepted and as on the disk, which can have changed since a controller read it. A
/// Compose file names others, so only its last read counts.
fn take_down(accepted: &Accepted, folder: &Path) -> Down {
    let mut down = Down::new(accepted);
    let file = folder.join(&accepted.spec_path);
    let name = file.file_name().and_then(|name| name.to_str());
    if !name.is_some_and(is_compose_name)
        && let Ok(Some(bytes)) = read_bounded(&file, MAX_FILE_BYTES)
    {
        down.file_hashes
            .extend(Hash::new(hex(&Text::new(bytes).hash)).ok());
    }
    down
}

#[cfg(test)]
mod tests {
    use argus_core::desired::admit::{SpecContext, admit};
    use argus_core::time::Timestamp;

    use super::*;

    const SPEC: &str = "version: \"1\"\nproject: { name: shop }\nservices:\n  web:\n    image: web:1\n    container: { name: shop-web }\n";

    fn accepted() -> Accepted {
        let written = argus_crds::yaml::read("e2e.yaml", SPEC.as_bytes()).spec.unwrap();
        Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: argus_core::desired::key_lines::KeyLines::default(),
            accepted_at: Timestamp(1),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: Hash::new("ab").ok(),
            mounted_files: std::collections::BTreeMap::new(),
        }
    }

    fn env(name: &str) -> EnvName {
        EnvName::new(name).unwrap()
    }

    #[test]
    fn removed_fork_does_not_return() {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        let state = StateDir::prepare(&dir.path().join("state"), &specs).unwrap();
        let accepted = std::sync::Arc::new(accepted());
        let mut persisted = PersistedState::default();
        for name in ["one", "two"] {
            persisted.overrides.forks.insert(env(name), accepted.clone());
        }
        persisted::write(&state.state_json(), &persisted).unwrap();
        remove_state(&state, &specs, &BTreeSet::from([env("one")])).unwrap();
        let stored: PersistedState = persisted::read(&state.state_json(), Timestamp(1)).value.unwrap();
        assert_eq!(
            stored.overrides.forks.into_keys().collect::<Vec<_>>(),
            [env("two")]
        );
    }

    #[test]
    fn removed_environment_is_down_with_its_current_file() {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        let state = StateDir::prepare(&dir.path().join("state"), &specs).unwrap();
        let stored = PersistedSpecs {
            accepted: [("e2e.yaml".into(), accepted())].into(),
            ..PersistedSpecs::default()
        };
        persisted::write(&state.specs_json(), &stored).unwrap();
        let remove = || {
            let mut persisted = PersistedState::default();
            let histories = ["shop", "other"].map(|name| (env(name), Arc::default()));
            persisted.environments = histories.into();
            persisted::write(&state.state_json(), &persisted).unwrap();
            remove_state(&state, &specs, &BTreeSet::from([env("shop")])).unwrap();
            let stored: PersistedState = persisted::read(&state.state_json(), Timestamp(1)).value.unwrap();
            let known: Vec<_> = stored.environments.into_keys().collect();
            assert_eq!(known, [env("other")]);
            stored.overrides.down[&env("shop")].clone()
        };
        assert_eq!(remove(), Down::new(&accepted()), "the file is missing");
        std::fs::create_dir_all(&specs).unwrap();
        std::fs::write(specs.join("e2e.yaml"), SPEC).unwrap();
        let current = Hash::new(hex(&Text::new(SPEC.into()).hash)).unwrap();
        assert_eq!(remove().file_hashes, [Hash::new("ab").unwrap(), current].into());
    }
}
