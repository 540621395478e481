//! Orphans without a controller: a [`Planner`] of whose plans only the actions on orphans are executed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Step;
use argus_core::ident::EnvName;
use argus_core::lease::ControllerLeases;
use argus_core::plan::ControllerIdentity;
use argus_core::plan::Plan;
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::status::{orphans, remaining_objects};
use argus_core::user_requests::UserRequests;
use argus_crds::status::Orphan;
use argus_docker::Docker;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::identity;
use argus_reconciler::lock::{Lock, LockHolder, host_name};
use argus_reconciler::overrides::DesiredState;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::{StateDir, StateError};
use futures::stream::{FuturesUnordered, StreamExt as _};

use crate::api::orphans::removal_results;
use crate::api::preflight::facts::{Wanted, read_desired};
use crate::blocking_io;
use crate::controller_start;
use crate::engine;
use crate::engine::observer;
use crate::engine::observer::EngineObserver;
use crate::engine::observer::execute_step;
use crate::exit::Failure;
use crate::output;
use crate::settings::Settings;
use crate::status;

/// Lists the orphans. With `clean`, removes them within this time.
pub(crate) async fn list_or_clean(
    settings: &Settings,
    projects: &[String],
    clean: Option<Duration>,
) -> Result<Vec<Orphan>, Failure> {
    let now = clock::now();
    let run = identity::new_ulid(now);
    let state = StateDir::at(settings.state.clone());
    let (own, there, me) = (settings.clone(), state.clone(), run.clone());
    // The lock is held until the end of the function.
    let (controller, _held, persisted): (String, Option<Lock>, PersistedState) =
        blocking_io::read(move || {
            let (controller, held) = match clean {
                Some(_) => lock_state(&own, &me).map(|(controller, lock)| (controller, Some(lock)))?,
                None => (identity::peek(&there.identity()).unwrap_or_default(), None),
            };
            Ok((controller, held, status::read_or_default(&there.state_json())))
        })
        .await?;
    let wanted = read_desired(settings, &state, &controller).await;
    let identity = ControllerIdentity {
        controller,
        run,
        publish_address: settings.publish_address,
    };
    let docker = engine::connect_docker(settings)?;
    let leases = observer::read_leases(&docker, &identity, &state).await?;
    let mut requests = UserRequests::default();
    if let Some(limit) = clean {
        let ours = wanted
            .iter()
            .flat_map(|wanted| wanted.values())
            .map(|accepted| accepted.desired.project.clone());
        let requested: Vec<String> = if projects.is_empty() {
            ours.collect()
        } else {
            projects.to_vec()
        };
        requests.orphan_removal_until = requested
            .into_iter()
            .map(|project| (project, now + limit))
            .collect();
    }
    let planner_state = PlannerState {
        environments: persisted.environments,
        ..PlannerState::default()
    };
    let mut work = OfflineClean {
        observer: EngineObserver::open(&docker, None).await?,
        docker,
        planner: Planner::new(identity, planner_state),
        wanted,
        leases,
        requests,
    };
    // Only an inspect distinguishes labels of a container from those of its image.
    work.observer.inspect().await?;
    match clean {
        None => {
            let pass = work.reconcile();
            Ok(work.find_orphans(&pass).into_iter().map(as_reported).collect())
        }
        Some(limit) => work.clean(limit).await,
    }
}

/// Takes the lock of the state directory, so that no controller can start, and reads its identity.
fn lock_state(settings: &Settings, run: &str) -> Result<(String, Lock), Failure> {
    let refused = |error: StateError| controller_start::state_failure(&error);
    let state = StateDir::prepare(&settings.state, &settings.specs).map_err(refused)?;
    let me = LockHolder {
        pid: std::process::id(),
        host: host_name(),
        since: clock::now().to_string(),
        run: run.to_owned(),
    };
    let lock =
        Lock::acquire(&state.lock(), &me).map_err(|error| controller_start::state_failure(&error.into()))?;
    let (controller, _) = identity::read_or_create(&state.identity(), &settings.specs, None, clock::now());
    Ok((controller, lock))
}

struct OfflineClean {
    docker: Docker,
    observer: EngineObserver,
    planner: Planner,
    wanted: Wanted,
    leases: ControllerLeases,
    requests: UserRequests,
}

impl OfflineClean {
    async fn clean(mut self, limit: Duration) -> Result<Vec<Orphan>, Failure> {
        let clock = Clock::system();
        let deadline = clock.now() + limit;
        let mut running = FuturesUnordered::new();
        let mut before: BTreeMap<(String, String), Orphan> = BTreeMap::new();
        loop {
            let pass = self.reconcile();
            let now = self.find_orphans(&pass);
            for orphan in &now {
                before.insert((orphan.kind.clone(), orphan.id.clone()), orphan.clone());
            }
            for step in pass.steps.into_iter().filter(|step| is_about(step, &now)) {
                output::print_note(&format!(
                    "{} {} ({})",
                    step.action.verb(),
                    step.subject,
                    step.cause
                ));
                running.push(execute_step(self.docker.clone(), step));
            }
            let all_decided = now
                .iter()
                .all(|orphan| matches!(orphan.result.as_str(), "failed" | "reported"));
            if (running.is_empty() && all_decided) || clock.now() >= deadline {
                return Ok(removal_results(before.into_values().collect(), now));
            }
            if pass.relist {
                self.docker.request_relist();
            }
            let wake = pass.wake_at.map_or(deadline, |at| at.min(deadline));
            tokio::select! {
                Some((step, outcome)) = running.next() => {
                    if let Err(error) = &outcome {
                        output::print_note(&format!("{} {}: {error}", step.action.verb(), step.subject));
                    }
                    self.planner.finished(&step, &outcome, &self.observer.store, clock.now());
                }
                observed = self.observer.next_event() => observed?,
                () = clock.sleep_until(Some(wake)) => {}
            }
        }
    }

    fn reconcile(&mut self) -> ReconcileResult {
        let nothing = DesiredState::new();
        self.planner.reconcile(&Inputs {
            requests: &self.requests,
            leases: &self.leases,
            specs: self.wanted.as_ref().unwrap_or(&nothing),
            scanned: true,
            store: &self.observer.store,
            health: &HealthStates::new(),
            preflight: None,
            now: clock::now(),
        })
    }

    /// Orphans of dead controllers. If the specs are readable, also leftovers of this controller.
    fn find_orphans(&self, pass: &ReconcileResult) -> Vec<Orphan> {
        let of = |(env, plan): (&EnvName, &Arc<Plan>)| match &self.wanted {
            Ok(wanted) if !wanted.contains_key(env) => remaining_objects(env, plan, &self.observer.store),
            // Without readable specs, the environment may still be declared.
            Ok(_) | Err(_) => orphans(plan),
        };
        pass.plans.iter().flat_map(of).collect()
    }
}

/// Without a running controller, `removing` becomes `reported`.
fn as_reported(orphan: Orphan) -> Orphan {
    if orphan.result != "removing" {
        return orphan;
    }
    Orphan {
        result: "reported".to_owned(),
        message: Some("no controller is running, remove it with `argus orphans --clean`".to_owned()),
        ..orphan
    }
}

/// Returns true if a step concerns one of the orphans. Other steps are left to controllers.
fn is_about(step: &Step, orphans: &[Orphan]) -> bool {
    let ids: BTreeSet<&str> = orphans.iter().map(|orphan| orphan.id.as_str()).collect();
    step.subject.orphan_id().is_some_and(|id| ids.contains(id))
}
