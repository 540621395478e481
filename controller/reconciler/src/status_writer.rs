//! Status files: what an agent reads without a server, written whole and only when they differ.

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
use crate::specs::SpecRegistry;
use crate::state_dir::{StateDir, is_status, write_public};

/// Changes that follow each other this fast are written once.
const SETTLE: Duration = Duration::from_millis(30);
/// After a failed write the next one waits this long.
const AGAIN: Duration = Duration::from_secs(2);

/// Says what stands in the files; pure, and called on a thread that may block.
pub trait StatusView: Send + Sync + 'static {
    /// The environments that have files.
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        snapshot.environments()
    }

    /// The files of an environment; `previous`: its JSON as it was written last, by whichever process.
    fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles;

    /// `controller.json`.
    fn controller(&self, snapshot: &Snapshot, previous: Option<&str>) -> String;
}

/// The files of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvFiles {
    /// `ENV.json`.
    pub json: String,
    /// `ENV.env`: where its ports are.
    pub env: String,
    /// `ENV.debug`: what was called before its errors; none while there is nothing of that.
    pub debug: Option<String>,
}

/// What lies in the directory.
#[derive(Debug, Default)]
struct WriteReport {
    files: BTreeMap<PathBuf, String>,
}

/// Writes until the reconciler is gone, then once more. `told_of` is the spec folder that the files tell of.
pub async fn run(
    state: StateDir,
    view: Arc<dyn StatusView>,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    told_of: watch::Sender<Arc<SpecRegistry>>,
) {
    let mut written = WriteReport::default();
    let mut first = true;
    snapshots.mark_changed();
    loop {
        let ended = snapshots.changed().await.is_err();
        if !ended && !first {
            tokio::time::sleep(SETTLE).await;
        }
        let snapshot = snapshots.borrow_and_update().clone();
        let specs = snapshot.specs.clone();
        let (dir, view) = (state.clone(), view.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut written = written;
            let result = if first { written.read(&dir) } else { Ok(()) };
            let result = result.and_then(|()| written.update(&dir, &*view, &snapshot));
            (written, result)
        });
        let result = match done.await {
            Ok((back, result)) => {
                written = back;
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
                told_of.send_if_modified(|told| {
                    let differs = !Arc::ptr_eq(told, &specs);
                    *told = specs;
                    differs
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot write status files");
                if !ended {
                    tokio::time::sleep(AGAIN).await;
                    snapshots.mark_changed();
                }
            }
        }
        if ended {
            return;
        }
    }
}

/// The last word: says in `controller.json` when the controller stopped. Nothing else writes any more.
///
/// # Errors
/// The file is not ours, or cannot be written.
pub(crate) fn stopped(dir: &StateDir, at: Timestamp) -> io::Result<()> {
    let path = dir.controller_json();
    let text = std::fs::read_to_string(&path)?;
    let status: ControllerStatus = serde_json::from_str(&text)?;
    let status = ControllerStatus {
        stopped_at: Some(at.to_string()),
        ..status
    };
    write_public(&path, (serde_json::to_string_pretty(&status)? + "\n").as_bytes())
}

impl WriteReport {
    /// Takes up what an earlier process left.
    fn read(&mut self, dir: &StateDir) -> io::Result<()> {
        for entry in std::fs::read_dir(dir.environments())? {
            let path = entry?.path();
            // What is neither a file nor a link to one may never end.
            if is_status(&path)
                && path.is_file()
                && let Ok(bytes) = std::fs::read(&path)
            {
                // What is no text is not what is to stand there, and is replaced or removed.
                self.files
                    .insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        if dir.controller_json().is_file()
            && let Ok(text) = std::fs::read_to_string(dir.controller_json())
        {
            self.files.insert(dir.controller_json(), text);
        }
        Ok(())
    }

    fn update(&mut self, dir: &StateDir, view: &dyn StatusView, snapshot: &Snapshot) -> io::Result<()> {
        let mut there = BTreeSet::from([dir.controller_json()]);
        let mut texts = Vec::new();
        for env in view.environments(snapshot) {
            let json = dir.environments().join(format!("{env}.json"));
            let ports = dir.environments().join(format!("{env}.env"));
            let files = view.environment(&env, snapshot, self.files.get(&json).map(String::as_str));
            // Whoever reads of an error finds what was called; a status does not wait for that.
            if let Some(debug) = files.debug {
                let path = dir.debug(env.as_str());
                if let Err(error) = self.put(&path, debug.clone()) {
                    tracing::warn!(%error, path = %path.display(), "cannot write what was called");
                    // Not again before there is something else to say.
                    self.files.insert(path.clone(), debug);
                }
                there.insert(path);
            }
            texts.extend([(json.clone(), files.json), (ports.clone(), files.env)]);
            there.extend([json, ports]);
        }
        let previous = self.files.get(&dir.controller_json()).map(String::as_str);
        let controller = view.controller(snapshot, previous);
        texts.push((dir.controller_json(), controller));
        // All is said before the first is written: who does not read files hears it on a full disk as well.
        for (path, text) in texts {
            self.put(&path, text)?;
        }
        // Before the first list and scan nobody knows what is gone.
        if snapshot.is_complete() {
            let gone: Vec<PathBuf> = self
                .files
                .keys()
                .filter(|path| !there.contains(*path))
                .cloned()
                .collect();
            for path in gone {
                match std::fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) if path.extension().is_some_and(|ext| ext == "debug") => {
                        tracing::warn!(%error, path = %path.display(), "cannot remove what was called");
                    }
                    Err(error) => return Err(error),
                }
                self.files.remove(&path);
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &Path, text: String) -> io::Result<()> {
        if self
            .files
            .get(path)
            .is_some_and(|last| says_the_same(last, &text))
        {
            return Ok(());
        }
        write_public(path, text.as_bytes())?;
        self.files.insert(path.to_path_buf(), text);
        Ok(())
    }
}

/// Equal but for the time they were taken.
fn says_the_same(one: &str, other: &str) -> bool {
    one == other || matches!((timeless(one), timeless(other)), (Some(one), Some(other)) if one == other)
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
    use argus_core::reconcile::ControllerIdentity;
    use argus_core::state::PlannerState;
    use argus_core::time::Timestamp;

    use super::*;
    use crate::specs::SpecRegistry;

    struct View(Vec<&'static str>);

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

        fn controller(&self, snapshot: &Snapshot, _: Option<&str>) -> String {
            format!("{{\"mode\":\"{:?}\"}}", snapshot.mode)
        }
    }

    fn snapshot(at: i64, complete: bool) -> Snapshot {
        let site = ControllerIdentity {
            controller: "C".into(),
            run: "R".into(),
            publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let mut snapshot = Snapshot::blank(site, PlannerState::default(), Timestamp(at));
        if complete {
            let mut store = Store::default();
            store.apply(WatchEvent::Init);
            store.apply(WatchEvent::InitDone);
            snapshot.store = Arc::new(store);
            let mut specs = SpecRegistry::remembering(BTreeMap::new());
            specs.scanned = true;
            snapshot.specs = Arc::new(specs);
        }
        snapshot
    }

    #[test]
    fn files_are_written_when_they_differ_and_removed_when_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let json = |env: &str| std::fs::read_to_string(state.environments().join(format!("{env}.json")));
        std::fs::write(state.environments().join("left.json"), "{}").unwrap();
        let mut written = WriteReport::default();
        written.read(&state).unwrap();
        written
            .update(&state, &View(vec!["shop"]), &snapshot(1_000, false))
            .unwrap();
        let first = json("shop").unwrap();
        assert!(json("left").is_ok(), "nobody knows yet");
        written
            .update(&state, &View(vec!["shop"]), &snapshot(9_000, true))
            .unwrap();
        assert_eq!(json("shop").unwrap(), first, "only the time differs");
        assert!(json("left").is_err());
        written
            .update(&state, &View(vec![]), &snapshot(9_000, true))
            .unwrap();
        assert!(json("shop").is_err() && !state.environments().join("shop.env").exists());
        assert!(state.controller_json().exists());
    }
}
