//! Asks all tasks for signs of life, and keeps a watchdog fed for as long as the loop that matters answers.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::heartbeat::{Heartbeats, StallCheck};

/// The task without which nothing is reconciled.
pub const LOOP: &str = "reconcile loop";
/// How often tasks are asked.
pub const EVERY: Duration = Duration::from_secs(5);
/// Questions without an answer after which the whole is given up, so that whoever started it starts it again.
pub const GIVEN_UP: u32 = 12;

/// Asks until it is stopped, or until the loop has been stuck for too long; that is the end of the process.
///
/// `feed` is called after each question at which the loop was fresh.
pub async fn run(pulses: Heartbeats, every: Duration, feed: impl Fn() + Send, stop: CancellationToken) {
    let mut doctor = StallCheck::new(pulses);
    while stop
        .run_until_cancelled(tokio::time::sleep(every))
        .await
        .is_some()
    {
        doctor.ask();
        for task in doctor.newly_stuck() {
            tracing::error!(task, "task is stuck: it does not answer");
        }
        if doctor.is_fresh(LOOP) {
            feed();
        } else if doctor.misses(LOOP) >= GIVEN_UP {
            tracing::error!(task = LOOP, "nothing is reconciled any more, the process ends");
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
    use crate::supervise::heartbeat::MISSES;
    use crate::supervise::{Importance, Supervisor};

    /// A supervisor with a watchdog and a loop that answers only the first questions; how often it was fed, and the end.
    async fn life(answers: u32, stopped_after: Option<Duration>) -> (u32, Result<(), &'static str>) {
        let (stop, fed) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let supervisor = Supervisor::new(Clock::virtual_from(Timestamp(0)), stop.clone());
        let pulse = supervisor.pulses().of(LOOP);
        supervisor.spawn_once("loop", Importance::Critical, async move {
            for _ in 0..answers {
                pulse.requested().await;
                pulse.beat();
            }
            std::future::pending::<()>().await;
        });
        let meals = fed.clone();
        let give = move || {
            meals.fetch_add(1, Ordering::SeqCst);
        };
        supervisor.spawn_once(
            "watchdog",
            Importance::Critical,
            run(supervisor.pulses().clone(), EVERY, give, stop.clone()),
        );
        if let Some(after) = stopped_after {
            supervisor.spawn_once("end", Importance::Useful, async move {
                tokio::time::sleep(after).await;
                stop.cancel();
            });
        }
        let end = supervisor.run(Duration::from_secs(1)).await;
        (fed.load(Ordering::SeqCst), end.map_err(|died| died.task))
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_fed_while_the_loop_goes_round() {
        let hour = Duration::from_secs(3601);
        assert_eq!(life(u32::MAX, Some(hour)).await, (720, Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_loop_starves_the_watchdog_and_ends_the_process() {
        let (fed, end) = life(10, None).await;
        assert_eq!(end, Err("watchdog"));
        // The answer to a question is counted at the next one; then come those that are forgiven.
        assert_eq!(fed, 11 + MISSES - 1);
    }
}
