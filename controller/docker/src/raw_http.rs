//! A minimal HTTP client for the disk usage query and the removal of the build cache. `bollard` understands only the format of the newest
//! engines.

use argus_backend::http1::{exchange, format_chain};
use argus_core::outcome::ActionError;
use http_body_util::Full;
use hyper::{Method, Request, StatusCode};
use serde_json::Value;

use crate::connect::{Endpoint, MAX_ANSWER_BYTES, open};
use crate::error::{self, Op};

/// Calls a path of the API, and returns its answer as JSON. The caller sets the deadline.
pub(crate) async fn call(endpoint: &Endpoint, method: Method, path: &str) -> Result<Value, ActionError> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "docker")
        .body(Full::default())
        .map_err(|error| ActionError::Rejected(error.to_string()))?;
    let stream = open(endpoint).await;
    let stream = stream.map_err(|error| ActionError::Unreachable(error.to_string()))?;
    let response = exchange(stream, request, Some(MAX_ANSWER_BYTES)).await;
    let response = response.map_err(|error| ActionError::Unknown(format_chain(&*error)))?;
    if response.status() != StatusCode::OK {
        let message = String::from_utf8_lossy(response.body());
        return Err(error::classify_response(
            Op::Info,
            response.status().as_u16(),
            &message,
        ));
    }
    serde_json::from_slice(response.body()).map_err(|error| ActionError::Unknown(error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn answer_above_the_limit_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let read = stream.read(&mut [0; 4096]).await.unwrap();
            let part = vec![b' '; 1 << 20];
            let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            for _ in 0..=MAX_ANSWER_BYTES / part.len() {
                if written.is_ok() {
                    written = stream.write_all(&part).await;
                }
            }
            assert!(read > 0);
        };
        let endpoint = Endpoint::Unix(path);
        let (answer, ()) = tokio::join!(call(&endpoint, Method::GET, "/system/df"), serve);
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("length limit exceeded"), "{error}");
    }
}
