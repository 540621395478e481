//! Listeners: limits on the number of connections and on slow clients, and a graceful shutdown.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::{Listener, ListenerExt as _};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::limits::ReservedConnection;
use super::write_timeout::WriteTimeout;

/// Maximum number of connections; more wait in the kernel's queue.
const CONNECTIONS: Capacity = Capacity {
    all: 1_024,
    reserved: 64,
};
/// Number of open files that all connections and tasks need.
const OPEN_FILES: u64 = 4_096;
/// Maximum lifetime of a reserved connection, which serves one health check.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to read the head of a request, and to keep an idle connection. Clients close an idle connection after 4 or 5 s: if the
/// server closes it at the same moment, the next request fails.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time that a client can read nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Grace period for requests in progress when the controller stops.
const GRACE: Duration = Duration::from_secs(2);

/// Number of connections of a listener.
#[derive(Debug, Clone, Copy)]
struct Capacity {
    /// All connections.
    all: usize,
    /// Connections that only serve health checks and metrics, if all others are in use.
    reserved: usize,
}

/// Serves on a unix socket until `stop`.
pub(crate) async fn listen_on_socket(
    listener: UnixListener,
    path: &Path,
    app: Router,
    stop: CancellationToken,
) {
    raise_file_limit();
    serve(listener, app, stop, CONNECTIONS).await;
    // A missing socket shows clients that no controller runs.
    drop(std::fs::remove_file(path));
}

/// Serves on a TCP address until `stop`.
pub(super) async fn serve_address(listener: TcpListener, app: Router, stop: CancellationToken) {
    let listener = listener.tap_io(|stream| {
        // Send small responses without delay.
        drop(stream.set_nodelay(true));
        limit_unread_time(stream, WRITE_TIMEOUT);
    });
    serve(listener, app, stop, CONNECTIONS).await;
}

/// Binds the socket. The controller holds the lock, so an existing socket belongs to a dead controller.
pub(crate) fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder has mode 0700, so no other user can connect between bind and chmod.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Raises the limit of open files, because the default of many systems is lower than the number of connections.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        // With fewer files, connections wait.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Lets the kernel close a connection whose client does not take sent data within a time. [`WriteTimeout`] sees only data that does not
/// fit into the kernel's buffer.
fn limit_unread_time(stream: &TcpStream, limit: Duration) {
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    // Without the option, the write timeout remains.
    let _ = set_tcp_user_timeout(stream, millis);
}

async fn serve(mut listener: impl Listener, app: Router, stop: CancellationToken, capacity: Capacity) {
    let permits = Arc::new(Semaphore::new(capacity.all));
    let common = Arc::new(Semaphore::new(capacity.all - capacity.reserved));
    let reserved_app = app.clone().layer(Extension(ReservedConnection));
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
                if let Ok(place) = common.clone().try_acquire_owned() {
                    let connection = serve_connection(stream, app.clone(), stop.clone(), true);
                    tasks.spawn(async move {
                        connection.await;
                        drop((permit, place));
                    });
                } else {
                    let connection = serve_connection(stream, reserved_app.clone(), stop.clone(), false);
                    tasks.spawn(async move {
                        drop(tokio::time::timeout(RESERVED_TIMEOUT, connection).await);
                        drop(permit);
                    });
                }
            }
        }
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    drop(tokio::time::timeout(GRACE, all).await);
}

pub(super) async fn serve_connection<S>(stream: S, app: Router, stop: CancellationToken, keep_alive: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(keep_alive)
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

#[cfg(test)]
mod tests {
    use argus_core::time::Timestamp;
    use argus_reconciler::clock::Clock;
    use axum::body::Body;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::net::UnixStream;

    use super::*;
    use crate::client::ControllerClient;
    use crate::http::{BODY_TIMEOUT, Guard, assert_passed, routes};
    use crate::settings::{Options, Settings, SpecOptions};

    /// Sends a request and returns the whole response.
    async fn exchange(path: &Path, target: &str) -> String {
        let mut stream = UnixStream::connect(path).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: argus\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    /// All routes, without a controller.
    fn all_routes(dir: &Path, stop: CancellationToken) -> Router {
        let options = Options {
            state: Some(dir.join("state")),
            ..Options::default()
        };
        let client = ControllerClient::remote(Settings::resolve(&options, &SpecOptions::default()).unwrap());
        routes(client, Guard::Socket, stop)
    }

    #[tokio::test]
    async fn health_checks_have_reserved_connections() {
        let dir = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let path = dir.path().join("socket");
        let app = all_routes(dir.path(), stop.clone());
        let listener = bind_socket(&path).unwrap();
        let capacity = Capacity { all: 4, reserved: 2 };
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, app, stop.clone(), capacity));
        let mut idle = Vec::new();
        for _ in 0..2 {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            // A response shows that the server has accepted the connection.
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: argus\r\n\r\n")
                .await
                .unwrap();
            stream.read_u8().await.unwrap();
            idle.push(stream);
        }
        let refused = exchange(&path, "/api/v1/environments").await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(
            refused.contains("retry-after: 5\r\n") && refused.contains("\"retryable\":true"),
            "{refused}"
        );
        for _ in 0..3 {
            let healthy = exchange(&path, "/healthz").await;
            assert!(healthy.starts_with("HTTP/1.1 200 "), "{healthy}");
        }
        // An unused reserved connection does not keep its place.
        let unused = [
            UnixStream::connect(&path).await.unwrap(),
            UnixStream::connect(&path).await.unwrap(),
        ];
        let healthy = exchange(&path, "/healthz").await;
        assert!(healthy.starts_with("HTTP/1.1 200 "), "{healthy}");
        drop((unused, idle));
        stop.cancel();
        serving.join_all().await;
    }

    #[tokio::test]
    async fn connection_with_unread_data_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = tokio::net::TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(4 * 1024).unwrap();
        let client = client.connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let (_client, (mut stream, _)) = (client.unwrap(), accepted.unwrap());
        limit_unread_time(&stream, Duration::from_millis(200));
        // The kernel takes all of it, but the client's buffer does not.
        stream.write_all(&vec![7; 48 * 1024]).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(60), stream.read_u8()).await;
        let error = closed.expect("the kernel closes the connection").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_head_or_body_ends_the_connection() {
        let dir = tempfile::tempdir().unwrap();
        let app = all_routes(dir.path(), CancellationToken::new());
        let body = "POST /api/v1/commands/retry HTTP/1.1\r\nhost: argus\r\ncontent-length: 40\r\n\r\n{";
        for (request, response, limit) in [
            ("GET /healthz HTTP/1.1\r\nhost: ar", "", HEAD_TIMEOUT),
            (body, "HTTP/1.1 408 ", BODY_TIMEOUT),
        ] {
            let (server, mut client) = duplex(4_096);
            let mut serving = JoinSet::new();
            serving.spawn(serve_connection(
                server,
                app.clone(),
                CancellationToken::new(),
                true,
            ));
            let clock = Clock::virtual_from(Timestamp(0));
            client.write_all(request.as_bytes()).await.unwrap();
            let mut received = [0; 4_096];
            let length = client.read(&mut received).await.unwrap();
            assert_passed(clock, limit);
            let received = String::from_utf8_lossy(&received[..length]);
            assert!(received.starts_with(response), "{received}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_is_closed() {
        let (server, mut client) = duplex(1_024);
        let endless = || async {
            Body::from_stream(futures::stream::repeat_with(|| {
                Ok::<_, io::Error>(vec![7_u8; 4_096])
            }))
        };
        let app = Router::new().route("/", axum::routing::get(endless));
        let mut serving = JoinSet::new();
        serving.spawn(serve_connection(server, app, CancellationToken::new(), true));
        let clock = Clock::virtual_from(Timestamp(0));
        let request = b"GET / HTTP/1.1\r\nhost: argus\r\n\r\n";
        client.write_all(request).await.unwrap();
        serving.join_next().await.unwrap().unwrap();
        assert_passed(clock, WRITE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn request_after_an_unread_body_is_answered() {
        let (server, mut client) = duplex(1_024);
        // The response does not fit into the buffer of the connection, and no handler reads a body.
        let large = axum::routing::get(|| async { "x".repeat(4_096) });
        let app = Router::new().route("/", large);
        let mut serving = JoinSet::new();
        serving.spawn(serve_connection(server, app, CancellationToken::new(), true));
        let unread = "GET / HTTP/1.1\r\nhost: argus\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n1";
        let next = "POST / HTTP/1.1\r\nhost: argus\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
        let requests = format!("{unread}{next}");
        client.write_all(requests.as_bytes()).await.unwrap();
        let mut responses = String::new();
        let read = client.read_to_string(&mut responses);
        let ended = tokio::time::timeout(Duration::from_secs(600), read).await;
        ended.expect("the connection ends").unwrap();
        assert!(responses.contains("HTTP/1.1 405 "), "{responses}");
    }
}
