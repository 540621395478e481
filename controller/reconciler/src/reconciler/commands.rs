//! What people and agents ask for: taken in at once, answered when it is on disk.

use argus_backend::Backend;
use argus_core::ident::EnvName;
use tokio::sync::oneshot;

use super::Reconciler;
use crate::handle::{Answer, Command, CommandError, Request};
use crate::keeper::Written;
use crate::wishes;

/// A command that was taken in and is not on disk yet.
pub(super) struct Unkept {
    number: u64,
    answer: Answer,
    reply: oneshot::Sender<Result<Answer, CommandError>>,
}

impl<B: Backend> Reconciler<B> {
    pub(super) fn obey(&mut self, request: Request) {
        let specs = self.facts.specs.borrow().clone();
        let world = self.facts.worlds.borrow().clone();
        let facts = wishes::Facts {
            specs: &specs,
            world: &world,
            memory: self.brain.memory(),
            now: self.clock.now(),
        };
        let result = match &request.command {
            Command::ResetBreaker { environment } => self.reset_breaker(environment.as_ref()),
            command => self.wishes.obey(command, facts),
        };
        if result.is_ok() {
            match &request.command {
                Command::Retry { environment } | Command::Rollback { environment } => {
                    self.brain.retry(environment);
                }
                Command::Cancel { environment } => {
                    // A fork and what was rolled back run other images than a file says.
                    if let Some(accepted) = self.wishes.accepted(environment, &specs) {
                        self.hands.abandon_images(&accepted.desired);
                    }
                }
                Command::Down { .. }
                | Command::ResetBreaker { .. }
                | Command::CleanOrphans { .. }
                | Command::Hold { .. }
                | Command::Resume { .. }
                | Command::BeginTest { .. }
                | Command::EndTest { .. }
                | Command::ResumeController
                | Command::Sync
                | Command::Fork { .. } => {}
            }
        }
        self.chronicle.commanded(&request.command, result.is_ok());
        tracing::info!(command = ?request.command, ok = result.is_ok(), "command");
        match result {
            // What is not on disk does not outlive a crash, and so it is not done yet.
            Ok(answer) => {
                self.commands += 1;
                self.unkept.push(Unkept {
                    number: self.commands,
                    answer,
                    reply: request.reply,
                });
            }
            Err(error) => {
                let _nobody_waits = request.reply.send(Err(error));
            }
        }
    }

    /// Answers the commands that are on disk, or cannot be kept; they stand in any case.
    pub(super) fn answer(&mut self) {
        let written = self.facts.written.borrow_and_update();
        let Some(Written { value, error }) = &*written else {
            return;
        };
        let (kept, unkept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unkept)
            .into_iter()
            .partition(|unkept| unkept.number <= value.commands);
        self.unkept = unkept;
        for Unkept { answer, reply, .. } in kept {
            let result = match error {
                None => Ok(answer),
                Some(why) => Err(CommandError::NotKept(why.clone())),
            };
            // Whoever asked may have gone.
            let _nobody_waits = reply.send(result);
        }
    }

    /// An engine that is away is looked for at once, too.
    fn reset_breaker(&mut self, environment: Option<&EnvName>) -> Result<Answer, CommandError> {
        if let Some(env) = environment
            && !self.told.desires.borrow().contains_key(env)
        {
            return Err(CommandError::Unknown(env.clone()));
        }
        if self.brain.reset_breaker(environment, self.clock.now()) {
            self.backend.look_again();
        }
        if environment.is_none() {
            self.backend.reconnect();
        }
        Ok(Answer::Done)
    }
}
