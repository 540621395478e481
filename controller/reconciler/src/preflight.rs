//! Preflight task: checks engine, disk and state directory on request, and publishes a [`PreflightSnapshot`].

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use argus_backend::host_path::folder::Folder;
use argus_backend::{Backend, HOST_FACTS_TIMEOUT};
use argus_core::observed::Store;
use argus_core::preflight::{Fact, HostFacts, PreflightSnapshot};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::state_dir::StateDir;

/// Channels of the preflight task.
#[derive(Debug, Clone)]
pub(crate) struct PreflightIo {
    /// Request for a check; many waiting requests cause one check.
    pub(crate) wanted: Arc<Notify>,
    /// Notified when a spec or one of its inputs has changed. A check then runs before the plan needs it, unless its facts are fresh.
    pub(crate) noticed: Arc<Notify>,
    /// Store of the informer. A reconnected engine is checked again.
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    pub(crate) preflights: watch::Sender<Arc<PreflightSnapshot>>,
}

/// Checks until `stop` is cancelled: after the engine becomes reachable, on request, and when a file changes. The planner knows when the
/// last check is old.
pub(crate) async fn run<B: Backend>(
    backend: Arc<B>,
    state: StateDir,
    mut channels: PreflightIo,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut is_reachable = false;
    loop {
        let is_due = tokio::select! {
            () = stop.cancelled() => return,
            () = channels.wanted.notified() => true,
            () = channels.noticed.notified() => is_reachable && !channels.preflights.borrow().is_fresh(clock.now()),
            changed = channels.stores.changed() => {
                if changed.is_err() {
                    return;
                }
                let before = std::mem::replace(&mut is_reachable, channels.stores.borrow_and_update().is_reachable());
                is_reachable && !before
            }
        };
        if is_due {
            let preflight = run_checks(backend.as_ref(), &state, clock).await;
            tracing::debug!(?preflight, "preflight");
            channels.preflights.send_replace(Arc::new(preflight));
        }
    }
}

/// Runs one check. It always ends: facts that do not arrive in time are unknown.
async fn run_checks<B: Backend>(backend: &B, state: &StateDir, clock: Clock) -> PreflightSnapshot {
    let late = || format!("no answer within {} s", HOST_FACTS_TIMEOUT.as_secs());
    // The backend has its own limits; this one applies if it exceeds them.
    let host = tokio::time::timeout(HOST_FACTS_TIMEOUT * 3, backend.host_facts());
    let (host, journal) = tokio::join!(host, check_state_dir_writable(state));
    PreflightSnapshot {
        at: Some(clock.now()),
        host: host.unwrap_or_else(|_| HostFacts::unknown(&late())),
        journal: match journal {
            Ok(()) => Fact::Known(Ok(())),
            Err(error) => Fact::Known(Err(error.to_string())),
        },
    }
}

/// Checks that the state directory accepts writes, with a sync to disk.
///
/// # Errors
/// Cause of the failure, or a timeout.
pub async fn check_state_dir_writable(state: &StateDir) -> io::Result<()> {
    let folder = state.private();
    let task = tokio::task::spawn_blocking(move || try_to_write(&folder));
    match tokio::time::timeout(HOST_FACTS_TIMEOUT, task).await {
        Ok(task) => task.map_err(io::Error::other)?,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", HOST_FACTS_TIMEOUT.as_secs()),
        )),
    }
}

/// Writes, syncs and removes a file that does not fit on a full disk.
pub(crate) fn try_to_write(folder: &Path) -> io::Result<()> {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    // Unique name per attempt: the controller, a command and an HTTP client may write in parallel.
    let number = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let name = OsString::from(format!(".preflight.{}.{number}", std::process::id()));
    let folder = Folder::open(folder)?;
    let mut file = folder.create_file(&name, 0o600)?;
    let written = file.write_all(&[b'\n'; 4096]).and_then(|()| file.sync_all());
    let removed = folder.remove(&name);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use argus_core::observed::WatchEvent;
    use argus_core::time::Timestamp;

    use super::*;
    use crate::fake_backend::FakeBackend;

    #[tokio::test]
    async fn checks_run_after_a_connect_and_on_request_only() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let (stores, seen) = watch::channel(Arc::<Store>::default());
        let (preflights, mut published) = watch::channel(Arc::<PreflightSnapshot>::default());
        let (wanted, noticed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let channels = PreflightIo {
            wanted: wanted.clone(),
            noticed: noticed.clone(),
            stores: seen,
            preflights,
        };
        let (stop, backend) = (CancellationToken::new(), Arc::new(FakeBackend::empty()));
        let task = run(backend, state.clone(), channels, Clock::system(), stop.clone());
        let script = async {
            let mut store = Store::default();
            store.apply(WatchEvent::Connected(Timestamp(1)));
            stores.send_replace(Arc::new(store.clone()));
            published.changed().await.unwrap();
            assert_eq!(published.borrow_and_update().journal, Fact::Known(Ok(())));
            // The engine is still connected: no check is needed.
            stores.send_replace(Arc::new(store));
            let quiet = tokio::time::timeout(Duration::from_millis(50), published.changed()).await;
            assert!(quiet.is_err());
            // The facts are fresh: an edit needs no check either.
            noticed.notify_one();
            let quiet = tokio::time::timeout(Duration::from_millis(50), published.changed()).await;
            assert!(quiet.is_err());
            std::fs::remove_dir_all(state.private()).unwrap();
            wanted.notify_one();
            published.changed().await.unwrap();
            let preflight = published.borrow_and_update().clone();
            assert!(matches!(&preflight.journal, Fact::Known(Err(why)) if !why.is_empty()));
            assert!(preflight.at.is_some());
            stop.cancel();
        };
        tokio::join!(task, script);
    }
}
