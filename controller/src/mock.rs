//! The mock server: one mock, from one file, on one port.
//!
//! It is made to be the only process of a container from scratch: as process 1, as any user, with nothing writable. The file
//! is looked at before each answer rather than watched: whoever replaced it is answered by the new one from then on, and a
//! watch on a file that is put into a container from outside sees only some of the ways in which it can be put there.

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

/// How long a stop waits for the requests in flight.
const GRACE: Duration = Duration::from_secs(1);
/// More connections than this wait until others end: each may hold a body of 10 MiB.
const MOST: usize = 4_096;

/// Serves the mock of a file until a signal ends it.
pub(crate) async fn run(file: PathBuf, listen: Option<SocketAddr>) -> Result<Exit, Failure> {
    let fault = |doing: &str, error: &io::Error| Failure::fault(doing, error);
    // As process 1 nothing ends it but its own handlers, and without one SIGHUP would.
    let signals = Signals::subscribe().map_err(|error| fault("cannot take signals", &error))?;
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| fault("cannot take signals", &error))?;
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
    let asked = async {
        while let Some(()) = hangup.recv().await {
            shared.look(true).await;
        }
    };
    tokio::select! {
        () = serve => Ok(Exit::Done),
        () = signals.second(stop) => Ok(Exit::Interrupted),
        () = asked => Ok(Exit::Unexpected),
    }
}

/// All addresses, those of IPv6 among them where the system has it.
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
    let take = |stream: TcpStream, open: &mut TaskSet<(), ()>| {
        open.start((), connection::serve(stream, shared.clone(), stop.clone()));
    };
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MOST => match accepted {
                Ok((stream, _)) => take(stream, &mut open),
                // As when the process has no file left to open: what is open goes on, and a pause keeps this from spinning.
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
            _ = open.next_ended() => {}
            () = stop.cancelled() => break,
        }
    }
    // Whoever is connected already, though nobody took the connection yet, is answered as well.
    while let Ok(Ok((stream, _))) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
        take(stream, &mut open);
    }
    drop(listener);
    let finish = async {
        while !open.is_empty() {
            drop(open.next_ended().await);
        }
    };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::warn!(connections = open.len(), "cut off: not finished within the grace");
    }
}
