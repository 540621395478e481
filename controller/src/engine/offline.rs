//! Controller of one command: it executes the selected actions of a [`Planner`], without status files and lease.
//!
//! A complete controller would also act on the other environments of the state directory. `argus down ENV` and
//! `argus orphans --clean` must leave them alone (decision 0019).

use std::collections::BTreeMap;

use argus_backend::Backend as _;
use argus_core::action::{Step, Subject};
use argus_core::lease::ControllerLeases;
use argus_core::observed::Store;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::ControllerIdentity;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::status::unwritable;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_docker::Docker;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::identity;
use argus_reconciler::journal::{CommandJournal, StartedStep};
use argus_reconciler::lock::{Lock, LockHolder, host_name};
use argus_reconciler::overrides::DesiredState;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateError;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::observer::{EngineObserver, execute_step};
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::process::exit::state_failure;
use crate::render::output;
use crate::settings::Settings;

/// Takes the lock of the state directory, so that no controller can start, and reads its identity.
pub(crate) fn lock_state(settings: &Settings, run: &str) -> Result<(String, Lock), Failure> {
    let refused = |error: StateError| state_failure(&error);
    let state = settings.state.create(&settings.specs).map_err(refused)?;
    let now = clock::now();
    let me = LockHolder {
        pid: std::process::id(),
        host: host_name(),
        since: now.to_string(),
        run: run.to_owned(),
    };
    let lock = Lock::acquire(&state.lock(), &me).map_err(|error| state_failure(&error.into()))?;
    let (controller, _) = identity::read_or_create(&state.identity(), &settings.specs, None, now);
    Ok((controller, lock))
}

/// A planner, the engine that it observes, and the inputs that do not change during the command.
pub(crate) struct OfflineController {
    docker: Docker,
    planner: Planner,
    leases: ControllerLeases,
    /// Observed objects.
    pub(crate) observer: EngineObserver,
    /// Desired environments.
    pub(crate) specs: DesiredState,
    /// Requests of the user.
    pub(crate) requests: UserRequests,
    /// Records each action before it runs; `None` for a command that runs none.
    pub(crate) journal: Option<CommandJournal>,
}

/// Result of one pass.
pub(crate) enum Next<T> {
    /// Execute these steps, then make the next pass.
    Execute(Vec<Step>),
    /// The command is complete.
    Done(T),
}

impl OfflineController {
    /// Creates a controller with the saved state of the environments. Adopted containers carry the labels of a dead
    /// controller: only the saved state proves whose they are.
    pub(crate) fn new(
        docker: Docker,
        identity: ControllerIdentity,
        leases: ControllerLeases,
        observer: EngineObserver,
        persisted: PersistedState,
    ) -> Self {
        let planner_state = PlannerState {
            environments: persisted.environments,
            ..PlannerState::default()
        };
        Self {
            docker,
            planner: Planner::new(identity, planner_state),
            leases,
            observer,
            specs: DesiredState::new(),
            requests: UserRequests::default(),
            journal: None,
        }
    }

    /// Makes passes until `decide` returns a result. `decide` gets each pass, the observed objects, and whether no action runs.
    pub(crate) async fn run<T>(
        &mut self,
        deadline: Option<Timestamp>,
        mut decide: impl FnMut(ReconcileResult, &Store, bool) -> Result<Next<T>, Failure>,
    ) -> Result<T, Failure> {
        let clock = Clock::system();
        let mut running = FuturesUnordered::new();
        loop {
            let pass = self.reconcile();
            let (relist, wake_at) = (pass.relist, pass.wake_at);
            match decide(pass, &self.observer.store, running.is_empty())? {
                Next::Done(result) => return Ok(result),
                Next::Execute(steps) => {
                    for step in steps {
                        let name = find_name(&step.subject, &self.observer.store);
                        output::print_note(&format!("{} {name} ({})", step.action.verb(), step.cause));
                        let started = self.intend(&step)?;
                        running.push(execute_started(self.docker.clone(), step, started));
                    }
                }
            }
            if relist {
                self.docker.request_relist();
            }
            let wake_at = wake_at.into_iter().chain(deadline).min();
            tokio::select! {
                Some((step, outcome, started)) = running.next() => {
                    if let (Some(journal), Some(started)) = (&mut self.journal, started) {
                        journal.record_outcome(started, &step, &outcome);
                    }
                    if let Err(error) = &outcome {
                        let name = find_name(&step.subject, &self.observer.store);
                        output::print_note(&format!("{} {name}: {error}", step.action.verb()));
                    }
                    self.planner.finished(&step, &outcome, &self.observer.store, clock.now());
                }
                observed = self.observer.next_event() => observed?,
                () = clock.sleep_until(wake_at) => {}
            }
        }
    }

    /// Records an action that is about to run.
    fn intend(&mut self, step: &Step) -> Result<Option<StartedStep>, Failure> {
        let Some(journal) = &mut self.journal else {
            return Ok(None);
        };
        let started = journal.intend(step, &correlation::current().id);
        started
            .map(Some)
            .map_err(|error| unwritable_failure(journal, &error))
    }

    /// Makes one pass.
    pub(crate) fn reconcile(&mut self) -> ReconcileResult {
        self.planner.reconcile(&Inputs {
            requests: &self.requests,
            leases: &self.leases,
            specs: &self.specs,
            preflight: None,
            scanned: true,
            store: &self.observer.store,
            health: &BTreeMap::new(),
            now: clock::now(),
        })
    }
}

/// Failure of a command that cannot record its changes, and therefore makes none.
pub(crate) fn unwritable_failure(journal: &CommandJournal, error: &ActionError) -> Failure {
    Failure::new(unwritable(
        &journal.path().display().to_string(),
        &error.to_string(),
    ))
}

async fn execute_started(
    docker: Docker,
    step: Step,
    started: Option<StartedStep>,
) -> (Step, Result<Done, ActionError>, Option<StartedStep>) {
    let (step, outcome) = execute_step(docker, step).await;
    (step, outcome, started)
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
