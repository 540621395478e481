//! Goal of a wait: when it is reached, and when the environment is blocked before.

use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Condition, EnvironmentStatus, Phase, Truth};
use argus_reconciler::clock;
use clap::ValueEnum;

use super::ended::EndedWait;
use super::rejected;
use super::removal;
use super::target_status::{TargetStatus, is_current};
use crate::api::target::Target;
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::status_text::format_warnings;
use schemars::JsonSchema;
use serde::Deserialize;

/// Time until the name of an unknown environment is an error. Its file can be written during the wait.
const UNKNOWN_DELAY: Duration = Duration::from_secs(3);
/// Interval of checks for a controller that starts.
const START_INTERVAL: Duration = Duration::from_millis(200);
/// Time without an answer of the engine that ends a wait, unless its caller has another one.
pub(crate) const ENGINE_PATIENCE: Duration = Duration::from_secs(10);

/// Limits of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimits {
    pub(crate) timeout: Duration,
    /// Maximum time without an answer of the engine.
    pub(crate) engine_patience: Duration,
    /// True if a rejected edit ends the wait. Otherwise the content that Argus accepted before counts.
    pub(crate) ends_at_rejection: bool,
}

impl WaitLimits {
    /// Limits of a wait that an engine without an answer does not end.
    pub(crate) fn of_time(timeout: Duration) -> Self {
        Self {
            timeout,
            engine_patience: timeout,
            ends_at_rejection: false,
        }
    }

    /// Limits of the rest of a wait that started at this time, with whole seconds for its message.
    pub(crate) fn rest_since(self, started: Timestamp) -> Self {
        let spent = Duration::from_secs(clock::now().since(started).as_secs());
        Self {
            timeout: self.timeout.saturating_sub(spent),
            ..self
        }
    }
}

/// Goal of a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WaitGoal {
    #[value(help = "Ready, with the current content of the file")]
    #[default]
    Ready,
    #[value(help = "Removed: the environment has no status file, or no such service")]
    Gone,
    // Without a running container: the end of a stop on request. A doc comment would change the schema.
    #[value(skip)]
    #[serde(skip)]
    Stopped,
}

impl WaitGoal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Gone => "gone",
            Self::Stopped => "stopped",
        }
    }
}

/// Waits until all of `targets`, or all environments, reach the goal, and returns them. Fails early if one is blocked or unknown,
/// or if the engine is away. Calls `show` on changes. Only the status of a running controller counts, which can also start during
/// the wait.
pub(crate) async fn wait_until(
    client: &ControllerClient,
    targets: Option<&[Target]>,
    goal: WaitGoal,
    limits: WaitLimits,
    mut show: impl FnMut(&[TargetStatus]),
) -> Result<Vec<TargetStatus>, Failure> {
    let started = clock::now();
    let deadline = started + limits.timeout;
    let mut engine_away = None;
    let mut changes = client.watch_statuses();
    loop {
        let liveness = client.read_liveness().await?;
        let statuses = TargetStatus::read(client, targets).await?;
        show(&statuses);
        if goal == WaitGoal::Ready && liveness.is_running() {
            if limits.ends_at_rejection {
                let mut found = statuses.iter().filter_map(|seen| seen.status.as_ref());
                found.try_for_each(rejected::check)?;
            }
            statuses.iter().try_for_each(TargetStatus::check_blocked)?;
            check_known(client, &statuses, (started, deadline)).await?;
        }
        if goal == WaitGoal::Gone && liveness.is_running() {
            removal::check_blocked(&statuses)?;
        }
        // Without any environment, the goal Ready waits for the first one.
        let nothing = statuses.is_empty() && goal == WaitGoal::Ready;
        if !nothing && statuses.iter().all(|seen| seen.is_reached(goal)) {
            return Ok(statuses);
        }
        let now = clock::now();
        let engine_check = check_engine(&statuses, &mut engine_away, limits.engine_patience, now)?;
        let start_check = (!liveness.is_running()).then(|| now + START_INTERVAL);
        let name_check = Some(started + UNKNOWN_DELAY).filter(|at| *at > now);
        let checks = [start_check, name_check, engine_check];
        let check = checks.into_iter().flatten().min();
        let check = check.filter(|at| *at < deadline);
        let is_changed = changes.changed_before(check.unwrap_or(deadline)).await;
        if !is_changed && check.is_none() {
            let pending: Vec<TargetStatus> = statuses
                .into_iter()
                .filter(|seen| !seen.is_reached(goal))
                .collect();
            let ended = EndedWait {
                goal,
                timeout: limits.timeout,
                pending,
            };
            return Err(ended.into_failure(client, liveness).await?);
        }
    }
}

/// Fails if the engine has not answered for its time. Otherwise returns the end of that time. `since` is the start of the outage
/// as this wait sees it.
fn check_engine(
    statuses: &[TargetStatus],
    since: &mut Option<Timestamp>,
    patience: Duration,
    now: Timestamp,
) -> Result<Option<Timestamp>, Failure> {
    let mut statuses = statuses.iter().filter_map(|seen| seen.status.as_ref());
    let Some(error) = statuses.find_map(find_engine_error) else {
        *since = None;
        return Ok(None);
    };
    let end = *since.get_or_insert(now) + patience;
    if now < end {
        return Ok(Some(end));
    }
    Err(Failure::new(error.clone()))
}

/// Fails for an environment that was removed, and for a name that no spec file has.
async fn check_known(
    client: &ControllerClient,
    statuses: &[TargetStatus],
    (started, deadline): (Timestamp, Timestamp),
) -> Result<(), Failure> {
    let Some(missing) = statuses.iter().find(|seen| seen.status.is_none()) else {
        return Ok(());
    };
    let env = missing.target.environment.clone();
    let controller = client.statuses().await?.controller.clone();
    let is_scanned = |it: &Condition| it.kind == "SpecsAvailable" && it.status == Truth::True;
    if !controller.conditions.iter().any(is_scanned) {
        return Ok(());
    }
    let is_late = clock::now().since(started) >= UNKNOWN_DELAY;
    if is_late {
        // A file that is still being written can have this name.
        client.sync_if_possible(deadline.since(clock::now())).await?;
    }
    let check = move |client: &ControllerClient| match status::removal_failure(client.state(), &env) {
        Some(removed) => Err(removed.with_exit(Exit::GaveUp)),
        None if is_late => client.read_environment(&env).map(drop),
        None => Ok(()),
    };
    client.run_blocking(check).await
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
    // In a stale status, and in that of an earlier revision, only errors of the file and of the socket are certainly current.
    let is_certain = exit == Exit::SpecRejected || error.code == Code::DockerPermissionDenied;
    if !is_certain && !is_current(status) {
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
    add_warnings(&mut error, status);
    Err(Failure::new(error).with_exit(exit))
}

/// Adds the warnings about the file, which can name the cause, to the details of an error.
pub(super) fn add_warnings(error: &mut StructuredError, status: &EnvironmentStatus) {
    let warnings = format_warnings(status);
    if !warnings.is_empty() {
        error.details.insert("warnings".to_owned(), warnings.into());
    }
}

/// Returns the error behind the condition `Blocked` of an environment that is not ready.
pub(super) fn find_blocking_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
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

#[cfg(test)]
mod tests {
    use argus_crds::diagnostic::Diagnostic;

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
        let mut edited = status(error(Code::BuildFailed));
        edited.revision = Some("r2".to_owned());
        edited.observed_revision = Some("r1".to_owned());
        assert_eq!(exit_of(&check_blocked(&edited)), None);
        edited.observed_revision = Some("r2".to_owned());
        assert_eq!(exit_of(&check_blocked(&edited)), Some(Exit::GaveUp));
        let mut denied = status(error(Code::DockerPermissionDenied));
        denied.stale = true;
        assert_eq!(exit_of(&check_blocked(&denied)), Some(Exit::GaveUp));
        let mut ready = status(error(Code::SpecInvalid));
        ready.phase = Phase::Ready;
        assert_eq!(exit_of(&check_blocked(&ready)), None);
    }

    #[test]
    fn engine_without_an_answer_ends_the_wait_after_its_time() {
        let seen = |code| {
            let status = status(StructuredError::new(code, "why"));
            vec![TargetStatus {
                target: Target::environment("shop"),
                status: Some(status),
            }]
        };
        let at = |seconds: i64| Timestamp(seconds * 1_000);
        let (away, open) = (seen(Code::DockerUnavailable), seen(Code::CircuitOpen));
        let (mut since, mut now) = (None, 0);
        let mut check = |statuses: &[TargetStatus], seconds: i64| {
            now += seconds;
            check_engine(statuses, &mut since, ENGINE_PATIENCE, at(now))
        };
        assert_eq!(check(&away, 5).ok(), Some(Some(at(15))));
        assert_eq!(check(&open, 9).ok(), Some(Some(at(15))), "the same outage");
        assert_eq!(check(&seen(Code::ContainerCrash), 0).ok(), Some(None));
        assert_eq!(check(&away, 1).ok(), Some(Some(at(25))), "the next outage");
        let ended = check(&open, 10).map(drop);
        assert_eq!(exit_of(&ended), Some(Exit::Unreachable));
    }

    #[test]
    fn error_of_a_wait_has_the_warnings_about_the_file() {
        let mut blocked = status(StructuredError::new(Code::BuildFailed, "why"));
        let warning = Diagnostic::warning("services[0].tmpfs", "unknown key `tmpfs`");
        blocked.spec_path = "shop.e2e.yaml".to_owned();
        blocked.diagnostics.push(warning);
        let error = check_blocked(&blocked).expect_err("it is blocked").into_error();
        let expected = serde_json::json!(["shop.e2e.yaml: unknown key `tmpfs`"]);
        assert_eq!(error.details["warnings"], expected);
    }

    #[test]
    fn only_a_live_holder_of_the_lease_ends_the_wait() {
        for (renews, exit) in [(true, Some(Exit::LeaseHeld)), (false, None)] {
            let details = serde_json::json!({ "holder": { "renews": renews } });
            let error = StructuredError::new(Code::LeaseHeld, "why").details(details);
            assert_eq!(exit_of(&check_blocked(&status(error))), exit);
        }
    }
}
