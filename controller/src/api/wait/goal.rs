//! Goal of a wait: when it is reached, and when the environment is blocked before.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Condition, EnvironmentStatus, Phase, Truth};
use argus_reconciler::clock;
use clap::ValueEnum;

use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::status;
use crate::status_text::format_waits;
use schemars::JsonSchema;
use serde::Deserialize;

/// Goal of a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WaitGoal {
    #[value(help = "Phase Ready, with the current content of the file")]
    #[default]
    Ready,
    #[value(help = "Removed: the environment has no status file")]
    Gone,
}

/// Name of an environment, and its status if it has one.
pub(crate) type NamedStatus = (String, Option<EnvironmentStatus>);

/// Waits until all of `which`, or all environments, reach the goal. Fails early if one is blocked. Calls `show` on changes.
pub(crate) async fn wait_until(
    client: &ControllerClient,
    which: Option<&[String]>,
    goal: WaitGoal,
    timeout: Duration,
    mut show: impl FnMut(&[NamedStatus]),
) -> Result<Vec<EnvironmentStatus>, Failure> {
    let deadline = clock::now() + timeout;
    let mut changes = client.watch_statuses();
    loop {
        let statuses = client.select_statuses(which).await?;
        show(&statuses);
        if goal == WaitGoal::Ready {
            let existing = statuses.iter().filter_map(|(_, status)| status.as_ref());
            existing.into_iter().try_for_each(check_blocked)?;
        }
        let is_pending = |(_, status): &&NamedStatus| !is_reached(status.as_ref(), goal);
        // Without any environment, the goal Ready waits for the first one.
        let nothing = statuses.is_empty() && goal == WaitGoal::Ready;
        if !nothing && !statuses.iter().any(|seen| is_pending(&seen)) {
            return Ok(statuses.into_iter().filter_map(|(_, status)| status).collect());
        }
        if !changes.changed_before(deadline).await {
            let pending: Vec<NamedStatus> = statuses.iter().filter(is_pending).cloned().collect();
            return Err(timeout_failure(&pending, goal, timeout));
        }
    }
}

pub(crate) fn is_reached(status: Option<&EnvironmentStatus>, goal: WaitGoal) -> bool {
    match goal {
        WaitGoal::Gone => status.is_none(),
        WaitGoal::Ready => status.is_some_and(|status| {
            status.phase == Phase::Ready && !status.stale && status.revision == status.observed_revision
        }),
    }
}

/// Fails for an environment that will not become ready without an intervention.
pub(crate) fn check_blocked(status: &EnvironmentStatus) -> Result<(), Failure> {
    let Some(error) = find_blocking_error(status) else {
        return Ok(());
    };
    if error.code == Code::LeaseHeld {
        // The lease of a dead controller expires.
        return if is_holder_alive(error) {
            Err(Failure::new(error.clone()))
        } else {
            Ok(())
        };
    }
    let exit = match Exit::from_code(error.code) {
        Exit::SpecRejected if status.revision.is_none() => Exit::SpecRejected,
        _ => Exit::GaveUp,
    };
    // With a stale status, only errors of the file are certainly current.
    if status.stale && exit != Exit::SpecRejected {
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

/// Error of an environment that another controller manages.
pub(crate) fn find_lease_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    status.errors.iter().find(|error| error.code == Code::LeaseHeld)
}

/// Error of an engine that does not answer, or of its open circuit breaker: no action is possible at present.
pub(crate) fn find_engine_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    let is_of_engine =
        |error: &&StructuredError| matches!(error.code, Code::DockerUnavailable | Code::CircuitOpen);
    status.errors.iter().find(is_of_engine)
}

/// Returns true if the other controller is certainly alive, so that waiting does not help.
pub(crate) fn is_holder_alive(lease_error: &StructuredError) -> bool {
    let holder = lease_error.details.get("holder");
    holder.is_some_and(|holder| holder["renews"] == true)
}

pub(crate) fn timeout_failure(
    pending: &[(String, Option<EnvironmentStatus>)],
    goal: WaitGoal,
    timeout: Duration,
) -> Failure {
    let goal_name = match goal {
        WaitGoal::Ready => "ready",
        WaitGoal::Gone => "gone",
    };
    let one = |(name, status): &(String, Option<EnvironmentStatus>)| match status {
        None => format!("`{name}` has no status"),
        Some(status) if goal == WaitGoal::Gone => format!("`{name}` is {:?}", status.phase),
        Some(status) => format!("`{name}` is {:?}: {}", status.phase, format_waits(status)),
    };
    let states = if pending.is_empty() {
        "no environments exist".to_owned()
    } else {
        pending.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let waited = humantime::format_duration(timeout);
    let hint = match pending.first() {
        Some((name, Some(_))) => format!("see details with `argus describe {name}`"),
        Some((_, None)) => format!("{}, or start a controller with `argus run`", status::LIST_HINT),
        None => "see details with `argus get`".to_owned(),
    };
    let details = serde_json::json!({
        "for": goal_name,
        "waitedSeconds": timeout.as_secs(),
        "environments": pending.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    });
    let error = Failure::with_code(
        Code::Timeout,
        format!("not {goal_name} within {waited}: {states}"),
    )
    .with_details(details);
    let statuses = || pending.iter().filter_map(|(_, status)| status.as_ref());
    let cause = statuses()
        .find_map(find_lease_error)
        .or_else(|| statuses().find_map(find_engine_error));
    if let Some(cause) = cause {
        return Failure::new(cause.clone());
    }
    error.with_exit(Exit::TimedOut).with_hint(hint)
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
            let pending = [("shop".to_owned(), Some(status(StructuredError::new(code, "why"))))];
            let failure = timeout_failure(&pending, WaitGoal::Ready, Duration::from_secs(1));
            assert_eq!(exit_of(&Err(failure)), Some(exit), "{code}");
        }
    }

    #[test]
    fn wait_without_a_status_suggests_a_command_that_works() {
        let failure = timeout_failure(
            &[("shop".to_owned(), None)],
            WaitGoal::Ready,
            Duration::from_secs(1),
        );
        assert!(
            format!("{failure:?}").contains("start a controller with `argus run`"),
            "{failure:?}"
        );
    }
}
