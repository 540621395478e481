//! A minimal HTTP client for the disk usage query. `bollard` understands only the format of the newest engines.

use argus_backend::http1::{exchange, format_chain};
use argus_core::outcome::ActionError;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use crate::connect::{Endpoint, connect_tls};
use crate::error::{self, Op};

/// Maximum response size, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Reads a path of the API as JSON. The caller sets the deadline.
pub(crate) async fn get(endpoint: &Endpoint, path: &str) -> Result<Value, ActionError> {
    let unreachable = |error: std::io::Error| ActionError::Unreachable(error.to_string());
    let request = Request::get(path)
        .header("host", "docker")
        .body(Full::default())
        .map_err(|error| ActionError::Rejected(error.to_string()))?;
    let limit = Some(MAX_RESPONSE_BYTES);
    let response = match endpoint {
        Endpoint::Unix(socket) => {
            let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
            exchange(stream, request, limit).await
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await.map_err(unreachable)?;
            exchange(stream, request, limit).await
        }
        Endpoint::Tls(address, certificates) => {
            let stream = connect_tls(address, certificates).await?;
            exchange(stream, request, limit).await
        }
    };
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
