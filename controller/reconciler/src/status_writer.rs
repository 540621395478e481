//! Status writer task: writes the status files that agents read without a server, atomically and only when they
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_core::time::Timestamp;
use argus_crds::status::ControllerStatus;
use serde_json::Value;
use tokio::sync::watch;

use crate::snapshot::Snapshot;
use crate::state_dir::{StateDir, is_status, write_public};
use crate::state_file;

/// Changes within this time are written together.
const BATCH_DELAY: Duration = Duration::from_millis(30);
/// Delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Renderer of the status files. Pure, and called on a thread that may block.
pub trait StatusView: Send + Sync + 'static {
    /// Environments that have files.
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        snapshot.environments()
    }

    /// Renders the files of an environment. `previous` is the last JSON, possibly of an earlier process.
    fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles;

    /// Keeps the last rendered status of an environment. Returns false if there is none.
    fn keep_environment(&self, env: &EnvName) -> bool;

    /// Renders `controller.json`.
    fn controller(&self, snapshot: &Snapshot, previous: Option<&str>) -> String;
}

/// Files of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvFiles {
    /// Content of `ENV.json`.
    pub json: String,
    /// Content of `ENV.env`: the addresses of its ports.
    pub env: String,
    /// Content of `ENV.debug`: the call traces of its errors; `None` without errors.
    pub debug: Option<String>,
}

/// Last content of each status file.
#[derive(Debug, Default)]
struct StatusFiles {
    files: BTreeMap<PathBuf, String>,
    /// Snapshot that all files show; `None` before the first complete write, and after a failed one.
    shown: Option<Arc<Snapshot>>,
}

/// Writes until the reconciler ends, then once more. Publishes in `flushed` the snapshot that the files show.
pub async fn run(
    state: StateDir,
    view: Arc<dyn StatusView>,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    flushed: watch::Sender<Arc<Snapshot>>,
) {
    let mut status_files = StatusFiles::default();
    let mut first = true;
    snapshots.mark_changed();
    loop {
        let ended = snapshots.changed().await.is_err();
        if !ended && !first {
            tokio::time::sleep(BATCH_DELAY).await;
        }
        let snapshot = snapshots.borrow_and_update().clone();
        let written = snapshot.clone();
        let (dir, view) = (state.clone(), view.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut status_files = status_files;
            let result = if first { status_files.read(&dir) } else { Ok(()) };
            let result = result.and_then(|()| status_files.update(&dir, &*view, &snapshot));
            (status_files, result)
        });
        let result = match done.await {
            Ok((back, result)) => {
                status_files = back;
                result
            }
            Err(error) => match error.try_into_panic() {
                Ok(payload) => std::panic::resume_unwind(payload),
                Err(_) => return,
            },
        };
        match result {
            Ok(()) => {
                first = false;
                flushed.send_replace(written);
            }
            Err(error) => {
                tracing::error!(%error, "cannot write status files");
                if !ended {
                    tokio::time::sleep(RETRY_DELAY).await;
                    snapshots.mark_changed();
                }
            }
        }
        if ended {
            return;
        }
    }
}

/// Records the stop time in `controller.json`, after all other writers have ended.
///
/// # Errors
/// The file has another format, or cannot be written.
pub(crate) fn write_stop_time(dir: &StateDir, at: Timestamp) -> io::Result<()> {
    let path = dir.controller_json();
    let text = state_file::read_text(&path, state_file::MAX_BYTES)?;
    let status: ControllerStatus = serde_json::from_str(&text)?;
    let status = ControllerStatus {
        stopped_at: Some(at.to_string()),
        ..status
    };
    write_public(&path, (serde_json::to_string_pretty(&status)? + "\n").as_bytes())
}

impl StatusFiles {
    /// Reads the files of an earlier process.
    fn read(&mut self, dir: &StateDir) -> io::Result<()> {
        for entry in std::fs::read_dir(dir.environments())? {
            let path = entry?.path();
            if is_status(&path)
                && let Ok(bytes) = state_file::read(&path, state_file::MAX_BYTES)
            {
                // Invalid UTF-8 differs from every status, so the file is replaced or removed.
                self.files
                    .insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        if let Ok(text) = state_file::read_text(&dir.controller_json(), state_file::MAX_BYTES) {
            self.files.insert(dir.controller_json(), text);
        }
        Ok(())
    }

    /// Renders and writes what changed since the last snapshot.
    fn update(&mut self, dir: &StateDir, view: &dyn StatusView, snapshot: &Arc<Snapshot>) -> io::Result<()> {
        let mut current = BTreeSet::from([dir.controller_json()]);
        let mut texts = Vec::new();
        let shown = self.shown.take();
        for env in view.environments(snapshot) {
            let json = dir.environments().join(format!("{env}.json"));
            let ports = dir.environments().join(format!("{env}.env"));
            let is_shown = shown
                .as_ref()
                .is_some_and(|shown| snapshot.is_same_for(&env, shown));
            if is_shown && view.keep_environment(&env) {
                current.extend([json, ports, dir.debug(env.as_str())]);
                continue;
            }
            let files = view.environment(&env, snapshot, self.files.get(&json).map(String::as_str));
            // A failed write of a call trace does not block the status.
            if let Some(debug) = files.debug {
                let path = dir.debug(env.as_str());
                if let Err(error) = self.write_changed(&path, debug.clone()) {
                    tracing::warn!(%error, path = %path.display(), "cannot write the call trace");
                    // No retry before the content changes.
                    self.files.insert(path.clone(), debug);
                }
                current.insert(path);
            }
            texts.extend([(json.clone(), files.json), (ports.clone(), files.env)]);
            current.extend([json, ports]);
        }
        let previous = self.files.get(&dir.controller_json()).map(String::as_str);
        let controller = view.controller(snapshot, previous);
        texts.push((dir.controller_json(), controller));
        // All texts are rendered before the first write, so that clients of the API receive them even if the disk is full.
        for (path, text) in texts {
            self.write_changed(&path, text)?;
        }
        // Before the first list and the first scan, removed environments are unknown.
        if snapshot.is_complete() {
            let gone: Vec<PathBuf> = self
                .files
                .keys()
                .filter(|path| !current.contains(*path))
                .cloned()
                .collect();
            for path in gone {
                match std::fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) if path.extension().is_some_and(|ext| ext == "debug") => {
                        tracing::warn!(%error, path = %path.display(), "cannot remove the call trace");
                    }
                    Err(error) => return Err(error),
                }
                self.files.remove(&path);
            }
        }
        self.shown = Some(snapshot.clone());
        Ok(())
    }

    fn write_changed(&mut self, path: &Path, text: String) -> io::Result<()> {
        if self
            .files
            .get(path)
            .is_some_and(|last| equals_ignoring_time(last, &text))
        {
            return Ok(());
        }
        write_public(path, text.as_bytes())?;
        self.files.insert(path.to_path_buf(), text);
        Ok(())
    }
}

/// Compares everything except the time `asOf`.
fn equals_ignoring_time(left: &str, right: &str) -> bool {
    left == right || matches!((timeless(left), timeless(right)), (Some(left), Some(right)) if left == right)
}

fn timeless(text: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    value.as_object_mut()?.remove("asOf");
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use argus_core::observed::{Store, WatchEvent};
    use argus_core::plan::ControllerIdentity;
    use argus_core::state::PlannerState;
    use argus_core::time::Timestamp;

    use super::*;
    use crate::fake_backend::run_of;
    use crate::specs::SpecRegistry;

    /// View of these environments.
    struct View(Vec<&'static str>);

    /// View of all environments of the snapshot. It counts the rendered ones.
    #[derive(Default)]
    struct CountingView(std::sync::atomic::AtomicUsize);

    impl StatusView for CountingView {
        fn environment(&self, _: &EnvName, _: &Snapshot, _: Option<&str>) -> EnvFiles {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            EnvFiles::default()
        }

        fn keep_environment(&self, _: &EnvName) -> bool {
            true
        }

        fn controller(&self, _: &Snapshot, _: Option<&str>) -> String {
            String::new()
        }
    }

    impl StatusView for View {
        fn environments(&self, _: &Snapshot) -> BTreeSet<EnvName> {
            self.0.iter().map(|name| EnvName::new(*name).unwrap()).collect()
        }

        fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles {
            let json = format!("{{\"environment\":\"{env}\",\"asOf\":\"{}\"}}", snapshot.as_of);
            EnvFiles {
                json,
                env: format!("KNOWN={}", previous.is_some()),
                debug: None,
            }
        }

        fn keep_environment(&self, _: &EnvName) -> bool {
            true
        }

        fn controller(&self, snapshot: &Snapshot, _: Option<&str>) -> String {
            format!("{{\"mode\":\"{:?}\"}}", snapshot.mode)
        }
    }

    fn snapshot(at: i64, complete: bool) -> Arc<Snapshot> {
        let identity = ControllerIdentity {
            controller: "C".into(),
            run: "R".into(),
            publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let mut snapshot = Snapshot::blank(identity, PlannerState::default(), Timestamp(at));
        if complete {
            let mut store = Store::default();
            store.apply(WatchEvent::Init);
            store.apply(WatchEvent::InitDone);
            snapshot.store = Arc::new(store);
            let mut specs = SpecRegistry::restored(BTreeMap::new());
            specs.scanned = true;
            snapshot.specs = Arc::new(specs);
        }
        Arc::new(snapshot)
    }

    #[test]
    fn files_are_written_on_change_and_removed_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let json = |env: &str| std::fs::read_to_string(state.environments().join(format!("{env}.json")));
        std::fs::write(state.environments().join("left.json"), "{}").unwrap();
        let mut status_files = StatusFiles::default();
        status_files.read(&state).unwrap();
        status_files
            .update(&state, &View(vec!["shop"]), &snapshot(1_000, false))
            .unwrap();
        let first = json("shop").unwrap();
        assert!(json("left").is_ok(), "it may still be desired");
        status_files
            .update(&state, &View(vec!["shop"]), &snapshot(9_000, true))
            .unwrap();
        assert_eq!(json("shop").unwrap(), first, "only the time differs");
        assert!(json("left").is_err());
        status_files
            .update(&state, &View(vec![]), &snapshot(9_000, true))
            .unwrap();
        assert!(json("shop").is_err() && !state.environments().join("shop.env").exists());
        assert!(state.controller_json().exists());
    }

    #[test]
    fn change_renders_only_its_environment() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        for count in [10, 100, 1_000] {
            let mut shown = Snapshot::clone(&snapshot(1, true));
            let mut store = Store::clone(&shown.store);
            (0..count).for_each(|number| store.apply(run_of(&format!("shop-{number}"), 1)));
            shown.store = Arc::new(store);
            let (mut files, view) = (StatusFiles::default(), CountingView::default());
            let mut rendered = |snapshot: &Snapshot| {
                files.update(&state, &view, &Arc::new(snapshot.clone())).unwrap();
                view.0.swap(0, std::sync::atomic::Ordering::Relaxed)
            };
            assert_eq!(rendered(&shown), count);
            assert_eq!(rendered(&shown), 0);
            let mut store = Store::clone(&shown.store);
            store.apply(run_of("shop-3", 2));
            shown.store = Arc::new(store);
            assert_eq!(rendered(&shown), 1);
            shown.mode = argus_core::mode::Mode::Safe;
            assert_eq!(rendered(&shown), count, "the mode concerns all environments");
        }
    }
}
