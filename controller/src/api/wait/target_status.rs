//! Status of the target of a wait: an environment, or one of its services.

use argus_core::status::is_blocking;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase, ServiceState, ServiceStatus};

use super::goal::{WaitGoal, add_warnings, check_blocked, check_lease};
use crate::api::evidence_store::no_service_failure;
use crate::api::target::Target;
use crate::client::ControllerClient;
use crate::process::exit::{Exit, Failure};
use crate::render::status_text::{format_waits, is_good};

/// Target of a wait, and the status of its environment if it has one.
#[derive(Debug, Clone)]
pub(crate) struct TargetStatus {
    pub(crate) target: Target,
    pub(crate) status: Option<EnvironmentStatus>,
}

impl TargetStatus {
    /// Reads the statuses of the targets, or of all environments.
    pub(super) async fn read(
        client: &ControllerClient,
        targets: Option<&[Target]>,
    ) -> Result<Vec<Self>, Failure> {
        let names = targets.map(|targets| targets.iter().map(|target| target.environment.clone()));
        let names: Option<Vec<String>> = names.map(Iterator::collect);
        let statuses = client.select_statuses(names.as_deref()).await?;
        let create = |(index, (name, status))| {
            let target = targets.and_then(|targets: &[Target]| targets.get(index)).cloned();
            let target = target.unwrap_or_else(|| Target::environment(name));
            Self { target, status }
        };
        Ok(statuses.into_iter().enumerate().map(create).collect())
    }

    /// Row of the service. `None` for an environment, and for a service without a status.
    pub(crate) fn row(&self) -> Option<&ServiceStatus> {
        let service = self.target.service.as_deref()?;
        find_row(self.status.as_ref()?, service)
    }

    pub(super) fn is_reached(&self, goal: WaitGoal) -> bool {
        let status = self.status.as_ref();
        match (&self.target.service, goal) {
            (None, WaitGoal::Gone) => status.is_none(),
            (None, WaitGoal::Ready) => {
                status.is_some_and(|status| status.phase == Phase::Ready && is_current(status))
            }
            (Some(_), WaitGoal::Gone) => {
                status.is_none_or(|status| self.row().is_none() && is_current(status))
            }
            (Some(_), WaitGoal::Ready) => self.row().is_some_and(is_good) && status.is_some_and(is_current),
            (None, WaitGoal::Stopped) => {
                status.is_none_or(|status| status.services.iter().all(|row| is_stopped(status, row)))
            }
            (Some(_), WaitGoal::Stopped) => {
                status.is_none_or(|status| self.row().is_none_or(|row| is_stopped(status, row)))
            }
        }
    }

    /// Fails if the target will not become ready without an intervention.
    pub(super) fn check_blocked(&self) -> Result<(), Failure> {
        match (&self.status, &self.target.service) {
            (None, _) => Ok(()),
            (Some(status), None) => check_blocked(status),
            (Some(status), Some(service)) => check_service(status, service),
        }
    }

    /// Describes the state of a target that has not reached the goal.
    pub(super) fn format_state(&self, goal: WaitGoal) -> String {
        let target = &self.target;
        match self.state_and_waits() {
            None => format!("`{target}` has no status"),
            Some((state, waits)) if goal == WaitGoal::Gone || waits.is_empty() => {
                format!("`{target}` is {state}")
            }
            Some((state, waits)) => format!("`{target}` is {state}: {waits}"),
        }
    }

    /// State in one word, and the waits as text. `None` without a status.
    pub(super) fn state_and_waits(&self) -> Option<(String, String)> {
        let status = self.status.as_ref()?;
        if self.target.service.is_none() {
            return Some((format!("{:?}", status.phase), format_waits(status)));
        }
        let row = self.row()?;
        let waits = row.waiting_on.as_ref().map(|on| on.message.clone());
        Some((format!("{:?}", row.state), waits.unwrap_or_default()))
    }
}

fn find_row<'a>(status: &'a EnvironmentStatus, service: &str) -> Option<&'a ServiceStatus> {
    status.services.iter().find(|row| row.name == service)
}

/// True if a service certainly has no running container.
fn is_stopped(status: &EnvironmentStatus, row: &ServiceStatus) -> bool {
    match row.state {
        ServiceState::Waiting | ServiceState::Completed => true,
        // A given-up container can run until its stop. From the hold on, it is `Stopping`.
        ServiceState::Failed => {
            let mut holds = status.holds.iter();
            holds.any(|hold| hold.service.as_ref() == Some(&row.name))
        }
        ServiceState::Unknown
        | ServiceState::Pulling
        | ServiceState::Building
        | ServiceState::Creating
        | ServiceState::Starting
        | ServiceState::Running
        | ServiceState::Ready
        | ServiceState::Stopping
        | ServiceState::Restarting
        | ServiceState::Paused => false,
    }
}

/// True if the status describes the current content of the file.
pub(super) fn is_current(status: &EnvironmentStatus) -> bool {
    !status.stale && status.revision == status.observed_revision
}

/// Fails for a service that will not become ready without an intervention: it is given up, it waits for a service that is,
/// or its environment is blocked as a whole.
fn check_service(status: &EnvironmentStatus, service: &str) -> Result<(), Failure> {
    check_lease(status)?;
    if status.revision.is_none() {
        return check_blocked(status);
    }
    // A failure of the earlier revision is not one of the edit.
    if !is_current(status) {
        return Ok(());
    }
    let Some(row) = find_row(status, service) else {
        return Err(no_service_failure(status, service));
    };
    let Some(error) = find_blocking_error(status, row) else {
        return Ok(());
    };
    let of = &status.environment;
    let mut error = error.clone();
    error.message = match error.service.as_deref() {
        Some(name) if name == service => format!("service `{of}/{service}` failed: {}", error.message),
        Some(name) => format!(
            "service `{of}/{service}` is blocked: {of}/{name}: {}",
            error.message
        ),
        None => format!("service `{of}/{service}` is blocked: {of}: {}", error.message),
    };
    add_warnings(&mut error, status);
    Err(Failure::new(error).with_exit(Exit::GaveUp))
}

/// Error of the first service in the chain of waits that needs an intervention, or the error of the environment behind the
/// last wait.
fn find_blocking_error<'a>(
    status: &'a EnvironmentStatus,
    service: &'a ServiceStatus,
) -> Option<&'a StructuredError> {
    let mut row = service;
    // A chain is at most as long as the list; a longer one is circular.
    for _ in &status.services {
        if is_good(row) {
            return None;
        }
        // The lease of a dead controller expires.
        let is_final = |error: &&StructuredError| error.code != Code::LeaseHeld && is_blocking(error);
        if let Some(error) = row.last_error.as_ref().filter(is_final) {
            return Some(error);
        }
        let on = row.waiting_on.as_ref()?;
        let Some(next) = on.service.as_deref().and_then(|name| find_row(status, name)) else {
            let mut errors = status.errors.iter().filter(is_final);
            return errors.find(|error| error.service.is_none() && Some(error.code) == on.error);
        };
        row = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{ActiveHold, WaitingOn};
    use serde_json::{Value, json};

    use super::*;

    fn row(name: &str, state: ServiceState) -> ServiceStatus {
        ServiceStatus {
            name: name.to_owned(),
            state,
            ..ServiceStatus::default()
        }
    }

    fn waiting(name: &str, on: &str) -> ServiceStatus {
        let waiting_on = WaitingOn {
            service: Some(on.to_owned()),
            message: format!("`{on}` is not ready"),
            ..WaitingOn::default()
        };
        ServiceStatus {
            waiting_on: Some(waiting_on),
            ..row(name, ServiceState::Waiting)
        }
    }

    fn seen(service: &str, services: Vec<ServiceStatus>) -> TargetStatus {
        TargetStatus {
            target: Target {
                environment: "shop".to_owned(),
                service: Some(service.to_owned()),
            },
            status: Some(EnvironmentStatus {
                environment: "shop".to_owned(),
                phase: Phase::Degraded,
                revision: Some("r1".to_owned()),
                observed_revision: Some("r1".to_owned()),
                services,
                ..EnvironmentStatus::default()
            }),
        }
    }

    fn gave_up(name: &str) -> ServiceStatus {
        let spent = StructuredError::new(Code::ContainerRestartExhausted, "gave up").service(name);
        ServiceStatus {
            last_error: Some(spent),
            ..row(name, ServiceState::Failed)
        }
    }

    fn message(seen: &TargetStatus) -> String {
        let failure = seen.check_blocked().expect_err("the wait ends");
        assert!(matches!(failure, Failure::Error { .. }));
        failure.message().to_owned()
    }

    #[test]
    fn other_service_neither_ends_nor_delays_the_wait() {
        let ready = seen("web", vec![gave_up("api"), row("web", ServiceState::Ready)]);
        assert!(ready.is_reached(WaitGoal::Ready));
        assert!(ready.check_blocked().is_ok());
        let pending = seen("web", vec![gave_up("api"), row("web", ServiceState::Starting)]);
        assert!(!pending.is_reached(WaitGoal::Ready));
        assert!(pending.check_blocked().is_ok());
    }

    #[test]
    fn earlier_revision_does_not_count_as_ready() {
        let mut ready = seen("web", vec![row("web", ServiceState::Ready)]);
        if let Some(status) = &mut ready.status {
            status.revision = Some("r2".to_owned());
        }
        assert!(!ready.is_reached(WaitGoal::Ready));
        assert!(!seen("web", vec![]).is_reached(WaitGoal::Ready));
    }

    #[test]
    fn failure_of_the_earlier_revision_does_not_end_the_wait() {
        let mut failed = seen("db", vec![gave_up("db")]);
        let status = failed.status.as_mut().expect("a status");
        status.revision = Some("r2".to_owned());
        assert!(failed.check_blocked().is_ok());
        let status = failed.status.as_mut().expect("a status");
        status.observed_revision = Some("r2".to_owned());
        assert_eq!(message(&failed), "service `shop/db` failed: gave up");
    }

    #[test]
    fn given_up_service_ends_its_wait_and_of_dependents() {
        let failed = seen("db", vec![gave_up("db")]);
        assert_eq!(message(&failed), "service `shop/db` failed: gave up");
        let chain = vec![waiting("web", "api"), waiting("api", "db"), gave_up("db")];
        assert_eq!(
            message(&seen("web", chain)),
            "service `shop/web` is blocked: shop/db: gave up"
        );
        let circle = seen("web", vec![waiting("web", "api"), waiting("api", "web")]);
        assert!(circle.check_blocked().is_ok());
    }

    #[test]
    fn error_of_the_environment_ends_the_wait_that_it_causes() {
        let mut row = row("web", ServiceState::Waiting);
        row.waiting_on = Some(WaitingOn {
            error: Some(Code::NameConflict),
            ..WaitingOn::default()
        });
        let mut blocked = seen("web", vec![row]);
        assert!(blocked.check_blocked().is_ok(), "it has no error");
        let foreign = StructuredError::new(Code::NameConflict, "the network exists");
        let status = blocked.status.as_mut().expect("a status");
        status.errors.push(foreign);
        assert_eq!(
            message(&blocked),
            "service `shop/web` is blocked: shop: the network exists"
        );
    }

    #[test]
    fn only_a_hold_without_an_end_ends_the_wait() {
        for (until, is_blocked) in [(Value::Null, true), (json!("2026-01-01T00:00:00Z"), false)] {
            let held = StructuredError::new(Code::Held, "it is on hold").details(json!({ "until": until }));
            let error_of_service = ServiceStatus {
                last_error: Some(held.clone().service("web")),
                ..row("web", ServiceState::Waiting)
            };
            let mut error_of_environment = row("web", ServiceState::Waiting);
            error_of_environment.waiting_on = Some(WaitingOn {
                error: Some(Code::Held),
                ..WaitingOn::default()
            });
            for row in [error_of_service, error_of_environment] {
                let mut seen = seen("web", vec![row]);
                seen.status.as_mut().expect("a status").errors = vec![held.clone()];
                assert_eq!(seen.check_blocked().is_err(), is_blocked, "{until}");
            }
        }
    }

    #[test]
    fn stopped_service_has_no_running_container() {
        for (state, is_stopped) in [
            (ServiceState::Ready, false),
            (ServiceState::Stopping, false),
            (ServiceState::Unknown, false),
            (ServiceState::Pulling, false),
            (ServiceState::Building, false),
            (ServiceState::Failed, false),
            (ServiceState::Waiting, true),
            (ServiceState::Completed, true),
        ] {
            let seen = seen("web", vec![row("web", state), row("db", ServiceState::Ready)]);
            assert_eq!(seen.is_reached(WaitGoal::Stopped), is_stopped, "{state:?}");
        }
        let mut held = seen("web", vec![gave_up("web")]);
        held.status.as_mut().expect("a status").holds = vec![ActiveHold {
            service: Some("web".to_owned()),
            ..ActiveHold::default()
        }];
        assert!(held.is_reached(WaitGoal::Stopped), "it has no container to stop");
    }

    #[test]
    fn service_is_gone_without_a_row() {
        assert!(seen("web", vec![]).is_reached(WaitGoal::Gone));
        assert!(!seen("web", vec![row("web", ServiceState::Stopping)]).is_reached(WaitGoal::Gone));
        let unknown = message(&seen("web", vec![row("api", ServiceState::Ready)]));
        assert_eq!(
            unknown,
            "environment `shop` has no service `web`; its services: api"
        );
    }
}
