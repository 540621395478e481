//! A TCP probe: somebody accepts, and does not hang up at once.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::probe_history::ProbeReply;

/// The engine's port proxy accepts for a service that does not listen yet, and hangs up when it cannot reach it.
const HANG_UP: Duration = Duration::from_millis(100);

/// Connects; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr) -> ProbeReply {
    let mut stream = match TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(error) => return ProbeReply::none(format!("connect to {address}: {error}")),
    };
    let mut byte = [0];
    match tokio::time::timeout(HANG_UP, stream.read(&mut byte)).await {
        Ok(Ok(0)) => ProbeReply::none(format!("{address} accepted and hung up at once")),
        Ok(Err(error)) => ProbeReply::none(format!("{address} accepted, then: {error}")),
        Ok(Ok(_)) | Err(_) => ProbeReply::good(format!("{address} accepts")),
    }
}
