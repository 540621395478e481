//! Removal of environments without a controller: a [`Planner`] with empty specs and an [`EngineObserver`] for these
//! environments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Subject;
use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, ControllerLeases, Ownership};
use argus_core::observed::Store;
use argus_core::plan::ControllerIdentity;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitingOn;
use argus_crds::error::{Code, StructuredError};
use argus_docker::Docker;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::lock::{Lock, LockHolder, host_name};
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::PersistedSpecs;
use argus_reconciler::state_dir::{StateDir, StateError};
use argus_reconciler::{identity, persisted};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use crate::controller_start;
use crate::engine;
use crate::engine::observer;
use crate::engine::observer::EngineObserver;
use crate::engine::observer::execute_step;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::settings::Settings;
use crate::status;

/// Removes the given environments, or all environments of this controller if `envs` is empty.
pub(super) async fn remove_environments(
    settings: &Settings,
    envs: Vec<EnvName>,
    timeout: Duration,
) -> Result<(), Failure> {
    let refused = |error: StateError| controller_start::state_failure(&error);
    let state = StateDir::prepare(&settings.state, &settings.specs).map_err(refused)?;
    let now = clock::now();
    let run = identity::new_ulid(now);
    let me = LockHolder {
        pid: std::process::id(),
        host: host_name(),
        since: now.to_string(),
        run: run.clone(),
    };
    let lock =
        Lock::acquire(&state.lock(), &me).map_err(|error| controller_start::state_failure(&error.into()))?;
    let (controller, _) = identity::read_or_create(&state.identity(), &settings.specs, None, now);
    let docker = engine::connect_docker(settings)?;
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
    // Adopted containers carry the labels of a dead controller: only the saved state proves that they are ours.
    let persisted: PersistedState = status::read_or_default(&state.state_json());
    let planner_state = PlannerState {
        environments: persisted.environments,
        ..PlannerState::default()
    };
    let mut observer = EngineObserver::open(&docker, Some(envs.clone())).await?;
    observer.inspect().await?;
    let work = OfflineDown {
        leases,
        observer,
        docker,
        planner: Planner::new(identity, planner_state),
    };
    let done = tokio::time::timeout(timeout, work.remove_all(&envs)).await;
    done.unwrap_or_else(|_| {
        let waited = humantime::format_duration(timeout);
        Err(
            Failure::with_code(Code::Timeout, format!("environments not removed within {waited}"))
                .with_details(json!({ "environments": envs, "waitedSeconds": timeout.as_secs() }))
                .with_exit(Exit::TimedOut),
        )
    })?;
    remove_state(&state, &envs)?;
    drop(lock);
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

struct OfflineDown {
    leases: ControllerLeases,
    docker: Docker,
    observer: EngineObserver,
    planner: Planner,
}

impl OfflineDown {
    async fn remove_all(mut self, envs: &BTreeSet<EnvName>) -> Result<(), Failure> {
        let clock = Clock::system();
        let mut running = FuturesUnordered::new();
        loop {
            let pass = self.reconcile();
            for step in pass.steps {
                output::print_note(&format!(
                    "{} {} ({})",
                    step.action.verb(),
                    find_name(&step.subject, &self.observer.store),
                    step.cause
                ));
                running.push(execute_step(self.docker.clone(), step));
            }
            if pass.relist {
                self.docker.request_relist();
            }
            if running.is_empty() {
                if pass.plans.values().all(|plan| plan.is_settled())
                    && are_all_removed(&self.observer.store, envs)
                {
                    return Ok(());
                }
                let waits = pass.plans.values().flat_map(|plan| &plan.waits);
                if let Some(failed) = waits
                    .clone()
                    .find(|wait| matches!(wait.on, WaitingOn::Failed { .. }))
                {
                    let reason = argus_core::status::describe_wait(&failed.on).message;
                    return Err(Failure::with_code(
                        Code::CleanupFailed,
                        format!("{}: {reason}", failed.subject),
                    )
                    .with_details(json!({ "subject": failed.subject.to_string(), "reason": reason })));
                }
            }
            tokio::select! {
                Some((step, outcome)) = running.next() => {
                    if let Err(error) = &outcome {
                        output::print_note(&format!("{} {}: {error}", step.action.verb(), find_name(&step.subject, &self.observer.store)));
                    }
                    self.planner.finished(&step, &outcome, &self.observer.store, clock.now());
                }
                observed = self.observer.next_event() => observed?,
                () = clock.sleep_until(pass.wake_at) => {}
            }
        }
    }

    fn reconcile(&mut self) -> ReconcileResult {
        self.planner.reconcile(&Inputs {
            requests: &UserRequests::default(),
            leases: &self.leases,
            specs: &BTreeMap::new(),
            preflight: None,
            scanned: true,
            store: &self.observer.store,
            health: &BTreeMap::new(),
            now: clock::now(),
        })
    }
}

/// Name of a subject. Objects that are only known by id get the name that the engine reports.
fn find_name(subject: &Subject, store: &Store) -> String {
    let named = match subject {
        Subject::ExtraContainer { id } => store
            .container(id)
            .map(|container| format!("container `{}`", container.name)),
        Subject::ExtraNetwork { id } => store
            .network(id)
            .map(|network| format!("network `{}`", network.name)),
        _ => None,
    };
    named.unwrap_or_else(|| subject.to_string())
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

/// Removes the status files, and records in the saved state that a user removed the environments at their last accepted
/// revision.
fn remove_state(state: &StateDir, envs: &BTreeSet<EnvName>) -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::operation_failed("cannot save the removal", &error);
    let now = clock::now();
    let stored: PersistedSpecs = persisted::read(&state.specs_json(), now)
        .value
        .unwrap_or_default();
    let mut persisted: PersistedState = persisted::read(&state.state_json(), now)
        .value
        .unwrap_or_default();
    for accepted in stored
        .accepted
        .values()
        .filter(|accepted| envs.contains(&accepted.desired.env))
    {
        persisted
            .overrides
            .down
            .insert(accepted.desired.env.clone(), accepted.desired.revision.clone());
    }
    // A fork has no spec file that could start it again, so its record is dropped.
    persisted.overrides.forks.retain(|env, _| !envs.contains(env));
    persisted::write(&state.state_json(), &persisted).map_err(fault)?;
    for env in envs {
        for ending in ["json", "env", "debug"] {
            match std::fs::remove_file(state.environments().join(format!("{env}.{ending}"))) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fault(error)),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use argus_core::desired::Accepted;
    use argus_core::desired::admit::{SpecContext, admit};
    use argus_core::time::Timestamp;

    use super::*;

    #[test]
    fn removed_fork_does_not_return() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web:\n    image: web:1\n    container: { name: shop-web }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let accepted = std::sync::Arc::new(Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            accepted_at: Timestamp(1),
            has_pending_edit: false,
        });
        let env = |name: &str| EnvName::new(name).unwrap();
        let mut persisted = PersistedState::default();
        for name in ["one", "two"] {
            persisted.overrides.forks.insert(env(name), accepted.clone());
        }
        persisted::write(&state.state_json(), &persisted).unwrap();
        remove_state(&state, &BTreeSet::from([env("one")])).unwrap();
        let stored: PersistedState = persisted::read(&state.state_json(), Timestamp(1)).value.unwrap();
        assert_eq!(
            stored.overrides.forks.into_keys().collect::<Vec<_>>(),
            [env("two")]
        );
    }
}
