//! Folds submitted and finished actions into the planner state.

use std::sync::Arc;

use crate::action::{Action, ActionFailure, CallArgs, Deadlines, ObservedStateAfterFailure, Step, Subject};
use crate::correlation;
use crate::desired::InjectedFile;
use crate::effect::ObservableEffect;
use crate::failed_run::REPORTED_LINES;
use crate::ident::{EnvName, ServiceName};
use crate::observed::{Observed, Store};
use crate::outcome::{ActionError, Diagnosis, Done, Evidence};
use crate::state::expectation::{EFFECT_WITHIN, RELIST_WITHIN};
use crate::state::{Expectation, ImageState, InFlight, PlannerState, Proof, RefusedPort, ServiceHistory};
use crate::time::Timestamp;

/// Attempts to collect evidence while the engine does not answer.
const EVIDENCE_TRIES: u32 = 3;

impl PlannerState {
    /// Records a submitted step; `observed` is the state that it was planned from.
    pub fn on_started(&mut self, env: &EnvName, step: &Step, observed: &Observed, now: Timestamp) {
        self.breakers.on_call(env, &step.subject);
        if step.is_repeated_restart() {
            self.restarts.push(now);
        }
        let id = correlation::action_id(step, now);
        if let Subject::Service { environment, service } = &step.subject
            && correlation::begins_run(&step.action)
        {
            let history = self.service_history_mut(environment, service);
            history.last_start = Some(id.clone());
        }
        let call = InFlight {
            environment: env.clone(),
            id,
            verb: step.action.kind(),
            since: now,
            run_before: self.run_before(step, observed),
        };
        self.in_flight.insert(step.subject.clone(), call);
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action {
            let info = observed.containers.get(id).and_then(|seen| seen.inspect.as_ref());
            let started_at = info.and_then(|info| info.started_at);
            self.stopped_by_us.insert(id.clone(), started_at);
        }
    }

    /// Records the result of a step.
    pub fn on_finished(
        &mut self,
        step: &Step,
        outcome: &Result<Done, ActionError>,
        deadlines: &Deadlines,
        store: &Store,
        now: Timestamp,
    ) {
        if let (Action::CollectEvidence { run, .. }, Ok(Done::Diagnosis(diagnosis))) = (&step.action, outcome)
        {
            // The action itself has ended before, and another one may be in flight.
            self.attach_diagnosis(&step.subject, run.number, diagnosis);
            return;
        }
        let call = self.in_flight.remove(&step.subject);
        if let Some(call) = &call {
            let kind = step.action.kind();
            self.breakers
                .on_result(&call.environment, &step.subject, kind, outcome, now);
        }
        self.record_external_network(step, outcome);
        match outcome {
            Ok(done) => {
                let run_before = call.and_then(|call| call.run_before);
                self.record_success(step, done, run_before, store, now);
            }
            Err(error) => {
                let id = call.map(|call| call.id).unwrap_or_default();
                self.record_error(step, &id, error, deadlines, store, now);
            }
        }
    }

    fn record_success(
        &mut self,
        step: &Step,
        done: &Done,
        run_before: Option<Timestamp>,
        store: &Store,
        now: Timestamp,
    ) {
        self.forget_refusal(step);
        if !self.is_replacement_of_refused(step) {
            self.action_failures.remove(&step.subject);
        }
        if step.action.needs_disk_space() {
            self.disk_full = None;
        }
        if let Some(proof) = ObservableEffect::of(&step.action, done, run_before).map(Proof::Effect)
            && !proof.is_seen(store)
        {
            let expectation = Expectation {
                verb: step.action.kind(),
                proof,
                until: now + EFFECT_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        match (&step.action, &step.subject) {
            // The watch may still report the end of the stopped run, which is not a failure. Without its start time, that run
            // cannot be distinguished from the new one.
            (Action::StartContainer { id }, _) if self.stopped_by_us.get(id) == Some(&None) => {
                self.stopped_by_us.remove(id);
            }
            (Action::CollectEvidence { run, .. }, subject) => {
                let nothing = Evidence::default();
                let evidence = match done {
                    Done::Evidence(evidence) => evidence,
                    Done::Applied | Done::Container(_) | Done::Network(_) | Done::Diagnosis(_) => &nothing,
                };
                self.store_evidence(subject, run.number, evidence);
                self.record_refusal_evidence(subject, run.number);
            }
            (Action::CopyFile { id, files }, Subject::Service { environment, service }) => {
                let history = self.service_history_mut(environment, service);
                history.copied_files = Some((id.clone(), InjectedFile::digest_of(files)));
            }
            (Action::PullImage { .. } | Action::BuildImage(_), Subject::Image { key }) => {
                self.images.insert(key.clone(), ImageState::Present);
            }
            (Action::CreateVolume { name, .. }, Subject::Volume { environment, .. }) => {
                self.volumes.insert((environment.clone(), name.clone()));
            }
            (Action::RemoveNetwork { .. }, Subject::ExtraNetwork { .. }) => {
                // Its address range is free now.
                for failure in self.action_failures.values_mut() {
                    failure.retry_from(now);
                }
            }
            (Action::RemoveVolume { name }, Subject::Volume { environment, .. }) => {
                self.volumes.remove(&(environment.clone(), name.clone()));
            }
            _ => {}
        }
    }

    /// Returns whether a network waits because no address range is free.
    pub(crate) fn is_pool_exhausted(&self) -> bool {
        let mut failures = self.action_failures.values();
        failures.any(|failure| matches!(failure.error, ActionError::PoolExhausted(_)))
    }

    /// Start of the newest known run of the container to start: observed, or already ended.
    fn run_before(&self, step: &Step, observed: &Observed) -> Option<Timestamp> {
        let (Subject::Service { environment, service }, Action::StartContainer { id }) =
            (&step.subject, &step.action)
        else {
            return None;
        };
        let history = self
            .environments
            .get(environment)
            .and_then(|history| history.services.get(service));
        let failures = history
            .map(|history| history.failures.as_slice())
            .unwrap_or_default();
        let ended = failures
            .iter()
            .filter(|failed_run| failed_run.container == *id)
            .filter_map(|failed_run| failed_run.started_at)
            .max();
        let info = observed
            .containers
            .get(id)
            .and_then(|container| container.inspect.as_ref());
        ended.max(info.and_then(|info| info.started_at))
    }

    /// History of a service for changes. It is empty for an unknown service.
    pub(super) fn service_history_mut(
        &mut self,
        environment: &EnvName,
        service: &ServiceName,
    ) -> &mut ServiceHistory {
        let history = self.environments.entry(environment.clone()).or_default();
        Arc::make_mut(history).service_mut(service)
    }

    /// History of a known service for changes.
    pub(super) fn known_service_mut(&mut self, subject: &Subject) -> Option<&mut ServiceHistory> {
        let Subject::Service { environment, service } = subject else {
            return None;
        };
        let history = self.environments.get_mut(environment).map(Arc::make_mut)?;
        history.services.get_mut(service).map(Arc::make_mut)
    }

    /// Stores the newest evidence completely. Older evidence keeps only the last lines of stderr, for errors and for the
    /// comparison of failures.
    fn store_evidence(&mut self, subject: &Subject, number: u64, evidence: &Evidence) {
        let Some(history) = self.known_service_mut(subject) else {
            return;
        };
        for failed_run in &mut history.failures {
            if failed_run.number == number {
                failed_run.evidence = Some(evidence.clone());
            } else if let Some(older) = &mut failed_run.evidence {
                older.stdout.clear();
                let surplus = older.stderr.len().saturating_sub(REPORTED_LINES);
                older.stderr.drain(..surplus);
            }
        }
    }

    fn attach_diagnosis(&mut self, subject: &Subject, number: u64, diagnosis: &Diagnosis) {
        let history = self.known_service_mut(subject);
        let mut failures = history.into_iter().flat_map(|history| &mut history.failures);
        let failed_run = failures.find(|failed_run| failed_run.number == number);
        if let Some(evidence) = failed_run.and_then(|failed_run| failed_run.evidence.as_mut()) {
            evidence.attach(diagnosis);
        }
    }

    fn record_error(
        &mut self,
        step: &Step,
        id: &str,
        error: &ActionError,
        deadlines: &Deadlines,
        store: &Store,
        now: Timestamp,
    ) {
        if matches!(error, ActionError::CircuitOpen | ActionError::Cancelled) {
            // The executor never started it, or the action was cancelled on purpose.
            self.undo_started(step);
            return;
        }
        if let Action::CollectEvidence { run, .. } = &step.action {
            let tried = self.action_failures.get(&step.subject);
            let tried = tried.filter(|failure| failure.verb == step.action.kind());
            if error.signs().observed == ObservedStateAfterFailure::Unknown
                && tried.map_or(1, |failure| failure.attempts + 1) < EVIDENCE_TRIES
            {
                if tried.is_none() {
                    self.action_failures.remove(&step.subject);
                }
                self.record_failure(&step.subject, step, id, error.clone(), deadlines, now);
                return;
            }
            // Evidence that cannot be collected must not delay the restart.
            if !self.is_replacement_of_refused(step) {
                self.action_failures.remove(&step.subject);
            }
            let evidence = Evidence {
                missing: vec![error.to_string()],
                ..Evidence::default()
            };
            self.store_evidence(&step.subject, run.number, &evidence);
            self.record_refusal_evidence(&step.subject, run.number);
            return;
        }
        if let (ActionError::ImageMissing, Action::CreateContainer { spec, .. }) = (error, &step.action) {
            let key = spec.image_key();
            if self.images.insert(key.clone(), ImageState::Missing) == Some(ImageState::Present) {
                // It was pulled or built a moment ago: an immediate repetition would never end.
                let error = ActionError::PullFailed(
                    "the image is missing although it was just pulled or built".to_owned(),
                );
                self.record_failure(&Subject::Image { key }, step, id, error, deadlines, now);
            }
            return;
        }
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action
            && !error.is_outcome_unknown()
        {
            self.stopped_by_us.remove(id);
        }
        if matches!(error, ActionError::JournalUnwritable(_)) {
            // The engine received no call: the mode decides about the next attempt.
            return;
        }
        if let ActionError::PortTaken(refusal) = error {
            let times = self.refused.get(&refusal.port).map_or(0, |refused| refused.times) + 1;
            self.refused.insert(
                refusal.port,
                RefusedPort {
                    at: now,
                    refusal: (**refusal).clone(),
                    times,
                },
            );
        }
        if let ActionError::DiskFull(_) = error {
            self.disk_full = Some(now);
        }
        if let (Action::PullImage { .. }, Subject::Image { key }) = (&step.action, &step.subject) {
            // The next attempt begins with a create, because the image may have been loaded externally.
            self.images.remove(key);
        }
        if error.signs().observed != ObservedStateAfterFailure::Unchanged {
            let expectation = Expectation {
                verb: step.action.kind(),
                proof: Proof::Relisted(store.lists_started()),
                until: now + RELIST_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        if let (ActionError::NotOwned(_), Some(id)) = (error, step.action.container()) {
            // This is not a failure: the container is not ours.
            self.not_owned.insert(id.clone());
            return;
        }
        self.record_refusal(step, error);
        self.record_failure(&step.subject, step, id, error.clone(), deadlines, now);
    }

    /// Reverts the bookkeeping of a submitted step.
    fn undo_started(&mut self, step: &Step) {
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action {
            self.stopped_by_us.remove(id);
        }
        if step.is_repeated_restart() {
            self.restarts.pop();
        }
    }

    fn record_failure(
        &mut self,
        subject: &Subject,
        step: &Step,
        id: &str,
        error: ActionError,
        deadlines: &Deadlines,
        now: Timestamp,
    ) {
        let known = self.action_failures.get(subject);
        let failure = ActionFailure {
            verb: step.action.kind(),
            error,
            at: now,
            attempts: known.map_or(0, |failure| failure.attempts) + 1,
            earlier: known.map(ActionFailure::failed_attempts).unwrap_or_default(),
            call: Box::new(CallArgs {
                id: id.to_owned(),
                arguments: step.action.arguments(),
                deadline: deadlines.of(&step.action),
                retries: self.retries,
                early_retry: None,
            }),
        };
        self.action_failures.insert(subject.clone(), failure);
    }

    /// Records that an external network exists. A later call that misses a network makes all of them unknown, and Argus checks them again.
    pub(super) fn record_external_network(&mut self, step: &Step, outcome: &Result<Done, ActionError>) {
        let Some(environment) = step.subject.environment() else {
            return;
        };
        match (&step.action, outcome) {
            (
                Action::CreateNetwork {
                    name, external: true, ..
                },
                Ok(_),
            ) => {
                self.external_networks.insert((environment.clone(), name.clone()));
            }
            (_, Err(ActionError::NetworkGone(_))) => {
                self.external_networks.retain(|(known, _)| known != environment);
            }
            _ => {}
        }
    }
}
