//! Mock server: one mock from one file on one port.
//!
//! It runs as the only process of a container from scratch: as process 1, as any user, without writable files.
//!
//! It checks the file before each response instead of watching it, so a replaced file takes effect with the next request.
//! A watch would miss some of the ways in which a file can be put into a container from outside.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_reconciler::shutdown::Signals;
use argus_reconciler::supervise::task_set::TaskSet;
use hyper::HeaderMap;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::process::exit::{Exit, Failure};
use state::Shared;

mod admin;
mod connection;
mod proxy;
mod recordings;
mod reload;
mod state;

/// Maximum time that a stop waits for requests in progress.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum number of open connections, because each can hold a body of 10 MiB.
const MAX_CONNECTIONS: usize = 4_096;

/// Returns headers as texts.
fn header_texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let headers = headers.iter();
    headers
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}

/// Serves the mock of a file until a signal.
pub(crate) async fn run(file: PathBuf, listen: Option<SocketAddr>) -> Result<Exit, Failure> {
    let fault = |doing: &str, error: &io::Error| Failure::operation_failed(doing, error);
    // The kernel ends process 1 only by signals with a handler, and SIGHUP must reload the file.
    let signals = Signals::subscribe().map_err(|error| fault("cannot subscribe to signals", &error))?;
    let mut hangup =
        signal(SignalKind::hangup()).map_err(|error| fault("cannot subscribe to signals", &error))?;
    let shared = Arc::new(Shared::load(file).await?);
    let listener = bind(listen, shared.port())
        .await
        .map_err(|error| fault("cannot listen", &error))?;
    let address = listener
        .local_addr()
        .map_err(|error| fault("cannot listen", &error))?;
    tracing::info!(mock = shared.name(), %address, "serving");
    let stop = CancellationToken::new();
    let serve = serve(listener, shared.clone(), stop.clone());
    let reloads = async {
        while let Some(()) = hangup.recv().await {
            shared.reload(true).await;
        }
    };
    tokio::select! {
        () = serve => Ok(Exit::Done),
        () = signals.wait_for_second(stop) => Ok(Exit::Interrupted),
        () = reloads => Ok(Exit::Unexpected),
    }
}

/// Binds all addresses, including IPv6 if the system supports it.
async fn bind(listen: Option<SocketAddr>, port: u16) -> io::Result<TcpListener> {
    if let Some(address) = listen {
        return TcpListener::bind(address).await;
    }
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut open: TaskSet<(), ()> = TaskSet::default();
    let serve_stream = |stream: TcpStream, open: &mut TaskSet<(), ()>| {
        open.start((), connection::serve(stream, shared.clone(), stop.clone()));
    };
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => serve_stream(stream, &mut open),
                // Such as without free file descriptors. Open connections continue, and the pause avoids a busy loop.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
            _ = open.next_ended() => {}
            () = stop.cancelled() => break,
        }
    }
    // Serve connections that the kernel has already accepted.
    while let Ok(Ok((stream, _))) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
        serve_stream(stream, &mut open);
    }
    drop(listener);
    finish(open).await;
}

/// Waits for the requests in progress, at most for the grace period. Then it closes their connections.
async fn finish(mut open: TaskSet<(), ()>) {
    let all_ended = async {
        while !open.is_empty() {
            drop(open.next_ended().await);
        }
    };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::warn!(
            connections = open.len(),
            "closing connections: requests did not finish within the grace period"
        );
    }
}

#[cfg(test)]
mod tests {
    use argus_core::time::Timestamp;
    use argus_reconciler::clock::Clock;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// A mock that stops while requests are in progress.
    struct StoppingMock {
        _dir: tempfile::TempDir,
        shared: Arc<Shared>,
        stop: CancellationToken,
        open: TaskSet<(), ()>,
    }

    impl StoppingMock {
        async fn start() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("mock.json");
            let route = |path: &str, delay: &str| json!({ "method": "GET", "path": path, "response": { "delay": delay, "body": "late" } });
            let routes = [route("/slow", "500ms"), route("/stuck", "1h")];
            let config = json!({ "version": 1, "name": "m", "mock": { "port": 1, "routes": routes }, "document": null });
            std::fs::write(&file, config.to_string()).unwrap();
            Self {
                _dir: dir,
                shared: Arc::new(Shared::load(file).await.unwrap()),
                stop: CancellationToken::new(),
                open: TaskSet::default(),
            }
        }

        /// Sends a request on a connection of its own.
        async fn request(&mut self, path: &str) -> DuplexStream {
            let (server, mut client) = duplex(4_096);
            let serving = connection::serve_requests(server, self.shared.clone(), self.stop.clone());
            self.open.start((), serving);
            let head = format!("GET {path} HTTP/1.1\r\nhost: m\r\n\r\n");
            client.write_all(head.as_bytes()).await.unwrap();
            client
        }

        /// Stops it 100 ms after the requests. Returns the time until its end.
        async fn finish(self) -> Duration {
            // Paused time advances only while every task waits, so all requests are in progress now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let clock = Clock::virtual_from(Timestamp(0));
            self.stop.cancel();
            finish(self.open).await;
            clock.now().since(Timestamp(0))
        }
    }

    /// Reads until the mock closes the connection.
    async fn read(mut client: DuplexStream) -> String {
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        response
    }

    fn is_near(duration: Duration, expected: Duration) -> bool {
        duration >= expected && duration < expected + Duration::from_millis(10)
    }

    #[tokio::test(start_paused = true)]
    async fn stop_ends_with_the_last_open_request() {
        let mut mock = StoppingMock::start().await;
        let slow = mock.request("/slow").await;
        let took = mock.finish().await;
        assert!(is_near(took, Duration::from_millis(400)), "{took:?}");
        let response = read(slow).await;
        assert!(
            response.starts_with("HTTP/1.1 200 ") && response.ends_with("late"),
            "{response}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stop_closes_requests_after_the_grace_period() {
        let mut mock = StoppingMock::start().await;
        let (slow, stuck) = (mock.request("/slow").await, mock.request("/stuck").await);
        let took = mock.finish().await;
        assert!(is_near(took, GRACE), "{took:?}");
        assert!(read(slow).await.ends_with("late"));
        assert_eq!(read(stuck).await, "");
    }
}
