//! What the memory learns from acting.

use crate::ident::{ContainerId, EnvName};
use crate::memory::expectation::{EFFECT_WITHIN, RELIST_WITHIN};
use crate::memory::{Expectation, ImageMemory, InFlight, Memory, Proof, Refused};
use crate::observed::{Observed, World};
use crate::outcome::{ActError, Done, Evidence};
use crate::plan::{Act, Asked, Cause, Deadlines, Failure, Step, Subject};
use crate::time::Timestamp;

/// So often evidence is asked for where the engine does not answer.
const EVIDENCE_TRIES: u32 = 3;

impl Memory {
    /// A step was handed out, decided on what was seen then.
    pub fn began(&mut self, env: &EnvName, step: &Step, observed: &Observed, now: Timestamp) {
        self.circuits.called(env, &step.subject);
        if let (Act::StartContainer { .. }, Cause::Restart { .. }) = (&step.act, &step.because) {
            self.restarts.push(now);
        }
        let flying = InFlight {
            environment: env.clone(),
            verb: step.act.verb(),
            since: now,
            run_before: self.run_before(step, observed),
        };
        self.in_flight.insert(step.subject.clone(), flying);
        if let Act::StopContainer { id, .. } | Act::RemoveContainer { id, .. } = &step.act {
            let facts = observed.containers.get(id).and_then(|seen| seen.facts.as_ref());
            let started_at = facts.and_then(|facts| facts.started_at);
            self.stopped_by_us.insert(id.clone(), started_at);
        }
    }

    /// A step came back.
    pub fn fold(
        &mut self,
        step: &Step,
        outcome: &Result<Done, ActError>,
        deadlines: &Deadlines,
        world: &World,
        now: Timestamp,
    ) {
        let flew = self.in_flight.remove(&step.subject);
        if let Some(flew) = &flew {
            self.circuits
                .heard(&flew.environment, &step.subject, outcome, now);
        }
        match outcome {
            Ok(done) => {
                let run_before = flew.and_then(|flew| flew.run_before);
                self.succeeded(step, done, run_before, world, now);
            }
            Err(error) => self.failed(step, error, deadlines, world, now),
        }
    }

    fn succeeded(
        &mut self,
        step: &Step,
        done: &Done,
        run_before: Option<Timestamp>,
        world: &World,
        now: Timestamp,
    ) {
        self.failures.remove(&step.subject);
        if writes(&step.act) {
            self.disk_full = None;
        }
        if let Some(proof) = Proof::of(&step.act, done, run_before)
            && !proof.is_seen(world)
        {
            let expectation = Expectation {
                verb: step.act.verb(),
                proof,
                until: now + EFFECT_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        match (&step.act, &step.subject) {
            // What was stopped is seen as it ended for a moment more, and that end is still our doing. A run of which the start
            // is not known cannot be told from the new one.
            (Act::StartContainer { id }, _) if self.stopped_by_us.get(id) == Some(&None) => {
                self.stopped_by_us.remove(id);
            }
            (Act::KeepEvidence { number, .. }, subject) => {
                let nothing = Evidence::default();
                let evidence = match done {
                    Done::Evidence(evidence) => evidence,
                    Done::Ok | Done::Container(_) | Done::Network(_) => &nothing,
                };
                self.keep(subject, *number, evidence);
            }
            (Act::PlaceFile { id, file }, Subject::Service { environment, service }) => {
                let kept = self.environments.entry(environment.clone()).or_default();
                let kept = kept.services.entry(service.clone()).or_default();
                kept.placed = Some((id.clone(), file.digest()));
            }
            (Act::PullImage { .. } | Act::BuildImage(_), Subject::Image { key }) => {
                self.images.insert(key.clone(), ImageMemory::Present);
            }
            (Act::CreateVolume { name, .. }, Subject::Volume { environment, .. }) => {
                self.volumes.insert((environment.clone(), name.clone()));
            }
            (Act::RemoveVolume { name }, Subject::Volume { environment, .. }) => {
                self.volumes.remove(&(environment.clone(), name.clone()));
            }
            _ => {}
        }
    }

    /// The newest run of what is to be started, as far as it is known: seen, or ended already.
    fn run_before(&self, step: &Step, observed: &Observed) -> Option<Timestamp> {
        let (Subject::Service { environment, service }, Act::StartContainer { id }) =
            (&step.subject, &step.act)
        else {
            return None;
        };
        let kept = self
            .environments
            .get(environment)
            .and_then(|kept| kept.services.get(service));
        let deaths = kept.map(|kept| kept.deaths.as_slice()).unwrap_or_default();
        let ended = deaths
            .iter()
            .filter(|death| death.container == *id)
            .filter_map(|death| death.started_at)
            .max();
        let facts = observed
            .containers
            .get(id)
            .and_then(|container| container.facts.as_ref());
        ended.max(facts.and_then(|facts| facts.started_at))
    }

    /// Only the newest evidence is kept whole; of the others their last words, which tell whether they are the same.
    fn keep(&mut self, subject: &Subject, number: u64, evidence: &Evidence) {
        let Subject::Service { environment, service } = subject else {
            return;
        };
        let kept = self
            .environments
            .get_mut(environment)
            .and_then(|kept| kept.services.get_mut(service));
        let Some(kept) = kept else { return };
        for death in &mut kept.deaths {
            if death.number == number {
                death.evidence = Some(evidence.clone());
            } else if let Some(older) = &mut death.evidence {
                older.stdout.clear();
                let all_but_last = older.stderr.len().saturating_sub(1);
                older.stderr.drain(..all_but_last);
            }
        }
    }

    fn failed(
        &mut self,
        step: &Step,
        error: &ActError,
        deadlines: &Deadlines,
        world: &World,
        now: Timestamp,
    ) {
        if *error == ActError::CircuitOpen {
            // It was never begun.
            self.never_began(step);
            return;
        }
        if let Act::KeepEvidence { number, .. } = &step.act {
            let tried = self.failures.get(&step.subject);
            let tried = tried.filter(|failure| failure.verb == step.act.verb());
            if leaves(error) == Leaves::InDoubt
                && tried.map_or(1, |failure| failure.attempts + 1) < EVIDENCE_TRIES
            {
                if tried.is_none() {
                    self.failures.remove(&step.subject);
                }
                self.note_failure(&step.subject, step, error.clone(), deadlines, now);
                return;
            }
            // What cannot be had must not hold the restart up.
            self.failures.remove(&step.subject);
            let evidence = Evidence {
                missing: vec![error.to_string()],
                ..Evidence::default()
            };
            self.keep(&step.subject, *number, &evidence);
            return;
        }
        if let (ActError::ImageMissing, Act::CreateContainer { spec, .. }) = (error, &step.act) {
            let key = crate::plan::image::key_of(&spec.image, &spec.build);
            if self.images.insert(key.clone(), ImageMemory::Missing) == Some(ImageMemory::Present) {
                // It was pulled or built a moment ago: doing so again at once would go on for ever.
                let error = ActError::PullFailed("it is not there although it was just made".to_owned());
                self.note_failure(&Subject::Image { key }, step, error, deadlines, now);
            }
            return;
        }
        if let Act::StopContainer { id, .. } | Act::RemoveContainer { id, .. } = &step.act
            && !error.is_outcome_unknown()
        {
            self.stopped_by_us.remove(id);
        }
        if matches!(error, ActError::JournalUnwritable(_)) {
            // Nothing was sent: the mode says when it is tried again.
            return;
        }
        if let ActError::PortTaken(refusal) = error {
            let times = self.refused.get(&refusal.port).map_or(0, |refused| refused.times) + 1;
            self.refused.insert(
                refusal.port,
                Refused {
                    at: now,
                    refusal: (**refusal).clone(),
                    times,
                },
            );
        }
        if let ActError::DiskFull(_) = error {
            self.disk_full = Some(now);
        }
        if let (Act::PullImage { .. }, Subject::Image { key }) = (&step.act, &step.subject) {
            // The next try begins with a create again: somebody may have loaded the image meanwhile.
            self.images.remove(key);
        }
        if leaves(error) != Leaves::AsItWas {
            let expectation = Expectation {
                verb: step.act.verb(),
                proof: Proof::Relisted(world.lists_begun()),
                until: now + RELIST_WITHIN,
            };
            self.expectations.insert(step.subject.clone(), expectation);
        }
        if let (ActError::NotOurs(_), Some(id)) = (error, container_of(&step.act)) {
            // Nothing failed: there was nothing of ours to act on.
            self.not_ours.insert(id.clone());
            return;
        }
        self.note_failure(&step.subject, step, error.clone(), deadlines, now);
    }

    /// What was counted when it was handed out is taken back.
    fn never_began(&mut self, step: &Step) {
        if let Act::StopContainer { id, .. } | Act::RemoveContainer { id, .. } = &step.act {
            self.stopped_by_us.remove(id);
        }
        if let (Act::StartContainer { .. }, Cause::Restart { .. }) = (&step.act, &step.because) {
            self.restarts.pop();
        }
    }

    fn note_failure(
        &mut self,
        subject: &Subject,
        step: &Step,
        error: ActError,
        deadlines: &Deadlines,
        now: Timestamp,
    ) {
        let known = self.failures.get(subject);
        let failure = Failure {
            verb: step.act.verb().to_owned(),
            error,
            at: now,
            attempts: known.map_or(0, |failure| failure.attempts) + 1,
            asked: Box::new(Asked {
                arguments: step.act.arguments(),
                deadline: deadlines.of(&step.act),
            }),
        };
        self.failures.insert(subject.clone(), failure);
    }
}

fn container_of(act: &Act) -> Option<&ContainerId> {
    match act {
        Act::StartContainer { id }
        | Act::StopContainer { id, .. }
        | Act::UnpauseContainer { id }
        | Act::RenameContainer { id, .. }
        | Act::RemoveContainer { id, .. }
        | Act::KeepEvidence { id, .. }
        | Act::PlaceFile { id, .. }
        | Act::ConnectNetwork { container: id, .. } => Some(id),
        Act::CreateNetwork { .. }
        | Act::RemoveNetwork { .. }
        | Act::CreateVolume { .. }
        | Act::RemoveVolume { .. }
        | Act::PullImage { .. }
        | Act::BuildImage(_)
        | Act::CreateContainer { .. }
        | Act::DisconnectNetwork { .. } => None,
    }
}

/// It cannot succeed on a full disk.
fn writes(act: &Act) -> bool {
    match act {
        Act::PullImage { .. }
        | Act::BuildImage(_)
        | Act::CreateContainer { .. }
        | Act::PlaceFile { .. }
        | Act::StartContainer { .. } => true,
        Act::CreateNetwork { .. }
        | Act::RemoveNetwork { .. }
        | Act::CreateVolume { .. }
        | Act::RemoveVolume { .. }
        | Act::StopContainer { .. }
        | Act::UnpauseContainer { .. }
        | Act::RenameContainer { .. }
        | Act::RemoveContainer { .. }
        | Act::KeepEvidence { .. }
        | Act::ConnectNetwork { .. }
        | Act::DisconnectNetwork { .. } => false,
    }
}

/// What a failed call says of what was seen before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// It may be right or not, and the same call may have an answer a moment later.
    InDoubt,
    /// It cannot be right: only a full list tells.
    Refuted,
    /// It stands as it was.
    AsItWas,
}

fn leaves(error: &ActError) -> Leaves {
    match error {
        ActError::Unknown(_)
        | ActError::TimedOut(_)
        | ActError::ConnectionLost(_)
        | ActError::Unreachable(_)
        | ActError::Engine(_)
        | ActError::Busy(_) => Leaves::InDoubt,
        ActError::Gone | ActError::NetworkGone(_) | ActError::NetworkInUse(_) | ActError::NotOurs(_) => {
            Leaves::Refuted
        }
        ActError::CircuitOpen
        | ActError::JournalUnwritable(_)
        | ActError::NameTaken { .. }
        | ActError::PortTaken(_)
        | ActError::ImageMissing
        | ActError::ImageNotFound(_)
        | ActError::AuthRequired(_)
        | ActError::RateLimited { .. }
        | ActError::PullFailed(_)
        | ActError::BuildFailed { .. }
        | ActError::EntrypointNotFound(_)
        | ActError::BadMount(_)
        | ActError::StartFailed(_)
        | ActError::PoolExhausted(_)
        | ActError::DiskFull(_)
        | ActError::Rejected(_) => Leaves::AsItWas,
    }
}
