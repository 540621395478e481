//! The hands: carry out the acts they are given, each with a permit and a deadline, and report every end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::desired::Desired;
use argus_core::ident::EnvName;
use argus_core::outcome::{ActError, Done};
use argus_core::plan::{Act, Deadlines, Step, Subject, image};
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tracing::Instrument;

use crate::clock::Clock;
use crate::gated::Openings;
use crate::history::Journal;
use crate::history::journal::Begun;
use crate::state::{StateDir, write_private};
use crate::supervise::crew::{Crew, Lost};
use crate::wishes::Desires;

pub mod archive;
mod blackout;
pub mod deadline;
pub mod gate;
pub mod progress;

use archive::Archive;
use blackout::Blackout;
use gate::{Class, Gate};
use progress::Teller;
pub use progress::{Board, Reader};

/// An act that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What was to be done.
    pub step: Step,
    /// What came of it.
    pub outcome: Result<Done, ActError>,
    /// How long it took, the wait for a permit included.
    pub took: Duration,
}

/// Acts in flight on one engine.
pub struct Hands<B> {
    backend: Arc<B>,
    deadlines: Deadlines,
    gate: Gate,
    openings: watch::Receiver<Openings>,
    board: watch::Sender<Board>,
    state: StateDir,
    archive: Archive,
    blackout: Blackout,
    journal: Journal,
    clock: Clock,
    crew: Crew<(Step, Timestamp), Result<Done, ActError>>,
}

impl<B: Backend> Hands<B> {
    /// Hands on this engine.
    pub fn new(
        backend: Arc<B>,
        openings: watch::Receiver<Openings>,
        deadlines: Deadlines,
        state: StateDir,
        journal: Journal,
        clock: Clock,
    ) -> Self {
        let (board, _) = watch::channel(Board::new());
        Self {
            backend,
            deadlines,
            gate: Gate::new(journal.tally().clone()),
            openings,
            board,
            archive: Archive::new(state.clone(), clock),
            blackout: Blackout::default(),
            state,
            journal,
            clock,
            crew: Crew::default(),
        }
    }

    /// What pulls and builds say.
    pub fn board(&self) -> Reader {
        Reader::new(self.board.subscribe(), self.clock)
    }

    /// What is desired, for the secrets in it.
    pub fn learn(&mut self, desires: &Desires) {
        self.blackout.learn(desires);
    }

    /// Begins an act that was decided on for this environment; its end comes through [`Hands::finished`].
    pub fn begin(&mut self, env: &EnvName, step: Step) {
        let verb = step.act.verb();
        let secrets = self.blackout.of(&step.subject);
        let subject = secrets.redacted(&step.subject.to_string());
        let span = tracing::info_span!("act", act = verb, subject, cause = %step.because);
        let (backend, gate) = (self.backend.clone(), self.gate.clone());
        let teller = Teller::new(step.subject.clone(), self.board.clone());
        let deadline = self.deadlines.of(&step.act);
        let log = log_of(&step.act, &self.state);
        let act = step.act.clone();
        let (openings, env) = (self.openings.clone(), env.clone());
        let decided = openings.borrow().number(&env);
        let (archive, step_kept) = (self.archive.clone(), step.clone());
        let journal = self.journal.clone();
        let job = async move {
            let begun = match Class::of(&act) {
                // It changes nothing.
                Class::Look => None,
                // Before the permit: what waits for one is written down together.
                Class::Mutation | Class::Heavy | Class::Patient => Some(journal.intend(&step_kept).await?),
            };
            let _permit = gate.enter(Class::of(&act)).await;
            if openings.borrow().number(&env) != decided {
                return ended(begun, Err(ActError::CircuitOpen));
            }
            if let Err(error) = journal.may_act() {
                return ended(begun, Err(error));
            }
            let outcome = deadline::within(deadline, verb, backend.act(&act, &teller)).await;
            let outcome = match outcome {
                Ok(Done::Evidence(found)) => {
                    Ok(Done::Evidence(archive.keep(&step_kept, found, &secrets).await))
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
        self.crew.start((step, self.clock.now()), job.instrument(span));
    }

    /// The next act that comes back; waits for ever while none is in flight. May be dropped and called again.
    pub async fn finished(&mut self) -> Finished {
        let ((step, begun), end) = self.crew.ended().await;
        let outcome = end.unwrap_or_else(|lost| {
            Err(ActError::Unknown(match lost {
                Lost::Panicked(message) => format!("{} panicked: {message}", step.act.verb()),
                Lost::Abandoned => format!("{} was abandoned", step.act.verb()),
            }))
        });
        let took = self.clock.now().since(begun);
        report(&step, &outcome, took, &self.blackout);
        Finished { step, outcome, took }
    }

    /// Abandons pulls and builds: they can be repeated, and nobody waits for them at a stop.
    pub fn abandon_heavy(&self) {
        self.crew
            .abandon(|(step, _)| Class::of(&step.act) == Class::Heavy);
    }

    /// Abandons the pulls and builds of what an environment runs.
    pub fn abandon_images(&self, desired: &Desired) {
        let keys: BTreeSet<String> = desired
            .services
            .values()
            .map(|service| image::key(&service.image))
            .collect();
        self.crew.abandon(|(step, _)| match &step.subject {
            Subject::Image { key } => keys.contains(key),
            Subject::Service { .. }
            | Subject::Network { .. }
            | Subject::Volume { .. }
            | Subject::StrayContainer { .. }
            | Subject::StrayNetwork { .. } => false,
        });
    }

    /// How many acts are in flight.
    pub fn in_flight(&self) -> usize {
        self.crew.len()
    }
}

/// An act came back, and the journal is told.
fn ended(begun: Option<Begun>, outcome: Result<Done, ActError>) -> Result<Done, ActError> {
    if let Some(begun) = begun {
        begun.came_to(&outcome);
    }
    outcome
}

fn report(step: &Step, outcome: &Result<Done, ActError>, took: Duration, blackout: &Blackout) {
    let secrets = blackout.of(&step.subject);
    let (act, cause) = (step.act.verb(), &step.because);
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

fn log_of(act: &Act, state: &StateDir) -> Option<std::path::PathBuf> {
    match act {
        Act::PullImage { reference } => Some(state.build_log(reference)),
        Act::BuildImage(build) => Some(state.build_log(&build.tag)),
        Act::CreateNetwork { .. }
        | Act::RemoveNetwork { .. }
        | Act::CreateVolume { .. }
        | Act::RemoveVolume { .. }
        | Act::CreateContainer { .. }
        | Act::StartContainer { .. }
        | Act::StopContainer { .. }
        | Act::UnpauseContainer { .. }
        | Act::RenameContainer { .. }
        | Act::RemoveContainer { .. }
        | Act::KeepEvidence { .. }
        | Act::PlaceFile { .. }
        | Act::ConnectNetwork { .. }
        | Act::DisconnectNetwork { .. } => None,
    }
}

async fn keep_log(path: std::path::PathBuf, mut log: String, error: Option<&ActError>, secrets: &Secrets) {
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
#[path = "hands/tests.rs"]
mod tests;
