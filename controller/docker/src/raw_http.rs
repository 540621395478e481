//! A minimal HTTP client for the disk usage query. `bollard` understands only the format of the newest engines.

use std::io;

use argus_core::outcome::ActionError;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::connect::Endpoint;
use crate::error;

/// Maximum response size, in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;

/// Reads a path of the API as JSON. The caller sets the deadline.
pub(crate) async fn get(endpoint: &Endpoint, path: &str) -> Result<Value, ActionError> {
    let unreachable = |error: io::Error| ActionError::Unreachable(error.to_string());
    let broken = |error: io::Error| ActionError::Unknown(error.to_string());
    let response = match endpoint {
        Endpoint::Unix(socket) => {
            let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
            exchange(stream, path).await
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await.map_err(unreachable)?;
            exchange(stream, path).await
        }
    };
    let (status, body) = parse_response(&response.map_err(broken)?).map_err(broken)?;
    if status != 200 {
        return Err(error::classify_response(
            error::Op::Info,
            status,
            &String::from_utf8_lossy(&body),
        ));
    }
    serde_json::from_slice(&body).map_err(|error| ActionError::Unknown(error.to_string()))
}

/// Sends an HTTP/1.0 request: without chunks, the body extends to the end of the connection.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> io::Result<Vec<u8>> {
    let request = format!("GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response).await?;
    Ok(response)
}

fn parse_response(response: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the response is truncated");
    let end = response
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(cut)?;
    let head = String::from_utf8_lossy(&response[..end]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(cut)?, response[end + 4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_a_status_and_a_body() {
        let response = parse_response(b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n{}").unwrap();
        assert_eq!(response, (200, b"{}".to_vec()));
        assert!(parse_response(b"HTTP/1.0 200 OK\r\n").is_err());
        assert!(parse_response(b"").is_err());
    }
}
