//! Goal of a wait: when it is reached, and when the environment is blocked before.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Condition, EnvironmentStatus, Phase, Truth};
use argus_reconciler::clock;
use clap::ValueEnum;

use super::target_status::TargetStatus;
use crate::api::target::Target;
use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::status::hint_for_unknown;
use schemars::JsonSchema;
use serde::Deserialize;

/// Goal of a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WaitGoal {
    #[value(help = "Ready, with the current content of the file")]
    #[default]
    Ready,
    #[value(help = "Removed: the environment has no status file, or no such service")]
    Gone,
}

/// Waits until all of `targets`, or all environments, reach the goal, and returns them. Fails early if one is blocked. Calls
/// `show` on changes.
pub(crate) async fn wait_until(
    client: &ControllerClient,
    targets: Option<&[Target]>,
    goal: WaitGoal,
    timeout: Duration,
    mut show: impl FnMut(&[TargetStatus]),
) -> Result<Vec<TargetStatus>, Failure> {
    let deadline = clock::now() + timeout;
    let mut changes = client.watch_statuses();
    loop {
        let statuses = TargetStatus::read(client, targets).await?;
        show(&statuses);
        if goal == WaitGoal::Ready {
            statuses.iter().try_for_each(TargetStatus::check_blocked)?;
        }
        // Without any environment, the goal Ready waits for the first one.
        let nothing = statuses.is_empty() && goal == WaitGoal::Ready;
        if !nothing && statuses.iter().all(|seen| seen.is_reached(goal)) {
            return Ok(statuses);
        }
        if !changes.changed_before(deadline).await {
            let pending: Vec<TargetStatus> = statuses
                .into_iter()
                .filter(|seen| !seen.is_reached(goal))
                .collect();
            let hint = hint_after_timeout(client, pending.first()).await?;
            return Err(timeout_failure(&pending, goal, timeout, hint));
        }
    }
}

/// Fails for an environment that will not become ready without an intervention.
pub(super) fn check_blocked(status: &EnvironmentStatus) -> Result<(), Failure> {
    check_lease(status)?;
    let Some(error) = find_blocking_error(status) else {
        return Ok(());
    };
    if error.code == Code::LeaseHeld {
        // The lease of a dead controller expires.
        return Ok(());
    }
    let exit = match Exit::from_code(error.code) {
        Exit::SpecRejected if status.revision.is_none() => Exit::SpecRejected,
        _ => Exit::GaveUp,
    };
    // With a stale status, only errors of the file and of the socket are certainly current.
    let is_current = exit == Exit::SpecRejected || error.code == Code::DockerPermissionDenied;
    if status.stale && !is_current {
        return Ok(());
    }
    let env = &status.environment;
    let service = error
        .service
        .as_ref()
        .map_or_else(String::new, |service| format!("/{service}"));
    let mut error = error.clone();
    error.message = format!(
        "environment `{env}` is blocked: {env}{service}: {}",
        error.message
    );
    Err(Failure::new(error).with_exit(exit))
}

/// Returns the error behind the condition `Blocked` of an environment that is not ready.
fn find_blocking_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    let is_blocked = |found: &&Condition| found.kind == "Blocked" && found.status == Truth::True;
    let blocked = status.conditions.iter().find(is_blocked)?;
    let mut errors = status.errors.iter();
    errors
        .find(|error| error.code.reason() == blocked.reason)
        .filter(|_| status.phase != Phase::Ready)
}

/// Fails for an environment of another controller that is certainly alive, because waiting does not help.
pub(super) fn check_lease(status: &EnvironmentStatus) -> Result<(), Failure> {
    match find_lease_error(status).filter(|error| is_holder_alive(error) && !status.stale) {
        Some(error) => Err(Failure::new(error.clone())),
        None => Ok(()),
    }
}

/// Error of an environment that another controller manages.
pub(crate) fn find_lease_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    status.errors.iter().find(|error| error.code == Code::LeaseHeld)
}

/// Error of an engine that does not answer or refuses the user, or of its open circuit breaker: no action is possible at
/// present.
pub(crate) fn find_engine_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    let is_of_engine = |error: &&StructuredError| {
        matches!(
            error.code,
            Code::DockerUnavailable | Code::DockerPermissionDenied | Code::CircuitOpen
        )
    };
    status.errors.iter().find(is_of_engine)
}

/// Returns true if the other controller is certainly alive, so that waiting does not help.
fn is_holder_alive(lease_error: &StructuredError) -> bool {
    let holder = lease_error.details.get("holder");
    holder.is_some_and(|holder| holder["renews"] == true)
}

/// Returns the next command after a timeout.
async fn hint_after_timeout(
    client: &ControllerClient,
    pending: Option<&TargetStatus>,
) -> Result<String, Failure> {
    Ok(match pending {
        None => "see details with `argus get`".to_owned(),
        Some(TargetStatus {
            target,
            status: Some(_),
        }) => format!("see details with `argus describe {target}`"),
        Some(TargetStatus { target, status: None }) => {
            let environment = target.environment.clone();
            let hint = client
                .run_blocking(move |client| Ok(hint_for_unknown(client.state(), &environment)))
                .await?;
            format!("{hint}, or start a controller with `argus run`")
        }
    })
}

fn timeout_failure(pending: &[TargetStatus], goal: WaitGoal, timeout: Duration, hint: String) -> Failure {
    let goal_name = match goal {
        WaitGoal::Ready => "ready",
        WaitGoal::Gone => "gone",
    };
    let statuses = || pending.iter().filter_map(|seen| seen.status.as_ref());
    let cause = statuses()
        .find_map(find_lease_error)
        .or_else(|| statuses().find_map(find_engine_error));
    if let Some(cause) = cause {
        return Failure::new(cause.clone());
    }
    let states = if pending.is_empty() {
        "no environments exist".to_owned()
    } else {
        let states = pending.iter().map(|seen| seen.format_state(goal));
        states.collect::<Vec<_>>().join("; ")
    };
    let waited = humantime::format_duration(timeout);
    let names = pending.iter().map(|seen| seen.target.to_string());
    let details = serde_json::json!({
        "for": goal_name,
        "waitedSeconds": timeout.as_secs(),
        "environments": names.collect::<Vec<_>>(),
    });
    Failure::with_code(
        Code::Timeout,
        format!("not {goal_name} within {waited}: {states}"),
    )
    .with_details(details)
    .with_exit(Exit::TimedOut)
    .with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status with this error, which blocks the environment if it needs a change.
    fn status(error: StructuredError) -> EnvironmentStatus {
        EnvironmentStatus {
            environment: "shop".to_owned(),
            phase: Phase::Progressing,
            conditions: vec![Condition {
                kind: "Blocked".to_owned(),
                status: if error.retryable {
                    Truth::False
                } else {
                    Truth::True
                },
                reason: error.code.reason().to_owned(),
                message: String::new(),
                last_transition_time: String::new(),
            }],
            errors: vec![error],
            ..EnvironmentStatus::default()
        }
    }

    fn exit_of(result: &Result<(), Failure>) -> Option<Exit> {
        match *result {
            Err(Failure::Error { exit, .. }) => Some(exit),
            Err(Failure::BrokenPipe) | Ok(()) => None,
        }
    }

    #[test]
    fn blocked_environment_ends_the_wait_with_its_error() {
        let error = |code| StructuredError::new(code, "why").service("api");
        for (code, exit) in [
            (Code::BuildFailed, Some(Exit::GaveUp)),
            (Code::ImageNotFound, Some(Exit::GaveUp)),
            (Code::SpecInvalid, Some(Exit::SpecRejected)),
            (Code::JournalUnwritable, Some(Exit::GaveUp)),
            (Code::ContainerCrash, None),
        ] {
            assert_eq!(exit_of(&check_blocked(&status(error(code)))), exit, "{code}");
        }
        let mut stale = status(error(Code::BuildFailed));
        stale.stale = true;
        assert_eq!(exit_of(&check_blocked(&stale)), None);
        let mut denied = status(error(Code::DockerPermissionDenied));
        denied.stale = true;
        assert_eq!(exit_of(&check_blocked(&denied)), Some(Exit::GaveUp));
        let mut ready = status(error(Code::SpecInvalid));
        ready.phase = Phase::Ready;
        assert_eq!(exit_of(&check_blocked(&ready)), None);
    }

    #[test]
    fn only_a_live_holder_of_the_lease_ends_the_wait() {
        for (renews, exit) in [(true, Some(Exit::LeaseHeld)), (false, None)] {
            let details = serde_json::json!({ "holder": { "renews": renews } });
            let error = StructuredError::new(Code::LeaseHeld, "why").details(details);
            assert_eq!(exit_of(&check_blocked(&status(error))), exit);
        }
    }

    #[test]
    fn timeout_reports_the_engine_as_its_cause() {
        for (code, exit) in [
            (Code::DockerUnavailable, Exit::Unreachable),
            (Code::CircuitOpen, Exit::Unreachable),
            (Code::ContainerCrash, Exit::TimedOut),
        ] {
            let pending = [TargetStatus {
                target: Target::environment("shop".to_owned()),
                status: Some(status(StructuredError::new(code, "why"))),
            }];
            let limit = Duration::from_secs(1);
            let failure = timeout_failure(&pending, WaitGoal::Ready, limit, String::new());
            assert_eq!(exit_of(&Err(failure)), Some(exit), "{code}");
        }
    }
}
