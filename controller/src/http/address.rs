//! Listener of the HTTP address, and its token, which ends when another process has the address.
//!
//! Clients send the token to any process that listens on the address. So the token is removed before anything else if the address
//! cannot be bound, and a new one exists only after it is bound.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use argus_core::outcome::PortOwner;
use argus_reconciler::clock;
use argus_reconciler::state_dir::StateDir;
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::listen::serve_address;
use super::token::{Token, create_token, discard_token, load_token};
use crate::view::http_address::{HttpAddress, LostAddress, RETRY_DELAY};

/// Listener of the address, with the reports of its state.
#[derive(Debug, Clone)]
pub(crate) struct AddressListener {
    pub(crate) wanted: SocketAddr,
    /// State directory with the token.
    pub(crate) state: StateDir,
    pub(crate) reports: watch::Sender<HttpAddress>,
    /// Notified after each report, so that the status shows it.
    pub(crate) reported: Arc<Notify>,
    pub(crate) stop: CancellationToken,
}

impl AddressListener {
    /// Serves HTTP on the address until the controller stops.
    pub(crate) async fn run(self, app: impl Fn(Guard) -> Router) {
        let Some((listener, token)) = self.bind().await else {
            return;
        };
        let at = listener.local_addr().unwrap_or(self.wanted);
        self.report(HttpAddress::Bound(at));
        tracing::info!(address = %at, "HTTP");
        serve_address(listener, app(Guard::Address { at, token }), self.stop.clone()).await;
        self.report(HttpAddress::Unbound);
    }

    /// Binds the address, and returns the token for it. `None` when the controller stops before.
    async fn bind(&self) -> Option<(TcpListener, Token)> {
        let mut is_lost = false;
        loop {
            let bound = TcpListener::bind(self.wanted).await.and_then(|listener| {
                let token = if is_lost {
                    create_token(&self.state)
                } else {
                    load_token(&self.state)
                };
                Ok((listener, token?))
            });
            match bound {
                Ok(bound) => return Some(bound),
                Err(error) if !is_lost => {
                    is_lost = true;
                    self.report_loss(&error).await;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(RETRY_DELAY) => {}
            }
        }
    }

    async fn report_loss(&self, error: &io::Error) {
        discard_token(&self.state);
        let wanted = self.wanted;
        let holder = if error.kind() == ErrorKind::AddrInUse {
            // It reads the files of all processes.
            let found = tokio::task::spawn_blocking(move || argus_docker::port_holder(wanted)).await;
            Some(found.unwrap_or(PortOwner::Unknown))
        } else {
            None
        };
        let lost = LostAddress {
            wanted,
            since: clock::now(),
            cause: error.to_string(),
            holder,
        };
        tracing::warn!(
            error = lost.to_error().message,
            "cannot listen for HTTP; retrying"
        );
        self.report(HttpAddress::Lost(lost));
    }

    fn report(&self, state: HttpAddress) {
        self.reports.send_replace(state);
        self.reported.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::{Class, Code, Severity};
    use tokio::task::JoinSet;

    use super::*;

    fn fixture(wanted: SocketAddr) -> (tempfile::TempDir, AddressListener) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let listener = AddressListener {
            wanted,
            state,
            reports: watch::Sender::default(),
            reported: Arc::default(),
            stop: CancellationToken::new(),
        };
        (dir, listener)
    }

    #[tokio::test(start_paused = true)]
    async fn lost_address_ends_the_token_and_names_the_holder() {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_dir, listener) = fixture(other.local_addr().unwrap());
        let token = listener.state.private().join("token");
        let old = load_token(&listener.state).unwrap();
        let mut states = listener.reports.subscribe();
        let (stop, reported) = (listener.stop.clone(), listener.reported.clone());
        let (guards, mut served) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(listener.clone().run(move |guard| {
            guards.send_replace(Some(guard));
            Router::new()
        }));
        let lost = states.wait_for(|state| state.lost().is_some()).await.unwrap();
        let error = lost.lost().unwrap().to_error();
        drop(lost);
        reported.notified().await;
        assert!(!token.exists(), "a client could send it to the other process");
        assert_eq!(
            (error.code, error.severity, error.class),
            (Code::PortConflict, Severity::Warning, Class::Transient)
        );
        let own = format!("held by process {}", std::process::id());
        assert!(error.message.contains(&own), "{}", error.message);
        drop(other);
        let bound = states.wait_for(|state| state.bound().is_some()).await.unwrap();
        assert_eq!(bound.bound(), Some(listener.wanted));
        drop(bound);
        let guard = served.wait_for(Option::is_some).await.unwrap().clone();
        let Some(Guard::Address { token: new, .. }) = guard else {
            panic!("{guard:?}");
        };
        assert_ne!(new, old);
        assert_eq!(load_token(&listener.state).unwrap(), new);
        stop.cancel();
        tasks.join_all().await;
        assert_eq!(*listener.reports.borrow(), HttpAddress::Unbound);
    }

    #[tokio::test]
    async fn free_address_keeps_the_token() {
        let (_dir, listener) = fixture("127.0.0.1:0".parse().unwrap());
        let old = load_token(&listener.state).unwrap();
        let (_, token) = listener.bind().await.unwrap();
        assert_eq!(token, old);
    }
}
