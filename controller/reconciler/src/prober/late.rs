//! HTTP probes after their timeout: the time of their answer, which a longer timeout would have accepted.

use std::net::SocketAddr;
use std::time::Duration;

use argus_core::desired::HttpOptions;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::http;
use super::probe_history::ProbeResult;
use crate::clock::Stopwatch;

/// A request without an answer yet.
pub(super) struct Request {
    started: Stopwatch,
    answer: BoxFuture<'static, ProbeResult>,
}

impl Request {
    /// Creates a request, which is sent by the first wait for its answer.
    pub(super) fn start(address: SocketAddr, path: &str, options: &HttpOptions) -> Self {
        let (path, options) = (path.to_owned(), options.clone());
        Self {
            started: Stopwatch::start(),
            answer: async move { http::probe(address, &path, &options).await }.boxed(),
        }
    }

    /// Waits for the answer for this time. `None` without an answer.
    pub(super) async fn within(&mut self, timeout: Duration) -> Option<ProbeResult> {
        tokio::time::timeout(timeout, &mut self.answer).await.ok()
    }

    /// Waits for the answer until this time after the start. Returns the time of a successful answer. Its text is dropped.
    pub(super) async fn finish(self, limit: Duration) -> Option<Duration> {
        let rest = limit.saturating_sub(self.started.elapsed());
        let reply = tokio::time::timeout(rest, self.answer).await.ok()?;
        reply.success.then(|| self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Sends one request with a timeout of 100 ms to a server that answers after `delay`. Returns the time of the late answer.
    async fn late_answer(delay: Duration, status: &'static str) -> Option<Duration> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /slow "));
            tokio::time::sleep(delay).await;
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            // The client may be gone.
            drop(stream.write_all(answer.as_bytes()).await);
            std::future::pending::<()>().await;
        };
        let timeout = Duration::from_millis(100);
        let client = async {
            let mut request = Request::start(address, "/slow", &HttpOptions::default());
            assert_eq!(request.within(timeout).await, None);
            request.finish(timeout * 5).await
        };
        tokio::select! {
            () = server => None,
            took = client => took,
        }
    }

    #[tokio::test]
    async fn late_answer_has_its_time() {
        let took = late_answer(Duration::from_millis(250), "200 OK").await.unwrap();
        assert!(took >= Duration::from_millis(250), "{took:?}");
    }

    #[tokio::test]
    async fn late_error_and_silence_have_no_time() {
        assert_eq!(
            late_answer(Duration::from_millis(150), "503 Unavailable").await,
            None
        );
        assert_eq!(late_answer(Duration::from_secs(60), "200 OK").await, None);
    }
}
