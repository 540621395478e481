//! What the service manager that started us is told: that we are ready, how it goes, that we live, that we stop.

use std::sync::Arc;
use std::time::Duration;

use argus_crds::status::Phase;
use argus_reconciler::Snapshot;
use argus_reconciler::supervise::watchdog::EVERY;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::view::StatusDocuments;

/// How often tasks are asked for a sign of life: several times within what the service manager allows.
pub(crate) fn asks_every() -> Duration {
    let allowed = sd_notify::watchdog_enabled().map(|limit| limit / 4);
    allowed.map_or(EVERY, |limit| limit.clamp(Duration::from_millis(100), EVERY))
}

/// The loop that matters goes round.
pub(crate) fn feed() {
    tell(&[NotifyState::Watchdog]);
}

/// Tells when the first list and the first scan are complete, then how the environments are, until the stop.
pub(crate) async fn report(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    mut shown: watch::Receiver<Arc<StatusDocuments>>,
    stop: CancellationToken,
) {
    let mut ready = false;
    let mut last = String::new();
    loop {
        let now = words(&snapshots.borrow_and_update(), &shown.borrow_and_update());
        if now != last {
            tell(&[NotifyState::Status(&now)]);
            last = now;
        }
        if !ready && snapshots.borrow().is_complete() {
            tell(&[NotifyState::Ready]);
            ready = true;
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = snapshots.changed() => {}
            Ok(()) = shown.changed() => {}
            else => break,
        }
    }
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping, containers keep running"),
    ]);
}

fn words(snapshot: &Snapshot, shown: &StatusDocuments) -> String {
    if !snapshot.store.reachable() {
        return match snapshot.store.unreachable_reason() {
            "" => "the engine has not answered yet".to_owned(),
            why => format!(
                "the engine does not answer: {}",
                why.lines().next().unwrap_or_default()
            ),
        };
    }
    let all = shown.environments.len();
    let ready = shown
        .environments
        .values()
        .filter(|status| status.phase == Phase::Ready)
        .count();
    format!("{ready} of {all} environments are ready")
}

/// Without a service manager nobody listens, and that is no trouble.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "service manager is not told");
    }
}
