//! Failure of a wait that ended at its limit.

use std::time::Duration;

use argus_crds::error::{Code, Reason};
use serde_json::{Value, json};

use super::goal::{WaitGoal, find_engine_error, find_lease_error};
use super::target_status::TargetStatus;
use crate::client::ControllerClient;
use crate::local_state::liveness::Liveness;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};

/// A wait that ended at its limit.
pub(super) struct EndedWait {
    pub(super) goal: WaitGoal,
    pub(super) timeout: Duration,
    /// Targets that have not reached the goal.
    pub(super) pending: Vec<TargetStatus>,
}

impl EndedWait {
    /// Creates the failure, with the command that helps next.
    pub(super) async fn into_failure(
        self,
        client: &ControllerClient,
        liveness: Liveness,
    ) -> Result<Failure, Failure> {
        Ok(match liveness {
            Liveness::Running => {
                let hint = self.suggest_next(client).await?;
                self.not_reached(hint)
            }
            Liveness::Starting(_) => self.not_written(),
            Liveness::NotRunning(_) => self.not_running(),
        })
    }

    /// Returns the next command.
    async fn suggest_next(&self, client: &ControllerClient) -> Result<String, Failure> {
        let Some(TargetStatus { target, status }) = self.pending.first() else {
            return Ok("see details with `argus get`".to_owned());
        };
        if status.is_some() {
            return Ok(format!("see details with `argus describe {target}`"));
        }
        let environment = target.environment.clone();
        let hint =
            move |client: &ControllerClient| Ok(status::hint_for_unknown(client.state(), &environment));
        client.run_blocking(hint).await
    }

    /// Failure with the last state of a running controller.
    fn not_reached(&self, hint: String) -> Failure {
        let statuses = || self.pending.iter().filter_map(|seen| seen.status.as_ref());
        let cause = statuses()
            .find_map(find_lease_error)
            .or_else(|| statuses().find_map(find_engine_error));
        if let Some(cause) = cause {
            return Failure::new(cause.clone());
        }
        self.timed_out(&self.format_states()).with_hint(hint)
    }

    /// Failure of a controller that has not finished its start.
    fn not_written(&self) -> Failure {
        let states = self.format_states();
        let message = format!("the controller has not written its status; last known state: {states}");
        self.timed_out(&message)
            .with_hint("find the cause with `argus doctor`")
    }

    /// Failure without a controller.
    fn not_running(&self) -> Failure {
        let states = self.format_states();
        let message = format!("no controller is running; last known state: {states}");
        Failure::with_reason(Reason::NotRunning, self.describe(&message))
            .with_details(self.details())
            .with_exit(Exit::TimedOut)
            .with_hint("start a controller with `argus run`")
    }

    fn timed_out(&self, message: &str) -> Failure {
        Failure::with_code(Code::Timeout, self.describe(message))
            .with_details(self.details())
            .with_exit(Exit::TimedOut)
    }

    fn describe(&self, cause: &str) -> String {
        let waited = humantime::format_duration(self.timeout);
        format!("not {} within {waited}: {cause}", self.goal.name())
    }

    fn details(&self) -> Value {
        let names = self.pending.iter().map(|seen| seen.target.to_string());
        json!({
            "for": self.goal.name(),
            "waitedSeconds": self.timeout.as_secs(),
            "environments": names.collect::<Vec<_>>(),
        })
    }

    fn format_states(&self) -> String {
        if self.pending.is_empty() {
            return "no environments exist".to_owned();
        }
        let states = self.pending.iter().map(|seen| seen.format_state(self.goal));
        states.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::StructuredError;
    use argus_crds::status::{EnvironmentStatus, Phase};

    use super::*;
    use crate::api::target::Target;

    /// A wait for an environment with this phase and error.
    fn ended(phase: Phase, code: Code) -> EndedWait {
        EndedWait {
            goal: WaitGoal::Ready,
            timeout: Duration::from_secs(1),
            pending: vec![TargetStatus {
                target: Target::environment("shop"),
                status: Some(EnvironmentStatus {
                    environment: "shop".to_owned(),
                    phase,
                    errors: vec![StructuredError::new(code, "why")],
                    ..EnvironmentStatus::default()
                }),
            }],
        }
    }

    fn exit_of(failure: &Failure) -> Option<Exit> {
        match *failure {
            Failure::Error { exit, .. } => Some(exit),
            Failure::BrokenPipe => None,
        }
    }

    #[test]
    fn timeout_reports_the_engine_as_its_cause() {
        for (code, exit) in [
            (Code::DockerUnavailable, Exit::Unreachable),
            (Code::CircuitOpen, Exit::Unreachable),
            (Code::ContainerCrash, Exit::TimedOut),
        ] {
            let failure = ended(Phase::Progressing, code).not_reached(String::new());
            assert_eq!(exit_of(&failure), Some(exit), "{code}");
        }
    }

    #[test]
    fn last_known_state_is_not_the_cause_without_a_controller() {
        let failure = ended(Phase::Ready, Code::DockerUnavailable).not_running();
        assert!(failure.has_reason(Reason::NotRunning));
        assert_eq!(
            failure.message(),
            "not ready within 1s: no controller is running; last known state: `shop` is Ready"
        );
        assert_eq!(exit_of(&failure), Some(Exit::TimedOut));
        let failure = ended(Phase::Ready, Code::DockerUnavailable).not_written();
        assert_eq!(failure.code(), Some(Code::Timeout));
        assert_eq!(exit_of(&failure), Some(Exit::TimedOut));
    }
}
