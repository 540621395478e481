//! What people and agents ask for: taken in at once, answered when it is on disk.

use argus_backend::Backend;
use argus_core::ident::EnvName;
use tokio::sync::oneshot;

use super::Reconciler;
use crate::handle::{Command, CommandError, Reply, Request};
use crate::overrides;
use crate::persisted::Saved;

/// A command that was taken in and is not on disk yet.
pub(super) struct PendingReply {
    number: u64,
    answer: Reply,
    reply: oneshot::Sender<Result<Reply, CommandError>>,
}

impl<B: Backend> Reconciler<B> {
    pub(super) fn handle_command(&mut self, request: Request) {
        let specs = self.inputs.specs.borrow().clone();
        let store = self.inputs.stores.borrow().clone();
        let facts = overrides::OverrideInputs {
            specs: &specs,
            store: &store,
            memory: self.planner.state(),
            now: self.clock.now(),
        };
        let result = match &request.command {
            Command::ResetBreaker { environment } => self.reset_breaker(environment.as_ref()),
            command => self.overrides.apply(command, facts),
        };
        if result.is_ok() {
            match &request.command {
                Command::Retry { environment } | Command::Rollback { environment } => {
                    self.planner.retry(environment);
                }
                Command::Cancel { environment } => {
                    // A fork and what was rolled back run other images than a file says.
                    if let Some(accepted) = self.overrides.accepted(environment, &specs) {
                        self.executor.abort_images(&accepted.desired);
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
        self.recorder.record_command(&request.command, result.is_ok());
        tracing::info!(command = ?request.command, ok = result.is_ok(), "command");
        match result {
            // What is not on disk does not outlive a crash, and so it is not done yet.
            Ok(answer) => {
                self.commands += 1;
                self.pending_replies.push(PendingReply {
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
    pub(super) fn reply_when_persisted(&mut self) {
        let written = self.inputs.written.borrow_and_update();
        let Some(Saved { value, error }) = &*written else {
            return;
        };
        let (kept, unkept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending_replies)
            .into_iter()
            .partition(|unkept| unkept.number <= value.commands);
        self.pending_replies = unkept;
        for PendingReply { answer, reply, .. } in kept {
            let result = match error {
                None => Ok(answer),
                Some(why) => Err(CommandError::NotPersisted(why.clone())),
            };
            // Whoever asked may have gone.
            let _nobody_waits = reply.send(result);
        }
    }

    /// An engine that is away is looked for at once, too.
    fn reset_breaker(&mut self, environment: Option<&EnvName>) -> Result<Reply, CommandError> {
        if let Some(env) = environment
            && !self.outputs.desires.borrow().contains_key(env)
        {
            return Err(CommandError::Unknown(env.clone()));
        }
        if self.planner.reset_breaker(environment, self.clock.now()) {
            self.backend.request_relist();
        }
        if environment.is_none() {
            self.backend.reconnect();
        }
        Ok(Reply::Done)
    }
}
