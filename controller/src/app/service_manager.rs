//! Notifications for the service manager (systemd): readiness, status, watchdog, stop.

use std::sync::Arc;
use std::time::Duration;

use argus_crds::status::Phase;
use argus_reconciler::Snapshot;
use argus_reconciler::supervise::watchdog::HEARTBEAT_INTERVAL;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::view::Statuses;

/// Interval of heartbeats: a quarter of the service manager's watchdog timeout, at most [`HEARTBEAT_INTERVAL`].
pub(crate) fn heartbeat_interval() -> Duration {
    let allowed = sd_notify::watchdog_enabled().map(|limit| limit / 4);
    allowed.map_or(HEARTBEAT_INTERVAL, |limit| {
        limit.clamp(Duration::from_millis(100), HEARTBEAT_INTERVAL)
    })
}

/// Resets the watchdog timer of the service manager.
pub(crate) fn ping_watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// Reports readiness after the first list and scan, then the number of ready environments, until the stop.
pub(crate) async fn report(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    mut statuses: watch::Receiver<Arc<Statuses>>,
    stop: CancellationToken,
) {
    let mut ready = false;
    let mut last = String::new();
    loop {
        let now = format_status(&snapshots.borrow_and_update(), &statuses.borrow_and_update());
        if now != last {
            notify(&[NotifyState::Status(&now)]);
            last = now;
        }
        if !ready && snapshots.borrow().is_complete() {
            notify(&[NotifyState::Ready]);
            ready = true;
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = snapshots.changed() => {}
            Ok(()) = statuses.changed() => {}
            else => break,
        }
    }
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping, containers keep running"),
    ]);
}

fn format_status(snapshot: &Snapshot, statuses: &Statuses) -> String {
    if !snapshot.store.is_reachable() {
        return match snapshot.store.unreachable_reason() {
            "" => "waiting for the engine".to_owned(),
            reason => format!(
                "the engine does not answer: {}",
                reason.lines().next().unwrap_or_default()
            ),
        };
    }
    let all = statuses.environments.len();
    let ready = statuses
        .environments
        .values()
        .filter(|status| status.phase == Phase::Ready)
        .count();
    format!("{ready} of {all} environments are ready")
}

/// Notifies the service manager, if there is one.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_have_their_interval_without_a_service_manager() {
        assert_eq!(heartbeat_interval(), Duration::from_secs(5));
    }
}
