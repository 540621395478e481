//! Watchdog: requests heartbeats of all tasks. Invariant 22: it feeds an external watchdog only while the reconcile loop replies.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::heartbeat::{Heartbeats, StuckTaskDetector};

/// Name of the reconcile loop's heartbeat.
pub const RECONCILE_LOOP: &str = "reconcile loop";
/// Interval of the requests.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Number of consecutive missed requests of the loop after which the process ends, so that its service manager
/// restarts it.
pub const MAX_LOOP_MISSES: u32 = 12;

/// Runs until `stop` is cancelled, or until the loop is stuck for too long, which ends the process.
///
/// `feed` is called after each request while the loop replies.
pub async fn run(heartbeats: Heartbeats, every: Duration, feed: impl Fn() + Send, stop: CancellationToken) {
    let mut detector = StuckTaskDetector::new(heartbeats);
    while stop
        .run_until_cancelled(tokio::time::sleep(every))
        .await
        .is_some()
    {
        detector.send_requests();
        for task in detector.newly_stuck() {
            tracing::error!(task, "task is stuck: no heartbeat");
        }
        if detector.is_fresh(RECONCILE_LOOP) {
            feed();
        } else if detector.misses(RECONCILE_LOOP) >= MAX_LOOP_MISSES {
            tracing::error!(task = RECONCILE_LOOP, "reconcile loop is stuck, the process ends");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use argus_core::time::Timestamp;

    use super::*;
    use crate::clock::Clock;
    use crate::supervise::heartbeat::STUCK_AFTER_MISSES;
    use crate::supervise::{Importance, Supervisor};

    /// Runs a watchdog with a loop that answers only the first requests. Returns the number of feeds, and the end.
    async fn run_watchdog(replies: u32, stopped_after: Option<Duration>) -> (u32, Result<(), &'static str>) {
        let (stop, feeds) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let supervisor = Supervisor::new(Clock::virtual_from(Timestamp(0)), stop.clone());
        let heartbeat = supervisor.heartbeats().of(RECONCILE_LOOP);
        supervisor.spawn_once("loop", Importance::Critical, async move {
            for _ in 0..replies {
                heartbeat.requested().await;
                heartbeat.beat();
            }
            std::future::pending::<()>().await;
        });
        let count = feeds.clone();
        let feed = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        supervisor.spawn_once(
            "watchdog",
            Importance::Critical,
            run(
                supervisor.heartbeats().clone(),
                HEARTBEAT_INTERVAL,
                feed,
                stop.clone(),
            ),
        );
        if let Some(after) = stopped_after {
            supervisor.spawn_once("end", Importance::Useful, async move {
                tokio::time::sleep(after).await;
                stop.cancel();
            });
        }
        let end = supervisor.run(Duration::from_secs(1)).await;
        (feeds.load(Ordering::SeqCst), end.map_err(|died| died.task))
    }

    #[tokio::test(start_paused = true)]
    async fn watchdog_is_fed_while_the_loop_runs() {
        let hour = Duration::from_secs(3601);
        assert_eq!(run_watchdog(u32::MAX, Some(hour)).await, (720, Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn stuck_loop_starves_the_watchdog_and_ends_the_process() {
        let (fed, end) = run_watchdog(10, None).await;
        assert_eq!(end, Err("watchdog"));
        // A reply is counted at the next request; then the tolerated misses follow.
        assert_eq!(fed, 11 + STUCK_AFTER_MISSES - 1);
    }
}
