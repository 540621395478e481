//! Commands of people and agents: applied immediately.

use argus_backend::Backend;
use argus_core::ident::EnvName;
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, TestLease, VolumeRemoval};

use super::Reconciler;
use crate::command::{Command, CommandError, Reply, Request};
use crate::overrides::OverrideInputs;

impl<B: Backend> Reconciler<B> {
    pub(super) fn handle_command(&mut self, request: Request) {
        let result = self.execute(&request);
        self.recorder
            .record_command(&request.command, &request.id, result.is_ok());
        tracing::info!(command = ?request.command, ok = result.is_ok(), "command");
        self.accepted_commands += u64::from(result.is_ok());
        // The requester may be gone.
        let _receiver_gone = request
            .reply
            .send(result.map(|reply| (reply, self.accepted_commands)));
    }

    /// Executes a command. [`Command::Sync`] and [`Command::ResumeController`] have no effect here, because
    /// [`Handle::send`](crate::Handle::send) has executed them.
    fn execute(&mut self, request: &Request) -> Result<Reply, CommandError> {
        let id = Some(request.id.clone());
        let specs = self.inputs.specs.borrow().clone();
        let store = self.inputs.stores.borrow().clone();
        let now = self.clock.now();
        let inputs = OverrideInputs {
            specs: &specs,
            store: &store,
            state: self.planner.state(),
            now,
        };
        let overrides = &mut self.overrides;
        match request.command.clone() {
            Command::Down { environment, volumes } => {
                let taken_down = overrides.take_down(&environment, inputs);
                // Volumes can be all that is left of an environment without a file.
                let is_known = taken_down.is_ok() || store.of(&environment).is_some();
                if !volumes || !is_known {
                    return taken_down;
                }
                self.planner.request_volume_removal(&environment);
                Ok(Reply::Done)
            }
            Command::Retry { environment, service } => {
                overrides.retry_target(&environment, service.as_ref(), inputs)?;
                self.planner.retry(&environment, service.as_ref());
                Ok(Reply::Done)
            }
            Command::Restart { environment, service } => {
                let accepted = overrides.check_restart(&environment, service.as_ref(), inputs)?;
                self.planner
                    .request_restart(&accepted.desired, service.as_ref(), &store);
                Ok(Reply::Done)
            }
            Command::Rollback { environment } => {
                let reply = overrides.roll_back(&environment, inputs)?;
                self.planner.retry(&environment, None);
                Ok(reply)
            }
            Command::Fork { environment, to, ttl } => overrides.fork(&environment, &to, ttl, inputs),
            Command::Hold {
                environment,
                service,
                until,
                stops,
                reason,
                holder,
            } => {
                let hold = Hold {
                    environment,
                    service,
                    since: now,
                    until,
                    stops,
                    reason,
                    holder,
                    command: id,
                };
                overrides.hold(hold, inputs)
            }
            Command::Resume { environment, service } => {
                overrides.resume(&environment, service.as_ref(), inputs)
            }
            Command::Cancel { environment } => {
                let reply = overrides.hold(cancellation(environment.clone(), id, now), inputs)?;
                let images = overrides.images_of_only(&environment, &specs);
                self.executor.cancel_images(&images);
                Ok(reply)
            }
            Command::BeginTest {
                environment,
                case,
                ttl,
                holder,
                purpose,
            } => {
                let lease = TestLease {
                    environment,
                    case,
                    since: now,
                    until: now + ttl,
                    holder,
                    purpose,
                    unverified: request.unverified.clone(),
                };
                overrides.begin_test(lease, inputs)
            }
            Command::EndTest { environment, case } => overrides.end_test(&environment, &case, inputs),
            Command::RecordTests { environment, run } => overrides.record_tests(&environment, run, inputs),
            Command::CleanOrphans {
                projects,
                volumes,
                all_folders,
            } => {
                let volumes = VolumeRemoval::new(volumes, all_folders);
                Ok(overrides.request_orphan_removal(&projects, volumes, inputs))
            }
            Command::ResetBreaker { environment } => self.reset_breaker(environment.as_ref()),
            // The handle has done what these commands ask for.
            Command::ResumeController | Command::Sync => Ok(Reply::Done),
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

/// Hold of a cancelled environment.
fn cancellation(environment: EnvName, command: Option<String>, since: Timestamp) -> Hold {
    Hold {
        environment,
        service: None,
        since,
        until: None,
        stops: false,
        reason: "cancelled".to_owned(),
        holder: None,
        command,
    }
}
