//! What the memory learns from acting.

use crate::ident::{ContainerId, EnvName};
use crate::observed::{Observed, Store};
use crate::outcome::{ActionError, Done, Evidence};
use crate::plan::{Action, ActionFailure, CallArgs, Cause, Deadlines, Step, Subject};
use crate::state::expectation::{EFFECT_WITHIN, RELIST_WITHIN};
use crate::state::{Expectation, ImageState, InFlight, PlannerState, Proof, RefusedPort};
use crate::time::Timestamp;

/// So often evidence is asked for where the engine does not answer.
const EVIDENCE_TRIES: u32 = 3;

impl PlannerState {
    /// A step was handed out, decided on what was seen then.
    pub fn on_started(&mut self, env: &EnvName, step: &Step, observed: &Observed, now: Timestamp) {
        self.breakers.on_call(env, &step.subject);
        if let (Action::StartContainer { .. }, Cause::Restart { .. }) = (&step.action, &step.cause) {
            self.restarts.push(now);
        }
        let flying = InFlight {
            environment: env.clone(),
            verb: step.action.verb(),
            since: now,
            run_before: self.run_before(step, observed),
        };
        self.in_flight.insert(step.subject.clone(), flying);
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action {
            let facts = observed.containers.get(id).and_then(|seen| seen.inspect.as_ref());
            let started_at = facts.and_then(|facts| facts.started_at);
            self.stopped_by_us.insert(id.clone(), started_at);
        }
    }

    /// A step came back.
    pub fn on_finished(
        &mut self,
        step: &Step,
        outcome: &Result<Done, ActionError>,
        deadlines: &Deadlines,
        store: &Store,
        now: Timestamp,
    ) {
        let flew = self.in_flight.remove(&step.subject);
        if let Some(flew) = &flew {
            self.breakers
                .on_result(&flew.environment, &step.subject, outcome, now);
        }
        match outcome {
            Ok(done) => {
                let run_before = flew.and_then(|flew| flew.run_before);
                self.succeeded(step, done, run_before, store, now);
            }
            Err(error) => self.failed(step, error, deadlines, store, now),
        }
    }

    fn succeeded(
        &mut self,
        step: &Step,
        done: &Done,
        run_before: Option<Timestamp>,
        store: &Store,
        now: Timestamp,
    ) {
        self.action_failures.remove(&step.subject);
        if writes(&step.action) {
            self.disk_full = None;
        }
        if let Some(proof) = Proof::of(&step.action, done, run_before)
            && !proof.is_seen(store)
        {
            let expectation = Expectation {
                verb: step.action.verb(),
                proof,
                until: now + EFFECT_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        match (&step.action, &step.subject) {
            // What was stopped is seen as it ended for a moment more, and that end is still our doing. A run of which the start
            // is not known cannot be told from the new one.
            (Action::StartContainer { id }, _) if self.stopped_by_us.get(id) == Some(&None) => {
                self.stopped_by_us.remove(id);
            }
            (Action::CollectEvidence { number, .. }, subject) => {
                let nothing = Evidence::default();
                let evidence = match done {
                    Done::Evidence(evidence) => evidence,
                    Done::Ok | Done::Container(_) | Done::Network(_) => &nothing,
                };
                self.store_evidence(subject, *number, evidence);
            }
            (Action::CopyFile { id, file }, Subject::Service { environment, service }) => {
                let kept = self.environments.entry(environment.clone()).or_default();
                let kept = kept.services.entry(service.clone()).or_default();
                kept.copied_files = Some((id.clone(), file.digest()));
            }
            (Action::PullImage { .. } | Action::BuildImage(_), Subject::Image { key }) => {
                self.images.insert(key.clone(), ImageState::Present);
            }
            (Action::CreateVolume { name, .. }, Subject::Volume { environment, .. }) => {
                self.volumes.insert((environment.clone(), name.clone()));
            }
            (Action::RemoveVolume { name }, Subject::Volume { environment, .. }) => {
                self.volumes.remove(&(environment.clone(), name.clone()));
            }
            _ => {}
        }
    }

    /// The newest run of what is to be started, as far as it is known: seen, or ended already.
    fn run_before(&self, step: &Step, observed: &Observed) -> Option<Timestamp> {
        let (Subject::Service { environment, service }, Action::StartContainer { id }) =
            (&step.subject, &step.action)
        else {
            return None;
        };
        let kept = self
            .environments
            .get(environment)
            .and_then(|kept| kept.services.get(service));
        let failures = kept.map(|kept| kept.failures.as_slice()).unwrap_or_default();
        let ended = failures
            .iter()
            .filter(|failed_run| failed_run.container == *id)
            .filter_map(|failed_run| failed_run.started_at)
            .max();
        let facts = observed
            .containers
            .get(id)
            .and_then(|container| container.inspect.as_ref());
        ended.max(facts.and_then(|facts| facts.started_at))
    }

    /// Only the newest evidence is kept whole; of the others their last words, which tell whether they are the same.
    fn store_evidence(&mut self, subject: &Subject, number: u64, evidence: &Evidence) {
        let Subject::Service { environment, service } = subject else {
            return;
        };
        let kept = self
            .environments
            .get_mut(environment)
            .and_then(|kept| kept.services.get_mut(service));
        let Some(kept) = kept else { return };
        for failed_run in &mut kept.failures {
            if failed_run.number == number {
                failed_run.evidence = Some(evidence.clone());
            } else if let Some(older) = &mut failed_run.evidence {
                older.stdout.clear();
                let all_but_last = older.stderr.len().saturating_sub(1);
                older.stderr.drain(..all_but_last);
            }
        }
    }

    fn failed(
        &mut self,
        step: &Step,
        error: &ActionError,
        deadlines: &Deadlines,
        store: &Store,
        now: Timestamp,
    ) {
        if *error == ActionError::CircuitOpen {
            // It was never begun.
            self.undo_started(step);
            return;
        }
        if let Action::CollectEvidence { number, .. } = &step.action {
            let tried = self.action_failures.get(&step.subject);
            let tried = tried.filter(|failure| failure.verb == step.action.verb());
            if leaves(error) == EffectAfterFailure::Unknown
                && tried.map_or(1, |failure| failure.attempts + 1) < EVIDENCE_TRIES
            {
                if tried.is_none() {
                    self.action_failures.remove(&step.subject);
                }
                self.record_failure(&step.subject, step, error.clone(), deadlines, now);
                return;
            }
            // What cannot be had must not hold the restart up.
            self.action_failures.remove(&step.subject);
            let evidence = Evidence {
                missing: vec![error.to_string()],
                ..Evidence::default()
            };
            self.store_evidence(&step.subject, *number, &evidence);
            return;
        }
        if let (ActionError::ImageMissing, Action::CreateContainer { spec, .. }) = (error, &step.action) {
            let key = crate::plan::image::key_of(&spec.image, &spec.build);
            if self.images.insert(key.clone(), ImageState::Missing) == Some(ImageState::Present) {
                // It was pulled or built a moment ago: doing so again at once would go on for ever.
                let error = ActionError::PullFailed("it is not there although it was just made".to_owned());
                self.record_failure(&Subject::Image { key }, step, error, deadlines, now);
            }
            return;
        }
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action
            && !error.is_outcome_unknown()
        {
            self.stopped_by_us.remove(id);
        }
        if matches!(error, ActionError::JournalUnwritable(_)) {
            // Nothing was sent: the mode says when it is tried again.
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
            // The next try begins with a create again: somebody may have loaded the image meanwhile.
            self.images.remove(key);
        }
        if leaves(error) != EffectAfterFailure::Unchanged {
            let expectation = Expectation {
                verb: step.action.verb(),
                proof: Proof::Relisted(store.lists_begun()),
                until: now + RELIST_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        if let (ActionError::NotOurs(_), Some(id)) = (error, container_of(&step.action)) {
            // Nothing failed: there was nothing of ours to act on.
            self.not_ours.insert(id.clone());
            return;
        }
        self.record_failure(&step.subject, step, error.clone(), deadlines, now);
    }

    /// What was counted when it was handed out is taken back.
    fn undo_started(&mut self, step: &Step) {
        if let Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } = &step.action {
            self.stopped_by_us.remove(id);
        }
        if let (Action::StartContainer { .. }, Cause::Restart { .. }) = (&step.action, &step.cause) {
            self.restarts.pop();
        }
    }

    fn record_failure(
        &mut self,
        subject: &Subject,
        step: &Step,
        error: ActionError,
        deadlines: &Deadlines,
        now: Timestamp,
    ) {
        let known = self.action_failures.get(subject);
        let failure = ActionFailure {
            verb: step.action.verb().to_owned(),
            error,
            at: now,
            attempts: known.map_or(0, |failure| failure.attempts) + 1,
            call: Box::new(CallArgs {
                arguments: step.action.arguments(),
                deadline: deadlines.of(&step.action),
            }),
        };
        self.action_failures.insert(subject.clone(), failure);
    }
}

fn container_of(act: &Action) -> Option<&ContainerId> {
    match act {
        Action::StartContainer { id }
        | Action::StopContainer { id, .. }
        | Action::UnpauseContainer { id }
        | Action::RenameContainer { id, .. }
        | Action::RemoveContainer { id, .. }
        | Action::CollectEvidence { id, .. }
        | Action::CopyFile { id, .. }
        | Action::ConnectNetwork { container: id, .. } => Some(id),
        Action::CreateNetwork { .. }
        | Action::RemoveNetwork { .. }
        | Action::CreateVolume { .. }
        | Action::RemoveVolume { .. }
        | Action::PullImage { .. }
        | Action::BuildImage(_)
        | Action::CreateContainer { .. }
        | Action::DisconnectNetwork { .. } => None,
    }
}

/// It cannot succeed on a full disk.
fn writes(act: &Action) -> bool {
    match act {
        Action::PullImage { .. }
        | Action::BuildImage(_)
        | Action::CreateContainer { .. }
        | Action::CopyFile { .. }
        | Action::StartContainer { .. } => true,
        Action::CreateNetwork { .. }
        | Action::RemoveNetwork { .. }
        | Action::CreateVolume { .. }
        | Action::RemoveVolume { .. }
        | Action::StopContainer { .. }
        | Action::UnpauseContainer { .. }
        | Action::RenameContainer { .. }
        | Action::RemoveContainer { .. }
        | Action::CollectEvidence { .. }
        | Action::ConnectNetwork { .. }
        | Action::DisconnectNetwork { .. } => false,
    }
}

/// What a failed call says of what was seen before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EffectAfterFailure {
    /// It may be right or not, and the same call may have an answer a moment later.
    Unknown,
    /// It cannot be right: only a full list tells.
    Absent,
    /// It stands as it was.
    Unchanged,
}

fn leaves(error: &ActionError) -> EffectAfterFailure {
    match error {
        ActionError::Unknown(_)
        | ActionError::TimedOut(_)
        | ActionError::ConnectionLost(_)
        | ActionError::Unreachable(_)
        | ActionError::Engine(_)
        | ActionError::Busy(_) => EffectAfterFailure::Unknown,
        // A container with a refused mount was removed.
        ActionError::Gone
        | ActionError::NetworkGone(_)
        | ActionError::NetworkInUse(_)
        | ActionError::NotOurs(_)
        | ActionError::MountRefused(_) => EffectAfterFailure::Absent,
        ActionError::CircuitOpen
        | ActionError::JournalUnwritable(_)
        | ActionError::NameTaken { .. }
        | ActionError::PortTaken(_)
        | ActionError::ImageMissing
        | ActionError::ImageNotFound(_)
        | ActionError::AuthRequired(_)
        | ActionError::RateLimited { .. }
        | ActionError::PullFailed(_)
        | ActionError::BuildFailed { .. }
        | ActionError::EntrypointNotFound(_)
        | ActionError::BadMount(_)
        | ActionError::StartFailed(_)
        | ActionError::PoolExhausted(_)
        | ActionError::DiskFull(_)
        | ActionError::Rejected(_) => EffectAfterFailure::Unchanged,
    }
}
