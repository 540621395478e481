//! TCP probe: successful if the port accepts a connection and does not close it immediately.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::probe_history::ProbeResult;

/// The engine's port proxy accepts connections for a service that does not listen yet, and closes them after its
/// own attempt fails.
const CLOSE_WINDOW: Duration = Duration::from_millis(100);

/// Connects once; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr) -> ProbeResult {
    let mut stream = match TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(error) => return ProbeResult::no_reply(format!("connect to {address}: {error}")),
    };
    let mut byte = [0];
    match tokio::time::timeout(CLOSE_WINDOW, stream.read(&mut byte)).await {
        Ok(Ok(0)) => ProbeResult::no_reply(format!(
            "{address} accepted and closed the connection immediately"
        )),
        Ok(Err(error)) => ProbeResult::no_reply(format!("{address} accepted, then: {error}")),
        Ok(Ok(_)) | Err(_) => ProbeResult::success(format!("{address} accepts")),
    }
}
