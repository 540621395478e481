//! Signals: the first one asks for a clean stop, the second one for an end at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end the process, subscribed to.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Subscribes; from here on the signals no longer kill the process by themselves.
    pub fn subscribe() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Cancels `stop` at the first signal and returns at the second; the caller then exits with 130.
    pub async fn second(mut self, stop: CancellationToken) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping; a second signal ends it at once");
        stop.cancel();
        let name = self.next().await;
        tracing::warn!(signal = name, "second signal");
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
