//! Batches of writes: one write for all changes within a short time, and fewer writes while changes continue.

use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Stopwatch;

/// Bytes per second that continuing changes write at most.
const RATE: u64 = 16 * 1024;
/// Maximum time between two writes because of their bytes.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Delay between a change and its write. It grows while changes continue, with their number and with the written bytes, so that the start
/// of many services does not write the same file hundreds of times.
#[derive(Debug)]
pub(crate) struct WriteBatch {
    /// Delay of a single change. A change that a client waits for is written immediately, or this time after the last write.
    shortest: Duration,
    longest: Duration,
    delay: Duration,
    /// Time since the last write.
    written: Option<Stopwatch>,
    /// Time from the last write to the next one, from its number of bytes.
    pause: Duration,
}

impl WriteBatch {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Self {
        Self {
            shortest,
            longest,
            delay: shortest,
            written: None,
            pause: Duration::ZERO,
        }
    }

    /// Waits until the current value must be written. `is_awaited` reports whether a client waits for the write of a value. Ends early if
    /// the sender is dropped.
    pub(crate) async fn wait<T>(&mut self, values: &mut watch::Receiver<T>, is_awaited: impl Fn(&T) -> bool) {
        let since = Stopwatch::start();
        let continues = self.written.is_some_and(|written| written.elapsed() < self.delay);
        self.delay = if continues {
            (self.delay * 2).min(self.longest)
        } else {
            self.shortest
        };
        let delay = self.delay.max(self.due_in());
        loop {
            let rest = if is_awaited(&values.borrow_and_update()) {
                self.written.map_or(Duration::ZERO, |written| {
                    self.shortest.saturating_sub(written.elapsed())
                })
            } else {
                delay.saturating_sub(since.elapsed())
            };
            tokio::select! {
                () = tokio::time::sleep(rest) => return,
                changed = values.changed() => if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// Time until the written bytes permit the next write that no client waits for.
    pub(crate) fn due_in(&self) -> Duration {
        let elapsed = self.written.map_or(Duration::MAX, Stopwatch::elapsed);
        self.pause.saturating_sub(elapsed)
    }

    /// Records the end of a write of this number of bytes.
    pub(crate) fn on_written(&mut self, bytes: usize) {
        self.written = Some(Stopwatch::start());
        self.pause = Duration::from_millis(bytes as u64 * 1_000 / RATE).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(400);

    /// Times of the writes in milliseconds, for changes at these times. A change to an odd number is awaited.
    async fn writes(changes: &[(u64, u32)]) -> Vec<u64> {
        let (sender, mut values) = watch::channel(0);
        let start = Stopwatch::start();
        let change = async move {
            for (at, value) in changes {
                tokio::time::sleep(Duration::from_millis(*at).saturating_sub(start.elapsed())).await;
                sender.send_replace(*value);
            }
            // The last change is written before the sender is dropped.
            tokio::time::sleep(LONGEST * 2).await;
        };
        let write = async {
            let (mut batch, mut times) = (WriteBatch::new(SHORTEST, LONGEST), Vec::new());
            while values.changed().await.is_ok() {
                batch.wait(&mut values, |value| value % 2 == 1).await;
                times.push(u64::try_from(start.elapsed().as_millis()).unwrap());
                batch.on_written(0);
            }
            times
        };
        tokio::join!(change, write).1
    }

    #[tokio::test(start_paused = true)]
    async fn single_changes_are_written_soon() {
        assert_eq!(
            writes(&[(0, 2), (1_000, 4), (1_030, 6), (2_000, 8)]).await,
            [50, 1_050, 2_050]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn burst_of_changes_costs_few_writes() {
        let changes: Vec<(u64, u32)> = (0..1_000).map(|number| (number * 10, 2)).collect();
        let times = writes(&changes).await;
        assert_eq!(times.len(), 28, "{times:?}");
        assert!(times.last() >= Some(&9_990), "the last change is written");
    }

    #[tokio::test(start_paused = true)]
    async fn awaited_change_ends_the_delay_of_a_burst() {
        let mut changes: Vec<(u64, u32)> = (0..200).map(|number| (number * 10, 2)).collect();
        changes[150].1 = 3;
        let times = writes(&changes).await;
        assert!(times.contains(&1_500), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn awaited_change_only_waits_for_a_write_just_before_it() {
        assert_eq!(
            writes(&[(0, 1), (20, 3), (1_000, 2), (1_010, 5)]).await,
            [0, 50, 1_010]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn many_bytes_delay_only_writes_that_no_client_awaits() {
        for (number, expected) in [(2, 1_000), (3, 50)] {
            let (sender, mut values) = watch::channel(0);
            let mut batch = WriteBatch::new(SHORTEST, LONGEST);
            batch.on_written(16 * 1024);
            let start = Stopwatch::start();
            sender.send_replace(number);
            batch.wait(&mut values, |value| value % 2 == 1).await;
            assert_eq!(start.elapsed(), Duration::from_millis(expected));
            batch.on_written(usize::MAX / 2_000);
            assert_eq!(batch.due_in(), MAX_PAUSE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_sender_ends_the_delay() {
        let (sender, mut values) = watch::channel(0);
        let mut batch = WriteBatch::new(SHORTEST, LONGEST);
        sender.send_replace(2);
        drop(sender);
        let start = Stopwatch::start();
        batch.wait(&mut values, |_| false).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
