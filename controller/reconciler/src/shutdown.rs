//! Signals: the first one requests a clean stop, the second one ends the process immediately.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Subscription to the signals that end a process.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Subscribes. From now on the signals no longer kill the process.
    pub fn subscribe() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Cancels `stop` at the first signal and returns at the second; the caller then exits with 130.
    pub async fn wait_for_second(mut self, stop: CancellationToken) {
        let name = self.next().await;
        tracing::info!(
            signal = name,
            "stopping; a second signal ends the process immediately"
        );
        stop.cancel();
        let name = self.next().await;
        tracing::warn!(signal = name, "second signal");
    }

    /// Returns at the next signal.
    pub async fn received(&mut self) {
        self.next().await;
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
