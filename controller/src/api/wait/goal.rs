//! Goal of a wait: when it is reached, and when Argus gives up before.

use std::time::Duration;

use argus_crds::error::{Class, Code, Severity, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase, ServiceState, ServiceStatus, Truth};
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

/// Waits until all of `which`, or all environments, reach the goal. Fails early after a give-up. Calls `show` on changes.
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
            existing.into_iter().try_for_each(check_given_up)?;
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
pub(crate) fn check_given_up(status: &EnvironmentStatus) -> Result<(), Failure> {
    let worst = status.errors.first().cloned();
    let rejected = status.revision.is_none()
        && worst
            .as_ref()
            .is_some_and(|error| Exit::from_code(error.code) == Exit::SpecRejected);
    if let Some(error) = find_lease_error(status).filter(|error| is_holder_alive(error) && !status.stale) {
        return Err(Failure::new(error.clone()));
    }
    // With a stale status, only errors of the file are certainly current.
    let is_failed =
        status.phase == Phase::Failed || (status.phase == Phase::Degraded && has_given_up_service(status));
    if !is_failed || (status.stale && !rejected) {
        return Ok(());
    }
    let exit = if rejected {
        Exit::SpecRejected
    } else {
        Exit::GaveUp
    };
    Err(match worst {
        Some(mut error) => {
            let of = error
                .service
                .clone()
                .map_or_else(String::new, |service| format!("/{service}"));
            error.message = format!(
                "environment `{}` failed: {}{of}: {}",
                status.environment, status.environment, error.message
            );
            Failure::new(error).with_exit(exit)
        }
        None => Failure::with_code(
            Code::Internal,
            format!("environment `{}` failed", status.environment),
        )
        .with_details(serde_json::json!({ "phase": status.phase }))
        .with_environment(&status.environment)
        .with_exit(exit),
    })
}

/// Error of an environment that another controller manages.
pub(crate) fn find_lease_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    status.errors.iter().find(|error| error.code == Code::LeaseHeld)
}

/// Returns true if the other controller is certainly alive, so that waiting does not help.
pub(crate) fn is_holder_alive(lease_error: &StructuredError) -> bool {
    let holder = lease_error.details.get("holder");
    holder.is_some_and(|holder| holder["renews"] == true)
}

/// Returns true if a required service is given up, or if its last error needs a change, such as a failed build.
/// A service with criticality warn is not required.
pub(crate) fn has_given_up_service(status: &EnvironmentStatus) -> bool {
    let blocked = status
        .conditions
        .iter()
        .any(|it| it.kind == "Blocked" && it.status == Truth::True);
    blocked
        && status
            .services
            .iter()
            .any(|row| (row.state == ServiceState::Failed || needs_change(row)) && !is_warning(row))
}

/// Returns true if only a new revision or a command ends the last error, while an older container may still run.
fn needs_change(row: &ServiceStatus) -> bool {
    let error = row.last_error.as_ref();
    row.state != ServiceState::Ready
        && error.is_some_and(|error| error.class != Class::Transient && !error.retryable)
}

pub(crate) fn is_warning(row: &ServiceStatus) -> bool {
    row.last_error
        .as_ref()
        .is_some_and(|error| error.severity == Severity::Warning)
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
    let mut held = pending
        .iter()
        .filter_map(|(_, status)| find_lease_error(status.as_ref()?));
    if let Some(held) = held.next() {
        return Failure::new(held.clone());
    }
    error.with_exit(Exit::TimedOut).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use argus_crds::status::Condition;

    use super::*;

    fn row(state: ServiceState, error: StructuredError) -> ServiceStatus {
        ServiceStatus {
            name: error.service.clone().unwrap_or_default(),
            state,
            last_error: Some(error),
            ..ServiceStatus::default()
        }
    }

    fn blocked() -> Vec<Condition> {
        vec![Condition {
            kind: "Blocked".to_owned(),
            status: Truth::True,
            reason: "InterventionNeeded".to_owned(),
            message: String::new(),
            last_transition_time: String::new(),
        }]
    }

    #[test]
    fn failed_build_ends_the_wait_while_an_older_container_runs() {
        let failed = StructuredError::new(Code::BuildFailed, "build failed").service("api");
        let status = |row| EnvironmentStatus {
            phase: Phase::Degraded,
            conditions: blocked(),
            services: vec![row],
            errors: vec![failed.clone()],
            ..EnvironmentStatus::default()
        };
        let ended = check_given_up(&status(row(ServiceState::Running, failed.clone())));
        let gave_up = |failure: &Failure| {
            matches!(
                failure,
                Failure::Error {
                    exit: Exit::GaveUp,
                    ..
                }
            )
        };
        assert!(ended.as_ref().is_err_and(gave_up), "{ended:?}");
        let crash = StructuredError::new(Code::ContainerCrash, "exited with 1").service("api");
        assert!(check_given_up(&status(row(ServiceState::Running, crash))).is_ok());
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

    #[test]
    fn wait_continues_while_required_services_may_recover() {
        let is_failed = |severity| {
            let spent = StructuredError::new(Code::ContainerRestartExhausted, "gave up").service("side");
            let crash = StructuredError::new(Code::ContainerCrash, "exited with 1").service("api");
            let status = EnvironmentStatus {
                environment: "shop".to_owned(),
                phase: Phase::Degraded,
                revision: Some("r1".to_owned()),
                conditions: blocked(),
                services: vec![
                    row(ServiceState::Failed, spent.severity(severity)),
                    row(ServiceState::Waiting, crash.clone()),
                ],
                errors: vec![crash],
                ..EnvironmentStatus::default()
            };
            check_given_up(&status).is_err()
        };
        assert!(is_failed(Severity::Fatal));
        assert!(!is_failed(Severity::Warning));
    }
}
