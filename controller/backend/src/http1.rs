//! One HTTP/1.1 request over an open connection: the HTTP client of all crates.

use std::error::Error;
use std::pin::pin;

use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends a request and reads the response with a body of at most `max_body` bytes; `None` leaves the body unread.
///
/// The connection is closed afterwards. The caller sets the deadline.
///
/// # Errors
/// The connection failed, the response is not HTTP, or its body is too long.
pub async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    max_body: Option<usize>,
) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    exchange_observed(stream, request, max_body, || {}).await
}

/// Sends a request like [`exchange`], and calls `on_head` when the headers of the response have arrived.
///
/// # Errors
/// Those of [`exchange`].
pub async fn exchange_observed<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    max_body: Option<usize>,
    on_head: impl FnOnce(),
) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let response = pin!(async move {
        let (head, body) = sender.send_request(request).await?.into_parts();
        on_head();
        let body = match max_body {
            Some(limit) => Limited::new(body, limit).collect().await?.to_bytes(),
            None => Bytes::new(),
        };
        Ok(Response::from_parts(head, body))
    });
    // The connection makes progress only while its future is polled.
    match select(response, pin!(connection)).await {
        Either::Left((response, _)) => response,
        Either::Right((_, response)) => response.await,
    }
}

/// Formats an error with its chain of causes, each once; `hyper` stores the reason in the source.
pub fn format_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_chain_contains_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read `x`")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk is gone"));
        assert_eq!(format_chain(&error), "cannot read `x`: disk is gone");
    }
}
