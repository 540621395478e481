//! Listeners: limits on the number of connections and on slow clients, and a graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::{Listener, ListenerExt as _};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::write_timeout::WriteTimeout;

/// Maximum number of connections; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 1_024;
/// Maximum time to read the head of a request, and to keep an idle connection. Clients close an idle connection after 4 or 5 s: if the
/// server closes it at the same moment, the next request fails.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time that a client can read nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Grace period for requests in progress when the controller stops.
const GRACE: Duration = Duration::from_secs(2);
/// Delay before the next attempt to bind an address that is in use.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Serves on a unix socket until `stop`.
pub(crate) async fn listen_on_socket(path: PathBuf, app: Router, stop: CancellationToken) -> io::Result<()> {
    let listener = bind(&path)?;
    serve(listener, app, stop).await;
    // A missing socket shows clients that no controller runs.
    drop(std::fs::remove_file(&path));
    Ok(())
}

/// Serves on an address until `stop`; `bound` contains the address during that time.
pub(crate) async fn listen_on_address(
    wanted: SocketAddr,
    app: impl Fn(SocketAddr) -> Router,
    bound: watch::Sender<Option<SocketAddr>>,
    stop: CancellationToken,
) {
    let mut is_logged = false;
    let listener = loop {
        match TcpListener::bind(wanted).await {
            Ok(listener) => break listener,
            Err(error) if !is_logged => {
                tracing::warn!(%wanted, %error, "cannot listen for HTTP; retrying, the unix socket still works");
                is_logged = true;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_DELAY) => {}
        }
    };
    let at = listener.local_addr().unwrap_or(wanted);
    bound.send_replace(Some(at));
    tracing::info!(address = %at, "HTTP");
    // Send small responses without delay.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    serve(listener, app(at), stop).await;
    bound.send_replace(None);
}

/// Binds the socket. The controller holds the lock, so an existing socket belongs to a dead controller.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder has mode 0700, so no other user can connect between bind and chmod.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn serve(mut listener: impl Listener, app: Router, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await.0)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            (permit, stream) = next => {
                let connection = serve_connection(stream, app.clone(), stop.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
        }
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    drop(tokio::time::timeout(GRACE, all).await);
}

async fn serve_connection<S>(stream: S, app: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT)),
            TowerToHyperService::new(app),
        );
    let mut connection = pin!(connection);
    // Errors of a connection concern only its client.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
