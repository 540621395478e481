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
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failure};
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
    let finish = async {
        while !open.is_empty() {
            drop(open.next_ended().await);
        }
    };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::warn!(
            connections = open.len(),
            "closing connections: requests did not finish within the grace period"
        );
    }
}
