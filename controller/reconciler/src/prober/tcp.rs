//! TCP probe: successful if the port accepts a connection and does not close it immediately.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::probe_history::ProbeResult;

/// The engine's port proxy accepts connections for a service that does not listen yet, and closes them after its
/// own attempt fails.
const CLOSE_WINDOW: Duration = Duration::from_millis(100);
/// Maximum time of a test of a container's own address.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);
/// Response of a port without a listener.
pub(super) const REFUSED: &str = "connection refused";

/// Connects once; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr) -> ProbeResult {
    let mut stream = match TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(error) => return ProbeResult::no_reply(describe_failure(&error)),
    };
    let mut byte = [0];
    match tokio::time::timeout(CLOSE_WINDOW, stream.read(&mut byte)).await {
        Ok(Ok(0)) => ProbeResult::no_reply("accepted, and closed immediately"),
        Ok(Err(error)) => ProbeResult::no_reply(format!("accepted, then: {error}")),
        Ok(Ok(_)) | Err(_) => ProbeResult::success("connected"),
    }
}

/// True if the address refuses a connection.
pub(super) async fn is_refused(address: SocketAddr) -> bool {
    let connected = tokio::time::timeout(REFUSAL_TIMEOUT, TcpStream::connect(address)).await;
    matches!(connected, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

/// Describes a failed connection in the same words on every host.
pub(super) fn describe_failure(error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::ConnectionRefused {
        return REFUSED.to_owned();
    }
    error.to_string()
}
