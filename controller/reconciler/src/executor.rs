//! Executor: runs the actions of the planner, each with a permit and a deadline, and reports every result.
//!
//! [`Executor::submit`] starts an action and [`Executor::next_result`] returns the next result. An action that
//! changes the engine starts only after its intent is on disk in the [`Journal`]. A call without
//! an answer ends at its deadline with an unknown outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use argus_backend::{Backend, PROGRESS_TIMEOUT};
use argus_core::action::{Action, Deadlines, Step, Subject};
use argus_core::connectivity::{LinkSource, Target, describe_results};
use argus_core::failed_run::FailedRun;
use argus_core::ident::EnvName;
use argus_core::outcome::{ActionError, Diagnosis, Done};
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::breaker_guard::BreakerGuard;
use crate::clock::Clock;
use crate::journal::Journal;
use crate::overrides::DesiredState;
use crate::state_dir::{StateDir, write_private};
use crate::supervise::task_set::{TaskFailure, TaskSet};

pub mod evidence_store;
mod host_files;
pub mod limits;
pub mod progress;

use evidence_store::EvidenceStore;
use limits::{CallClass, ConcurrencyLimits};
use progress::ProgressReporter;
pub use progress::{ProgressMap, ProgressReader};

/// Maximum number of diagnoses at a time. They wait for one helper, which the connectivity checks share.
const MAX_DIAGNOSES: usize = 4;

/// A completed action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The planned step.
    pub step: Step,
    /// Result of the engine call.
    pub outcome: Result<Done, ActionError>,
    /// Time from submission to result, with the wait for a permit.
    pub took: Duration,
    /// Time that the engine needed for its answer; `None` without an answer.
    pub answered_in: Option<Duration>,
}

/// Actions in flight on one engine.
pub struct Executor<B> {
    backend: Arc<BreakerGuard<B>>,
    deadlines: Deadlines,
    limits: ConcurrencyLimits,
    progress: watch::Sender<ProgressMap>,
    state_dir: StateDir,
    evidence: EvidenceStore,
    redactor: Redactor,
    journal: Journal,
    clock: Clock,
    tasks: TaskSet<InFlight, Result<Done, ActionError>>,
    /// Checks by helpers after the collection of evidence. The next action of the service does not wait for them.
    diagnoses: TaskSet<(Step, Timestamp), Diagnosis>,
}

/// An action in flight.
struct InFlight {
    step: Step,
    started: Timestamp,
    answered_in: Arc<OnceLock<Duration>>,
    cancellation: CancellationToken,
}

impl<B: Backend> Executor<B> {
    /// Creates an executor without actions.
    pub fn new(
        backend: Arc<BreakerGuard<B>>,
        deadlines: Deadlines,
        state_dir: StateDir,
        journal: Journal,
        clock: Clock,
    ) -> Self {
        let (progress, _) = watch::channel(ProgressMap::new());
        Self {
            backend,
            deadlines,
            limits: ConcurrencyLimits::new(journal.metrics().clone()),
            progress,
            evidence: EvidenceStore::new(state_dir.clone(), clock),
            redactor: Redactor::default(),
            state_dir,
            journal,
            clock,
            tasks: TaskSet::default(),
            diagnoses: TaskSet::default(),
        }
    }

    /// Reader of the progress of pulls and builds.
    pub fn progress(&self) -> ProgressReader {
        ProgressReader::new(self.progress.subscribe(), self.clock)
    }

    /// Updates the secrets that log lines must not contain.
    pub fn update_secrets(&mut self, desired: &DesiredState) {
        self.redactor.update_secrets(desired);
    }

    /// Starts an action that was planned for this environment; [`Executor::next_result`] returns its result. `id` identifies the action in
    /// the journal.
    pub fn submit(&mut self, env: &EnvName, id: String, step: Step) {
        let verb = step.action.verb();
        let secrets = self.redactor.of(&step.subject);
        let recorded_step = step.redacted(&secrets);
        let subject = recorded_step.subject.to_string();
        let span = tracing::info_span!("action", action = verb, subject, cause = %step.cause);
        let (backend, limits) = (self.backend.clone(), self.limits.clone());
        let reporter = ProgressReporter::new(step.subject.clone(), self.progress.clone());
        let deadline = self.deadlines.of(&step.action);
        let image = recorded_step.action.image();
        let log = image.map(|reference| self.state_dir.build_log(reference));
        let action = step.action.clone();
        let planned = self.backend.planned_openings(env);
        let evidence = self.evidence.clone();
        let journal = self.journal.clone();
        let cancellation = CancellationToken::new();
        let cancelled = cancellation.clone().cancelled_owned();
        let (answered_in, clock) = (Arc::<OnceLock<Duration>>::default(), self.clock);
        let answer = answered_in.clone();
        let job = async move {
            let started = match CallClass::of(&action) {
                // A read needs no intent.
                CallClass::Read => None,
                // Before the permit, so that the intents of waiting actions are written in one batch.
                CallClass::Mutation | CallClass::LongRunning | CallClass::Stopping => {
                    Some(journal.intend(&recorded_step, &id).await?)
                }
            };
            let call = async {
                let _permit = limits.acquire(CallClass::of(&action)).await;
                journal.check_writable()?;
                // On the heap only now: hundreds of actions can wait for a permit, and the future of a call takes kilobytes.
                let called = clock.now();
                let outcome = Box::pin(backend.execute_planned(&planned, deadline, &action, &reporter)).await;
                answer.get_or_init(|| clock.now().since(called));
                outcome
            };
            let outcome = tokio::select! {
                outcome = call => outcome,
                () = cancelled => Err(ActionError::Cancelled),
            };
            let end = async {
                let outcome = match outcome {
                    Ok(Done::Evidence(collected)) => {
                        let collected = host_files::add(&recorded_step, collected).await;
                        Ok(Done::Evidence(
                            evidence.store(&recorded_step, collected, &secrets).await,
                        ))
                    }
                    Err(error) => {
                        evidence.note_missing(&recorded_step, &error, &secrets).await;
                        Err(error)
                    }
                    Ok(done) => {
                        evidence.record_stop(&recorded_step).await;
                        Ok(done)
                    }
                };
                if let Some(path) = log {
                    write_log(path, reporter.log(), outcome.as_ref().err(), &secrets).await;
                }
                if let Some(started) = started {
                    started.record_outcome(&outcome);
                }
                outcome
            };
            Box::pin(end).await
        };
        let in_flight = InFlight {
            step,
            started: self.clock.now(),
            answered_in,
            cancellation,
        };
        self.tasks.start(in_flight, job.instrument(span));
    }

    /// Returns the next result; waits forever while no action is in flight. The future is cancel-safe.
    ///
    /// The results of a diagnosis follow those of the collection of evidence, as a second result of the same step.
    pub async fn next_result(&mut self) -> Finished {
        tokio::select! {
            biased;
            (in_flight, result) = self.tasks.next_ended() => self.finish(in_flight, result),
            ((step, started), diagnosis) = self.diagnoses.next_ended() => Finished {
                outcome: Ok(Done::Diagnosis(Box::new(diagnosis.unwrap_or_default()))),
                took: self.clock.now().since(started),
                answered_in: None,
                step,
            },
        }
    }

    fn finish(
        &mut self,
        InFlight {
            step,
            started,
            answered_in,
            ..
        }: InFlight,
        result: Result<Result<Done, ActionError>, TaskFailure>,
    ) -> Finished {
        let outcome = result.unwrap_or_else(|failure| {
            Err(ActionError::Unknown(match failure {
                TaskFailure::Panicked(message) => format!("{} panicked: {message}", step.action.verb()),
                TaskFailure::Aborted => format!("{} was abandoned", step.action.verb()),
            }))
        });
        let took = self.clock.now().since(started);
        report(&step, &outcome, took, &self.redactor);
        if outcome.is_ok() {
            self.diagnose(&step);
        }
        let answered_in = answered_in.get().copied();
        Finished {
            step,
            outcome,
            took,
            answered_in,
        }
    }

    /// Starts the check of the network of a failed run, whose evidence is stored.
    fn diagnose(&mut self, step: &Step) {
        let Action::CollectEvidence { run, targets, .. } = &step.action else {
            return;
        };
        if targets.is_empty() {
            return;
        }
        let (backend, store) = (self.backend.clone(), self.evidence.clone());
        let (run, targets) = (run.clone(), targets.clone());
        let (owned_step, secrets) = (step.clone(), self.redactor.of(&step.subject));
        let label = (step.clone(), self.clock.now());
        let is_refused = self.diagnoses.len() >= MAX_DIAGNOSES;
        self.diagnoses.start(label, async move {
            let found = if is_refused {
                missing_diagnosis(&format!("{MAX_DIAGNOSES} other checks are running"))
            } else {
                check_network(&*backend, &run, &targets).await
            };
            store.attach(&owned_step, found, &secrets).await
        });
    }

    /// Cancels pulls and builds at a stop: they can be repeated, and the stop does not wait for them.
    pub fn cancel_long_running(&self) {
        self.cancel(|step| CallClass::of(&step.action) == CallClass::LongRunning);
    }

    /// Cancels the pulls and builds of these images.
    pub fn cancel_images(&self, keys: &BTreeSet<String>) {
        self.cancel(|step| step.subject.image_key().is_some_and(|key| keys.contains(key)));
    }

    /// Cancels actions. Each one ends with [`ActionError::Cancelled`] and keeps its log.
    fn cancel(&self, is_cancelled: impl Fn(&Step) -> bool) {
        let cancelled = self.tasks.labels().filter(|action| is_cancelled(&action.step));
        cancelled.for_each(|action| action.cancellation.cancel());
    }

    /// Number of actions in flight.
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }
}

fn report(step: &Step, outcome: &Result<Done, ActionError>, took: Duration, redactor: &Redactor) {
    let secrets = redactor.of(&step.subject);
    let (action, cause) = (step.action.verb(), &step.cause);
    let subject = secrets.redacted(&step.subject.to_string());
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(_) => tracing::info!(action, subject, %cause, ms, result = "done", "action"),
        Err(error) => {
            let error = secrets.redacted(&error.to_string());
            tracing::warn!(action, subject, %cause, ms, result = "failed", error, "action");
        }
    }
}

async fn write_log(
    path: std::path::PathBuf,
    mut log: String,
    error: Option<&ActionError>,
    secrets: &Secrets,
) {
    if let Some(error) = error {
        log.push_str(&error.to_string());
        log.push('\n');
    }
    let log = secrets.redacted(&log);
    let written = tokio::task::spawn_blocking(move || write_private(&path, log.as_bytes())).await;
    if let Ok(Err(error)) = written {
        tracing::warn!(%error, "cannot write the log of a pull or build");
    }
}

/// Secrets of every environment that was ever desired, which the log of an action may contain. Running containers may belong to an
/// earlier revision.
#[derive(Debug, Default)]
struct Redactor(BTreeMap<EnvName, Secrets>);

impl Redactor {
    fn update_secrets(&mut self, desired: &DesiredState) {
        for (env, accepted) in desired {
            let known = self.0.entry(env.clone()).or_default();
            known.join(&accepted.desired.secret_values());
        }
    }

    /// Secrets of the subject's environment. For a subject without an environment: the secrets of all environments.
    fn of(&self, subject: &Subject) -> Secrets {
        if let Some(environment) = subject.environment() {
            return self.0.get(environment).cloned().unwrap_or_default();
        }
        let mut all = Secrets::default();
        self.0.values().for_each(|known| all.join(known));
        all
    }
}

/// Resolves the names of the targets and connects to them, by a helper in the network of a failed run. Without results, the diagnosis
/// contains the reason.
async fn check_network<B: Backend>(backend: &B, failed_run: &FailedRun, targets: &[Target]) -> Diagnosis {
    let id = &failed_run.container;
    let source = LinkSource::Container(id.clone());
    // The first check on an engine builds the helper image.
    let checked = tokio::time::timeout(PROGRESS_TIMEOUT, backend.check_links(&source, targets)).await;
    let late = || ActionError::TimedOut(format!("no answer within {} s", PROGRESS_TIMEOUT.as_secs()));
    let checked = checked.unwrap_or_else(|_| Err(late()));
    // The network of a container is gone with its run, and the results then say nothing about it.
    if let Ok(false) = backend.is_run_intact(id, failed_run.started_at).await {
        return missing_diagnosis("the run ended, or its network changed, before they were complete");
    }
    match checked {
        Ok(results) => Diagnosis {
            results: describe_results(targets, &results),
            missing: None,
        },
        Err(error) => missing_diagnosis(&error.to_string()),
    }
}

/// Diagnosis without results.
fn missing_diagnosis(why: &str) -> Diagnosis {
    Diagnosis {
        missing: Some(format!("network checks by a helper: {why}")),
        ..Diagnosis::default()
    }
}

#[cfg(test)]
#[path = "executor/tests.rs"]
mod tests;
