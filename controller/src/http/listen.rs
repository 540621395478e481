//! Connections: taken in up to a number, given little time for their heads, and ended in good order.

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

/// Connections at once; who comes after that waits in the kernel's queue.
const CONNECTIONS: usize = 1_024;
/// A head that is not here after this is not waited for.
const HEAD: Duration = Duration::from_secs(5);
/// Who takes nothing of an answer for this long is not waited for.
const UNREAD: Duration = Duration::from_secs(30);
/// What is under way when the controller stops gets this long.
const GRACE: Duration = Duration::from_secs(2);
/// An address that is taken is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves on a unix socket until it is stopped.
pub(crate) async fn socket(path: PathBuf, app: Router, stop: CancellationToken) -> io::Result<()> {
    let listener = bind(&path)?;
    serve(listener, app, stop).await;
    // Whoever finds no socket knows that nobody listens.
    drop(std::fs::remove_file(&path));
    Ok(())
}

/// Serves on an address until it is stopped; `told` says where, as long as it does.
pub(crate) async fn address(
    wanted: SocketAddr,
    app: impl Fn(SocketAddr) -> Router,
    told: watch::Sender<Option<SocketAddr>>,
    stop: CancellationToken,
) {
    let mut said = false;
    let listener = loop {
        match TcpListener::bind(wanted).await {
            Ok(listener) => break listener,
            Err(error) if !said => {
                tracing::warn!(%wanted, %error, "cannot listen for HTTP; trying again, the socket serves");
                said = true;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
    };
    let at = listener.local_addr().unwrap_or(wanted);
    told.send_replace(Some(at));
    tracing::info!(address = %at, "HTTP");
    // Small answers go at once.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    serve(listener, app(at), stop).await;
    told.send_replace(None);
}

/// The lock is ours, so a socket that lies there is a dead controller's.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder is 0700 already: between bind and this nobody else gets in.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn serve(mut listener: impl Listener, app: Router, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let next = async {
            // Never closed.
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await.0)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            (permit, stream) = next => {
                let talk = talk(stream, app.clone(), stop.clone());
                tasks.spawn(async move {
                    talk.await;
                    drop(permit);
                });
            }
        }
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    drop(tokio::time::timeout(GRACE, all).await);
}

async fn talk<S>(stream: S, app: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream, UNREAD)),
            TowerToHyperService::new(app),
        );
    let mut connection = pin!(connection);
    // How a conversation ends is the other side's business.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
