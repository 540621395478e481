//! Transport of calls: a connection per call, and a maximum size of the answers that the client collects in memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use argus_core::outcome::ActionError;
use bollard::BollardRequest;
use bollard::errors::Error;
use futures::TryFutureExt as _;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::{Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tower_service::Service;

use super::{Endpoint, tls};

/// Maximum size of an answer that is read as a whole, in bytes.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Ends of the paths whose answers are read in parts: streams of events, logs, builds and pulls, and sessions of builds.
const STREAMS: [&str; 7] = [
    "/events",
    "/logs",
    "/build",
    "/images/create",
    "/attach",
    "/session",
    "/grpc",
];

/// Connection to an engine.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to an engine.
pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    Ok(match endpoint {
        Endpoint::Unix(socket) => Box::new(UnixStream::connect(socket).await?),
        Endpoint::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        Endpoint::Tls(address, certificates) => {
            let connected = tls::connect(address, certificates).await;
            Box::new(connected.map_err(|error| match error {
                ActionError::Unreachable(why) => io::Error::other(why),
                other => io::Error::other(other.to_string()),
            })?)
        }
    })
}

/// Returns the transport of a client.
pub(super) fn new(
    endpoint: &Endpoint,
) -> impl Fn(BollardRequest) -> BoxFuture<'static, Result<Response<Incoming>, Error>> + Send + Sync + 'static
{
    let client = |max_bytes| {
        Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(Connector {
                endpoint: endpoint.clone(),
                max_bytes,
            })
    };
    let (bounded, unbounded) = (client(Some(MAX_ANSWER_BYTES)), client(None));
    move |request: BollardRequest| {
        let client = if is_stream(request.uri().path()) {
            &unbounded
        } else {
            &bounded
        };
        Box::pin(client.request(request).map_err(Error::from))
    }
}

fn is_stream(path: &str) -> bool {
    let is_exec = path.contains("/exec/") && path.ends_with("/start");
    is_exec || STREAMS.iter().any(|end| path.ends_with(end))
}

/// Opens connections, whatever the address of a request is.
#[derive(Debug, Clone)]
struct Connector {
    endpoint: Endpoint,
    /// Maximum number of bytes that a connection reads.
    max_bytes: Option<usize>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Bounded>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { endpoint, max_bytes } = self.clone();
        Box::pin(async move {
            let stream = open(&endpoint).await?;
            Ok(TokioIo::new(Bounded {
                stream,
                left: max_bytes,
            }))
        })
    }
}

/// A connection that reads a limited number of bytes, and then fails.
struct Bounded {
    stream: Box<dyn Stream>,
    /// Number of bytes that it can still read.
    left: Option<usize>,
}

impl Connection for Bounded {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        let Some(left) = self.left.as_mut() else {
            return read;
        };
        let Some(rest) = left.checked_sub(bytes) else {
            let mib = MAX_ANSWER_BYTES / (1024 * 1024);
            let error = io::Error::other(format!("the answer of the engine is larger than {mib} MiB"));
            return Poll::Ready(Err(error));
        };
        *left = rest;
        read
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bollard::query_parameters::LogsOptions;
    use futures::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;
    use crate::call;
    use crate::error::Op;

    const MIB: usize = 1024 * 1024;
    /// Size of an answer in MiB, larger than permitted.
    const SIZE: usize = 80;

    /// An engine that answers every request with frames of a log. They are not JSON.
    async fn serve(listener: UnixListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            assert!(head[..read].ends_with(b"\r\n\r\n"));
            let frame = [&[1, 0, 0, 0, 0, 0x10, 0, 0][..], &vec![b'x'; MIB]].concat();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            for _ in 0..SIZE {
                // The client closes the connection at its limit.
                if stream.write_all(&frame).await.is_err() {
                    break;
                }
            }
        }
    }

    #[tokio::test]
    async fn answer_without_end_fails_and_a_long_log_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let client = crate::connect::Connection::new(Endpoint::Unix(path))
            .client()
            .unwrap();
        let calls = async {
            let limit = Duration::from_secs(60);
            let failed = call::run(Op::Info, limit, client.version()).await.unwrap_err();
            assert!(
                matches!(&failed, ActionError::ConnectionLost(why) if why.contains("larger than 64 MiB")),
                "{failed:?}"
            );
            let options = LogsOptions {
                stdout: true,
                ..LogsOptions::default()
            };
            let parts = client.logs("web", Some(options));
            let sizes = parts.map(|part| part.unwrap().into_bytes().len());
            assert_eq!(
                sizes.fold(0, |sum, size| async move { sum + size }).await,
                SIZE * MIB
            );
        };
        tokio::select! {
            () = calls => {}
            () = serve(listener) => panic!("the engine ended"),
        }
    }

    #[test]
    fn only_answers_in_parts_have_no_limit() {
        for path in ["/v1.53/events", "/containers/x/logs", "/build", "/exec/x/start"] {
            assert!(is_stream(path), "{path}");
        }
        for path in [
            "/containers/json",
            "/containers/x/start",
            "/exec/x/json",
            "/info",
            "/images/x/json",
        ] {
            assert!(!is_stream(path), "{path}");
        }
    }
}
