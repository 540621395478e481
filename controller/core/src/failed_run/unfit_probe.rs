//! Health checks that do not fit their containers, so that no restart can help.

use std::net::SocketAddr;

use super::{FailedRun, FailureCause, probe_program};

impl FailedRun {
    /// Returns whether the health check does not fit the container, so that no restart can help: each recorded output shows that its
    /// program is not in the image, or that a service which was never healthy listens elsewhere.
    pub fn has_unfit_probe(&self) -> bool {
        let listening = self
            .evidence
            .as_ref()
            .and_then(|evidence| evidence.listening.as_ref());
        let was_healthy = self.healthy_duration.is_some_and(|time| !time.is_zero());
        let listening = listening.filter(|_| !was_healthy && self.failed_dependency.is_none());
        let is_elsewhere =
            |output: &String| listening.is_some_and(|listening| is_elsewhere(output, listening));
        let mut outputs = self.probe_output.iter();
        self.cause == FailureCause::Unhealthy
            && !self.probe_output.is_empty()
            && outputs.all(|output| probe_program::is_missing(output) || is_elsewhere(output))
    }
}

/// Returns whether a probe was refused because the container listens on another port, or only inside on this one. A restart starts the
/// same program.
fn is_elsewhere(output: &str, listening: &[SocketAddr]) -> bool {
    let Some(port) = refused_port(output) else {
        return false;
    };
    let is_inside = |at: &&SocketAddr| at.ip().to_canonical().is_loopback();
    let (inside, outside): (Vec<_>, Vec<_>) = listening.iter().partition(is_inside);
    let is_of_port = |at: &&SocketAddr| at.port() == port;
    // The engine has listeners of its own inside, such as its name server.
    !outside.iter().any(is_of_port) && (!outside.is_empty() || inside.iter().any(is_of_port))
}

/// Port in the result of a probe from outside, such as `GET / on :8080: connection refused`.
fn refused_port(output: &str) -> Option<u16> {
    let request = output.strip_suffix(": connection refused")?;
    let request = request.strip_suffix(" with TLS").unwrap_or(request);
    let (before, port) = request.rsplit_once(':')?;
    let is_outside = before == "connect to " || (before.ends_with(" on ") && !before.starts_with("exec "));
    is_outside.then(|| port.parse().ok())?
}
