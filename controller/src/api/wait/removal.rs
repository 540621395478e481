//! Removal of environments through the running controller.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Phase, ServiceStatus};
use argus_reconciler::clock;
use tokio::sync::mpsc;

use super::goal;
use super::goal::{WaitGoal, WaitLimits};
use super::target_status::TargetStatus;
use crate::api::commands::Down;
use crate::api::target::Target;
use crate::api::{Context, Operation as _};
use crate::process::exit::{Exit, Failure};
use crate::render::status_text::format_waits;
use crate::view::Statuses;

/// Time until the first report of a removal, and between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time that the removal by a controller in this process waits for the engine.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of services in a report.
const MAX_SERVICES: usize = 3;

/// Removes environments, with their named volumes on request, and waits until they are gone. A failure does not keep the others. After a
/// second, `report` receives the environments that still exist, and again after each change.
pub(crate) async fn remove_environments(
    context: &Context,
    names: &[String],
    volumes: bool,
    timeout: Duration,
    mut report: impl FnMut(&str),
) -> Result<(), Failure> {
    let seen = RefCell::new(None::<Vec<TargetStatus>>);
    let show = |statuses: &[TargetStatus]| drop(seen.replace(Some(statuses.to_vec())));
    tokio::select! {
        biased;
        removed = remove(context, names, volumes, timeout, show) => removed,
        never = report_changes(&seen, &mut report) => match never {},
    }
}

/// Reports the statuses whenever their description has changed.
async fn report_changes(
    seen: &RefCell<Option<Vec<TargetStatus>>>,
    report: &mut impl FnMut(&str),
) -> Infallible {
    let mut reported = String::new();
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let text = match seen.borrow().as_deref() {
            None => "waiting until the controller has read its specs folder".to_owned(),
            Some(seen) => format_remaining(seen),
        };
        if text != reported && !text.is_empty() {
            report(&text);
            reported = text;
        }
    }
}

async fn remove(
    context: &Context,
    names: &[String],
    volumes: bool,
    timeout: Duration,
    mut show: impl FnMut(&[TargetStatus]),
) -> Result<(), Failure> {
    let deadline = clock::now() + timeout;
    let mut failed = None;
    for environment in names.iter().cloned() {
        let down = Down { environment, volumes };
        let removed = down.run(context).await;
        failed = failed.or(removed.err());
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let client = &context.client;
    if client.in_process_parts().is_some() {
        // This controller ends after the removal, so no other one would remove the environments later.
        client.wait_for(ENGINE_TIMEOUT, is_engine_reachable).await?;
    }
    let statuses = client.statuses().await?;
    if is_engine_reachable(&statuses).is_none() {
        let mut errors = statuses.controller.errors.iter().cloned();
        if let Some(refusal) = errors
            .clone()
            .find(|error| error.code == Code::DockerPermissionDenied)
        {
            return Err(Failure::new(refusal));
        }
        let outage = errors.find(|error| error.code == Code::DockerUnavailable);
        let message = "the engine does not answer; Argus removes the environments when it is back";
        // The status error contains the reconnect attempts and the time of the next one.
        return Err(Failure::new(StructuredError {
            message: message.to_owned(),
            ..outage.unwrap_or_else(|| StructuredError::new(Code::DockerUnavailable, message))
        }));
    }
    let targets: Vec<Target> = names.iter().map(Target::environment).collect();
    loop {
        let (sender, mut returned) = mpsc::unbounded_channel();
        let mut removals = Removals::default();
        let show = |seen: &[TargetStatus]| {
            for environment in removals.find_returned(seen) {
                drop(sender.send(environment));
            }
            show(seen);
        };
        let left = deadline.since(clock::now());
        let gone = goal::wait_until(
            client,
            Some(&targets),
            WaitGoal::Gone,
            WaitLimits::of_time(left),
            show,
        );
        tokio::select! {
            biased;
            gone = gone => return gone.map(drop),
            // An edit of its spec file during the removal.
            Some(environment) = returned.recv() => drop(Down { environment, volumes }.run(context).await?),
        }
    }
}

/// Fails for a removal that another controller prevents, or that waits for the end of a hold without a limit.
pub(super) fn check_blocked(statuses: &[TargetStatus]) -> Result<(), Failure> {
    let statuses = statuses.iter().filter_map(|seen| seen.status.as_ref());
    let mut removed = statuses.filter(|status| status.phase == Phase::Terminating);
    removed.clone().try_for_each(goal::check_lease)?;
    let held = removed.find_map(|status| {
        let error = goal::find_blocking_error(status)?;
        (error.code == Code::Held).then_some((status, error))
    });
    let Some((status, error)) = held else {
        return Ok(());
    };
    let (env, why) = (&status.environment, &error.message);
    let message = format!("the removal of `{env}` waits: {why}");
    let error = StructuredError {
        message,
        ..error.clone()
    };
    Err(Failure::new(error).with_exit(Exit::GaveUp))
}

/// Environments whose removal has started.
#[derive(Debug, Default)]
struct Removals(BTreeSet<String>);

impl Removals {
    /// Returns the environments that exist again after the start of their removal.
    fn find_returned(&mut self, seen: &[TargetStatus]) -> Vec<String> {
        let mut returned = Vec::new();
        for TargetStatus { target, status } in seen {
            let name = &target.environment;
            if status
                .as_ref()
                .is_none_or(|status| status.phase == Phase::Terminating)
            {
                self.0.insert(name.clone());
            } else if self.0.contains(name) {
                returned.push(name.clone());
            }
        }
        returned
    }
}

fn is_engine_reachable(statuses: &Statuses) -> Option<()> {
    let engine = statuses.controller.engine.as_ref();
    engine.is_none_or(|engine| engine.reachable).then_some(())
}

/// Describes the environments that still exist; empty without any.
fn format_remaining(seen: &[TargetStatus]) -> String {
    let parts = seen.iter().filter_map(|seen| {
        let status = seen.status.as_ref()?;
        let (rows, more) = status.services.split_at(status.services.len().min(MAX_SERVICES));
        let mut waits: Vec<String> = rows.iter().map(format_row).collect();
        if !more.is_empty() {
            waits.push(format!("{} more", more.len()));
        }
        // Only networks remain, or the controller has not started the removal.
        if waits.is_empty() || status.phase != Phase::Terminating {
            waits = vec![format!("{:?}", status.phase)];
            waits.extend(Some(format_waits(status)).filter(|reason| !reason.is_empty()));
        }
        Some(format!(
            "waiting for the removal of `{}`: {}",
            seen.target,
            waits.join("; ")
        ))
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn format_row(row: &ServiceStatus) -> String {
    let on = row.waiting_on.as_ref().map(|on| format!(" ({})", on.message));
    format!("`{}` is {:?}{}", row.name, row.state, on.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{EnvironmentStatus, ServiceState, WaitingOn};

    use super::*;

    fn seen(phase: Phase, services: Vec<ServiceStatus>) -> [TargetStatus; 1] {
        [TargetStatus {
            target: Target::environment("shop"),
            status: Some(EnvironmentStatus {
                phase,
                services,
                ..EnvironmentStatus::default()
            }),
        }]
    }

    #[test]
    fn report_names_what_remains() {
        let row = |name: &str, message: Option<&str>| ServiceStatus {
            name: name.to_owned(),
            state: ServiceState::Stopping,
            waiting_on: message.map(|message| WaitingOn {
                message: message.to_owned(),
                ..WaitingOn::default()
            }),
            ..ServiceStatus::default()
        };
        let stopping = vec![row("db", Some("`web` stops first")), row("web", None)];
        assert_eq!(
            format_remaining(&seen(Phase::Terminating, stopping)),
            "waiting for the removal of `shop`: `db` is Stopping (`web` stops first); `web` is Stopping"
        );
        let many = ["a", "b", "c", "d", "e"].map(|name| row(name, None)).to_vec();
        let report = format_remaining(&seen(Phase::Terminating, many));
        assert!(report.ends_with("`c` is Stopping; 2 more"), "{report}");
        let report = format_remaining(&seen(Phase::Ready, vec![row("db", None)]));
        assert_eq!(report, "waiting for the removal of `shop`: Ready");
        let [mut gone] = seen(Phase::Terminating, Vec::new());
        gone.status = None;
        assert_eq!(format_remaining(&[gone]), "");
    }

    #[test]
    fn removal_ends_with_the_error_of_a_live_holder() {
        for (phase, renews, is_ended) in [
            (Phase::Terminating, true, true),
            (Phase::Terminating, false, false),
            (Phase::Pending, true, false),
        ] {
            let mut held = seen(phase, Vec::new());
            let details = serde_json::json!({ "holder": { "renews": renews } });
            let error = StructuredError::new(Code::LeaseHeld, "why").details(details);
            held[0].status.as_mut().expect("a status").errors.push(error);
            assert_eq!(check_blocked(&held).is_err(), is_ended, "{phase:?} {renews}");
        }
    }

    #[test]
    fn environment_that_an_edit_brings_back_is_removed_again() {
        let mut removals = Removals::default();
        for (phase, returned) in [
            (Phase::Ready, 0),
            (Phase::Terminating, 0),
            (Phase::Progressing, 1),
            (Phase::Ready, 1),
        ] {
            let found = removals.find_returned(&seen(phase, Vec::new()));
            assert_eq!(found, vec!["shop"; returned], "{phase:?}");
        }
    }
}
