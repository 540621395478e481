//! Commands of people and agents: applied immediately, answered once they are on disk.

use argus_backend::Backend;
use argus_core::ident::EnvName;
use tokio::sync::oneshot;

use super::Reconciler;
use crate::command::{Command, CommandError, Reply, Request};
use crate::overrides;
use crate::persisted::Saved;

/// Reply to a command that is not on disk yet.
pub(super) struct PendingReply {
    number: u64,
    response: Reply,
    reply: oneshot::Sender<Result<Reply, CommandError>>,
}

impl<B: Backend> Reconciler<B> {
    pub(super) fn handle_command(&mut self, request: Request) {
        let specs = self.inputs.specs.borrow().clone();
        let store = self.inputs.stores.borrow().clone();
        let inputs = overrides::OverrideInputs {
            specs: &specs,
            store: &store,
            state: self.planner.state(),
            now: self.clock.now(),
        };
        let result = match &request.command {
            Command::ResetBreaker { environment } => self.reset_breaker(environment.as_ref()),
            command => self.overrides.apply(command, inputs),
        };
        if result.is_ok() {
            match &request.command {
                Command::Retry { environment } | Command::Rollback { environment } => {
                    self.planner.retry(environment);
                }
                Command::Cancel { environment } => {
                    // A fork or a rollback runs other images than the spec file lists.
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
            // The reply waits for the disk, because the command would not survive a crash before that.
            Ok(response) => {
                self.commands += 1;
                self.pending_replies.push(PendingReply {
                    number: self.commands,
                    response,
                    reply: request.reply,
                });
            }
            Err(error) => {
                let _receiver_gone = request.reply.send(Err(error));
            }
        }
    }

    /// Answers the commands that are on disk or could not be saved; both are in effect.
    pub(super) fn reply_when_persisted(&mut self) {
        let saved = self.inputs.saved.borrow_and_update();
        let Some(Saved { value, error }) = &*saved else {
            return;
        };
        let (saved, unsaved): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending_replies)
            .into_iter()
            .partition(|unsaved| unsaved.number <= value.commands);
        self.pending_replies = unsaved;
        for PendingReply { response, reply, .. } in saved {
            let result = match error {
                None => Ok(response),
                Some(why) => Err(CommandError::NotPersisted(why.clone())),
            };
            // The requester may be gone.
            let _receiver_gone = reply.send(result);
        }
    }

    /// Resets a breaker. Without an environment, it also reconnects to an unreachable engine immediately.
    fn reset_breaker(&mut self, environment: Option<&EnvName>) -> Result<Reply, CommandError> {
        if let Some(env) = environment
            && !self.outputs.desired.borrow().contains_key(env)
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
