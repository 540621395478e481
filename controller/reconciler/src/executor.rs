//! The hands: carry out the acts they are given, each with a permit and a deadline, and report every end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::desired::Desired;
use argus_core::ident::EnvName;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::{Action, Deadlines, Step, Subject, image};
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tracing::Instrument;

use crate::breaker_guard::BreakerEpochs;
use crate::clock::Clock;
use crate::journal::Journal;
use crate::journal::handle::StartedAction;
use crate::overrides::DesiredState;
use crate::state_dir::{StateDir, write_private};
use crate::supervise::task_set::{TaskFailure, TaskSet};

pub mod deadline;
pub mod evidence_store;
pub mod limits;
pub mod progress;
mod redactor;

use evidence_store::EvidenceStore;
use limits::{CallClass, ConcurrencyLimits};
use progress::ProgressReporter;
pub use progress::{ProgressMap, ProgressReader};
use redactor::Redactor;

/// An act that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What was to be done.
    pub step: Step,
    /// What came of it.
    pub outcome: Result<Done, ActionError>,
    /// How long it took, the wait for a permit included.
    pub took: Duration,
}

/// Acts in flight on one engine.
pub struct Executor<B> {
    backend: Arc<B>,
    deadlines: Deadlines,
    limits: ConcurrencyLimits,
    epochs: watch::Receiver<BreakerEpochs>,
    progress: watch::Sender<ProgressMap>,
    state: StateDir,
    evidence: EvidenceStore,
    redactor: Redactor,
    journal: Journal,
    clock: Clock,
    tasks: TaskSet<(Step, Timestamp), Result<Done, ActionError>>,
}

impl<B: Backend> Executor<B> {
    /// Hands on this engine.
    pub fn new(
        backend: Arc<B>,
        epochs: watch::Receiver<BreakerEpochs>,
        deadlines: Deadlines,
        state: StateDir,
        journal: Journal,
        clock: Clock,
    ) -> Self {
        let (board, _) = watch::channel(ProgressMap::new());
        Self {
            backend,
            deadlines,
            limits: ConcurrencyLimits::new(journal.tally().clone()),
            epochs,
            progress: board,
            evidence: EvidenceStore::new(state.clone(), clock),
            redactor: Redactor::default(),
            state,
            journal,
            clock,
            tasks: TaskSet::default(),
        }
    }

    /// What pulls and builds say.
    pub fn progress(&self) -> ProgressReader {
        ProgressReader::new(self.progress.subscribe(), self.clock)
    }

    /// What is desired, for the secrets in it.
    pub fn update_secrets(&mut self, desires: &DesiredState) {
        self.redactor.update_secrets(desires);
    }

    /// Begins an act that was decided on for this environment; its end comes through [`Hands::finished`].
    pub fn submit(&mut self, env: &EnvName, step: Step) {
        let verb = step.action.verb();
        let secrets = self.redactor.of(&step.subject);
        let subject = secrets.redacted(&step.subject.to_string());
        let span = tracing::info_span!("act", act = verb, subject, cause = %step.cause);
        let (backend, gate) = (self.backend.clone(), self.limits.clone());
        let teller = ProgressReporter::new(step.subject.clone(), self.progress.clone());
        let deadline = self.deadlines.of(&step.action);
        let log = log_of(&step.action, &self.state);
        let act = step.action.clone();
        let (epochs, env) = (self.epochs.clone(), env.clone());
        let decided = epochs.borrow().epoch(&env);
        let (archive, step_kept) = (self.evidence.clone(), step.clone());
        let journal = self.journal.clone();
        let job = async move {
            let begun = match CallClass::of(&act) {
                // It changes nothing.
                CallClass::Read => None,
                // Before the permit: what waits for one is written down together.
                CallClass::Mutation | CallClass::LongRunning | CallClass::Stopping => {
                    Some(journal.intend(&step_kept).await?)
                }
            };
            let _permit = gate.acquire(CallClass::of(&act)).await;
            if epochs.borrow().epoch(&env) != decided {
                return ended(begun, Err(ActionError::CircuitOpen));
            }
            if let Err(error) = journal.check_writable() {
                return ended(begun, Err(error));
            }
            let outcome = deadline::within(deadline, verb, backend.execute(&act, &teller)).await;
            let outcome = match outcome {
                Ok(Done::Evidence(found)) => {
                    Ok(Done::Evidence(archive.store(&step_kept, found, &secrets).await))
                }
                Err(error) => {
                    archive.note_missing(&step_kept, &error, &secrets).await;
                    Err(error)
                }
                other => other,
            };
            if let Some(path) = log {
                keep_log(path, teller.log(), outcome.as_ref().err(), &secrets).await;
            }
            ended(begun, outcome)
        };
        self.tasks.start((step, self.clock.now()), job.instrument(span));
    }

    /// The next act that comes back; waits for ever while none is in flight. May be dropped and called again.
    pub async fn next_result(&mut self) -> Finished {
        let ((step, begun), end) = self.tasks.next_ended().await;
        let outcome = end.unwrap_or_else(|lost| {
            Err(ActionError::Unknown(match lost {
                TaskFailure::Panicked(message) => format!("{} panicked: {message}", step.action.verb()),
                TaskFailure::Aborted => format!("{} was abandoned", step.action.verb()),
            }))
        });
        let took = self.clock.now().since(begun);
        report(&step, &outcome, took, &self.redactor);
        Finished { step, outcome, took }
    }

    /// Abandons pulls and builds: they can be repeated, and nobody waits for them at a stop.
    pub fn abort_long_running(&self) {
        self.tasks
            .abort(|(step, _)| CallClass::of(&step.action) == CallClass::LongRunning);
    }

    /// Abandons the pulls and builds of what an environment runs.
    pub fn abort_images(&self, desired: &Desired) {
        let keys: BTreeSet<String> = desired
            .services
            .values()
            .map(|service| image::key(&service.image))
            .collect();
        self.tasks.abort(|(step, _)| match &step.subject {
            Subject::Image { key } => keys.contains(key),
            Subject::Service { .. }
            | Subject::Network { .. }
            | Subject::Volume { .. }
            | Subject::ExtraContainer { .. }
            | Subject::ExtraNetwork { .. } => false,
        });
    }

    /// How many acts are in flight.
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }
}

/// An act came back, and the journal is told.
fn ended(begun: Option<StartedAction>, outcome: Result<Done, ActionError>) -> Result<Done, ActionError> {
    if let Some(begun) = begun {
        begun.record_outcome(&outcome);
    }
    outcome
}

fn report(step: &Step, outcome: &Result<Done, ActionError>, took: Duration, redactor: &Redactor) {
    let secrets = redactor.of(&step.subject);
    let (act, cause) = (step.action.verb(), &step.cause);
    let subject = secrets.redacted(&step.subject.to_string());
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(_) => tracing::info!(act, subject, %cause, ms, result = "done", "act"),
        Err(error) => {
            let error = secrets.redacted(&error.to_string());
            tracing::warn!(act, subject, %cause, ms, result = "failed", error, "act");
        }
    }
}

fn log_of(act: &Action, state: &StateDir) -> Option<std::path::PathBuf> {
    match act {
        Action::PullImage { reference } => Some(state.build_log(reference)),
        Action::BuildImage(build) => Some(state.build_log(&build.tag)),
        Action::CreateNetwork { .. }
        | Action::RemoveNetwork { .. }
        | Action::CreateVolume { .. }
        | Action::RemoveVolume { .. }
        | Action::CreateContainer { .. }
        | Action::StartContainer { .. }
        | Action::StopContainer { .. }
        | Action::UnpauseContainer { .. }
        | Action::RenameContainer { .. }
        | Action::RemoveContainer { .. }
        | Action::CollectEvidence { .. }
        | Action::CopyFile { .. }
        | Action::ConnectNetwork { .. }
        | Action::DisconnectNetwork { .. } => None,
    }
}

async fn keep_log(path: std::path::PathBuf, mut log: String, error: Option<&ActionError>, secrets: &Secrets) {
    if let Some(error) = error {
        log.push_str(&error.to_string());
        log.push('\n');
    }
    let log = secrets.redacted(&log);
    let kept = tokio::task::spawn_blocking(move || write_private(&path, log.as_bytes())).await;
    if let Ok(Err(error)) = kept {
        tracing::warn!(%error, "cannot keep the log of a pull or build");
    }
}

#[cfg(test)]
#[path = "executor/tests.rs"]
mod tests;
