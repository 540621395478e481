//! The surveyor: looks at engine, disk and state directory when somebody needs to know, and publishes what it saw.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use argus_backend::{Backend, HOST_FACTS};
use argus_core::observed::Store;
use argus_core::preflight::{HostFacts, Observation, PreflightSnapshot};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::state_dir::StateDir;

/// What the surveyor listens to, and where it tells.
#[derive(Debug, Clone)]
pub(crate) struct PreflightIo {
    /// Somebody waits for a look; many who wait are one look.
    pub(crate) wanted: Arc<Notify>,
    /// An engine that answers anew is looked at anew.
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    pub(crate) preflights: watch::Sender<Arc<PreflightSnapshot>>,
}

/// Surveys until it is stopped: when the engine comes within reach, and when it is asked to; never by itself.
pub(crate) async fn run<B: Backend>(
    backend: Arc<B>,
    state: StateDir,
    mut lines: PreflightIo,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut within_reach = false;
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            () = lines.wanted.notified() => true,
            changed = lines.stores.changed() => {
                if changed.is_err() {
                    return;
                }
                let before = std::mem::replace(&mut within_reach, lines.stores.borrow_and_update().reachable());
                within_reach && !before
            }
        };
        if asked {
            let preflight = take(backend.as_ref(), &state, clock).await;
            tracing::debug!(?preflight, "survey");
            lines.preflights.send_replace(Arc::new(preflight));
        }
    }
}

/// One look. It always ends: what does not answer in time is not known.
async fn take<B: Backend>(backend: &B, state: &StateDir, clock: Clock) -> PreflightSnapshot {
    let late = || format!("no answer within {} s", HOST_FACTS.as_secs());
    // The backend keeps its own limits; nobody waits for one that does not.
    let ground = tokio::time::timeout(HOST_FACTS * 3, backend.host_facts());
    let (ground, journal) = tokio::join!(ground, journal(state));
    PreflightSnapshot {
        at: Some(clock.now()),
        host: ground.unwrap_or_else(|_| HostFacts::unknown(&late())),
        journal: match journal {
            Ok(()) => Observation::Known(Ok(())),
            Err(error) => Observation::Known(Err(error.to_string())),
        },
    }
}

/// Whether the state directory takes what is written to it, down to the disk.
///
/// # Errors
/// Why it does not, or that it did not answer in time.
pub async fn journal(state: &StateDir) -> io::Result<()> {
    let folder = state.private();
    let tried = tokio::task::spawn_blocking(move || try_to_write(&folder));
    match tokio::time::timeout(HOST_FACTS, tried).await {
        Ok(tried) => tried.map_err(io::Error::other)?,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", HOST_FACTS.as_secs()),
        )),
    }
}

fn try_to_write(folder: &Path) -> io::Result<()> {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    // One name for each try: the controller, a command and who asks over HTTP may try at once.
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".preflight.{}.{number}", std::process::id()));
    let written = std::fs::File::create(&path).and_then(|mut file| {
        file.write_all(&[b'\n'; 4096])?;
        file.sync_all()
    });
    let removed = std::fs::remove_file(&path);
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
    async fn it_looks_when_the_engine_comes_and_when_it_is_asked_and_not_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let (stores, seen) = watch::channel(Arc::<Store>::default());
        let (preflights, mut told) = watch::channel(Arc::<PreflightSnapshot>::default());
        let wanted = Arc::new(Notify::new());
        let lines = PreflightIo {
            wanted: wanted.clone(),
            stores: seen,
            preflights,
        };
        let (stop, backend) = (CancellationToken::new(), Arc::new(FakeBackend::empty()));
        let task = run(backend, state.clone(), lines, Clock::system(), stop.clone());
        let story = async {
            let mut store = Store::default();
            store.apply(WatchEvent::Connected(Timestamp(1)));
            stores.send_replace(Arc::new(store.clone()));
            told.changed().await.unwrap();
            assert_eq!(told.borrow_and_update().journal, Observation::Known(Ok(())));
            // The engine is there as before: nothing new is to be learned.
            stores.send_replace(Arc::new(store));
            let quiet = tokio::time::timeout(Duration::from_millis(50), told.changed()).await;
            assert!(quiet.is_err());
            std::fs::remove_dir_all(state.private()).unwrap();
            wanted.notify_one();
            told.changed().await.unwrap();
            let preflight = told.borrow_and_update().clone();
            assert!(matches!(&preflight.journal, Observation::Known(Err(why)) if !why.is_empty()));
            assert!(preflight.at.is_some());
            stop.cancel();
        };
        tokio::join!(task, story);
    }
}
