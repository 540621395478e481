//! Status writer task: writes the status files that agents read without a server, atomically and only when they
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::host_path::folder;
use argus_core::desired::env_file::format_env_file;
use argus_core::ident::EnvName;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use argus_crds::status::{ControllerStatus, EnvironmentStatus};
use tokio::sync::{Notify, watch};

use crate::blocking;
use crate::snapshot::Snapshot;
use crate::state_dir::{StateDir, is_status};
use crate::state_file;
use crate::write_batch::WriteBatch;

mod env_file;

/// Delay between a change and its write, and its maximum while changes continue.
const BATCH_DELAYS: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(240));
/// Delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Renderer of the status files, which also records the changes between them. Called on a thread that may block.
pub trait StatusView: Send + Sync + 'static {
    /// Notified when the files change without a new snapshot.
    fn changed(&self) -> Arc<Notify> {
        Arc::default()
    }

    /// Environments that have files.
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        snapshot.environments()
    }

    /// Renders the files of an environment, the JSON with one field per line. `previous` is the last JSON, possibly of an
    /// earlier process.
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
    /// File in the project that gets the addresses.
    pub project_file: Option<PathBuf>,
}

/// Newest content of each status file.
#[derive(Debug, Default)]
struct StatusFiles {
    files: BTreeMap<PathBuf, String>,
    /// Files whose newest content is not on disk.
    unwritten: BTreeSet<PathBuf>,
    /// Environments whose files remain; `None` before the first complete update.
    environments: Option<BTreeSet<EnvName>>,
    /// Snapshot that all files show; `None` before the first complete write, and after a failed one.
    shown: Option<Arc<Snapshot>>,
    /// File in the project of each environment that names one.
    project_files: BTreeMap<EnvName, PathBuf>,
    /// Failures of files in projects, each logged once.
    failed: BTreeMap<PathBuf, String>,
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
    let view_changed = view.changed();
    // Clients of the API get each rendered status. The files follow at the rate of the disk, or when a client waits for them.
    let mut batch = WriteBatch::new(BATCH_DELAYS.0, BATCH_DELAYS.1);
    let mut disk = WriteBatch::new(BATCH_DELAYS.0, BATCH_DELAYS.1);
    loop {
        let mut must_write = first;
        let ended = tokio::select! {
            changed = snapshots.changed() => changed.is_err(),
            () = view_changed.notified() => {
                must_write = true;
                false
            }
            () = tokio::time::sleep(disk.due_in()), if !status_files.unwritten.is_empty() => false,
        };
        let shown = flushed.borrow().clone();
        if !ended && !first {
            batch
                .wait(&mut snapshots, |snapshot| snapshot.is_awaited_after(&shown))
                .await;
        }
        let snapshot = snapshots.borrow_and_update().clone();
        must_write |= ended || snapshot.is_awaited_after(&shown) || disk.due_in().is_zero();
        let written = snapshot.clone();
        let (dir, view) = (state.clone(), view.clone());
        let (back, result) = blocking::run(move || {
            let result = if first {
                status_files.read(&dir).map(|foreign| log_replaced(&foreign))
            } else {
                Ok(())
            };
            let result = result.and_then(|()| status_files.update(&dir, &*view, &snapshot, must_write));
            (status_files, result)
        })
        .await;
        status_files = back;
        match result {
            Ok(bytes) => {
                first = false;
                batch.on_written(0);
                if must_write {
                    disk.on_written(bytes);
                }
                if status_files.unwritten.is_empty() {
                    flushed.send_replace(written);
                }
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
    let status: ControllerStatus = serde_json::from_slice(&dir.read_status(&path, state_file::MAX_BYTES)?)?;
    let status = ControllerStatus {
        stopped_at: Some(at.to_string()),
        ..status
    };
    dir.write_status(&path, (serde_json::to_string_pretty(&status)? + "\n").as_bytes())
}

impl StatusFiles {
    /// Reads the files of an earlier process. Returns the existing ones that do not count.
    fn read(&mut self, dir: &StateDir) -> io::Result<Vec<PathBuf>> {
        let environments = dir.environments();
        let names = folder::list(&environments)?.into_iter();
        let files = names.map(|name| environments.join(name));
        let mut foreign = Vec::new();
        for path in files
            .filter(|path| is_status(path))
            .chain([dir.controller_json()])
        {
            let read = read_earlier(dir, &path);
            if read.is_err() && path.symlink_metadata().is_ok() {
                foreign.push(path.clone());
            }
            // An empty text differs from every status, so a file that does not count is replaced or removed.
            self.files.insert(path, read.unwrap_or_default());
        }
        Ok(foreign)
    }

    /// Renders what changed since the last snapshot. With `must_write`, writes the files, and returns the number of written bytes.
    fn update(
        &mut self,
        dir: &StateDir,
        view: &dyn StatusView,
        snapshot: &Arc<Snapshot>,
        must_write: bool,
    ) -> io::Result<usize> {
        let mut gone = Vec::new();
        let shown = self.shown.take();
        let environments = view.environments(snapshot);
        for env in &environments {
            let lacks_file = self.project_files.get(env).is_some_and(|path| !path.exists());
            let is_shown = shown
                .as_ref()
                .is_some_and(|shown| snapshot.is_same_for(env, shown));
            if is_shown && !lacks_file && view.keep_environment(env) {
                continue;
            }
            let json = dir.environments().join(format!("{env}.json"));
            let ports = dir.environments().join(format!("{env}.env"));
            let path = dir.debug(env.as_str());
            let files = view.environment(env, snapshot, self.files.get(&json).map(String::as_str));
            match files.debug {
                Some(debug) => self.replace(&path, debug),
                None => gone.extend(self.files.contains_key(&path).then_some(path)),
            }
            self.write_project_file(env, &json, &files.env, files.project_file.as_deref(), snapshot);
            self.replace(&json, files.json);
            self.replace(&ports, files.env);
        }
        let previous = self.files.get(&dir.controller_json()).map(String::as_str);
        let controller = view.controller(snapshot, previous);
        self.replace(&dir.controller_json(), controller);
        // Before the first list and the first scan, removed environments are unknown.
        if snapshot.is_complete() {
            if self.environments.as_ref() != Some(&environments) {
                let folder = dir.environments();
                let is_gone = |path: &&PathBuf| {
                    let env = path.file_stem().and_then(|name| name.to_str());
                    path.starts_with(&folder) && !env.is_some_and(|env| environments.contains(env))
                };
                gone.extend(self.files.keys().filter(is_gone).cloned());
            }
            for path in gone {
                self.remove_project_file(&path);
                match folder::remove(&path) {
                    Ok(_) => {}
                    Err(error) if path.extension().is_some_and(|ext| ext == "debug") => {
                        tracing::warn!(%error, path = %path.shown(), "cannot remove the call trace");
                    }
                    Err(error) => return Err(error),
                }
                self.files.remove(&path);
                self.unwritten.remove(&path);
            }
            self.environments = Some(environments);
        }
        // All texts are rendered before the first write, so that clients of the API receive them even if the disk is full.
        let bytes = if must_write { self.write(dir)? } else { 0 };
        self.shown = Some(snapshot.clone());
        Ok(bytes)
    }

    /// Writes the addresses to the file in the project, and removes the earlier file of the environment. A failure does not block
    /// the status.
    fn write_project_file(
        &mut self,
        env: &EnvName,
        json: &Path,
        addresses: &str,
        path: Option<&Path>,
        snapshot: &Snapshot,
    ) {
        let earlier = self.files.get(json).and_then(|text| project_file_of(text));
        // Before the first list and the first scan, the path can be unknown.
        if earlier.as_deref() != path && (path.is_some() || snapshot.is_complete()) {
            self.remove_project_file(json);
        }
        self.project_files.remove(env);
        if let Some(path) = path {
            self.project_files.insert(env.clone(), path.to_path_buf());
            let written = env_file::write(path, &format_env_file(env, addresses));
            self.log_failure(path, "cannot write the addresses", written);
        }
    }

    /// Removes the file in the project of an environment, given the path of its last status.
    fn remove_project_file(&mut self, json: &Path) {
        let last = self.files.get(json).and_then(|text| project_file_of(text));
        let env = json
            .file_stem()
            .and_then(|name| EnvName::new(name.to_str()?).ok());
        if let (Some(path), Some(env)) = (last, env) {
            let removed = env_file::remove(&path, &env);
            self.log_failure(&path, "cannot remove the addresses", removed);
        }
    }

    fn log_failure(&mut self, path: &Path, what: &str, result: io::Result<()>) {
        match result.map_err(|error| error.to_string()) {
            Ok(()) => drop(self.failed.remove(path)),
            Err(error) if self.failed.get(path) == Some(&error) => {}
            Err(error) => {
                tracing::warn!(%error, path = %path.shown(), "{what}");
                self.failed.insert(path.to_path_buf(), error);
            }
        }
    }

    /// Replaces the content of a file if more than its time differs.
    fn replace(&mut self, path: &Path, text: String) {
        let last = self.files.get(path);
        if !last.is_some_and(|last| equals_ignoring_time(last, &text)) {
            self.files.insert(path.to_path_buf(), text);
            self.unwritten.insert(path.to_path_buf());
        }
    }

    /// Writes the changed files, the one of the controller last. Returns the number of their bytes.
    fn write(&mut self, dir: &StateDir) -> io::Result<usize> {
        let mut bytes = 0;
        while let Some(path) = self.unwritten.last() {
            let text = self.files.get(path).map_or("", String::as_str);
            match dir.write_status(path, text.as_bytes()) {
                Ok(()) => bytes += text.len(),
                // A failed write of a call trace does not block the status. It is repeated when the content changes.
                Err(error) if path.extension().is_some_and(|ext| ext == "debug") => {
                    tracing::warn!(%error, path = %path.shown(), "cannot write the call trace");
                }
                Err(error) => return Err(error),
            }
            self.unwritten.pop_last();
        }
        Ok(bytes)
    }
}

/// Logs the status files of others in one line.
fn log_replaced(foreign: &[PathBuf]) {
    if let Some(first) = foreign.first() {
        tracing::warn!(files = foreign.len(), first = %first.shown(), "status files that no controller of this user wrote are replaced");
    }
}

/// Content of a file of an earlier process.
///
/// # Errors
/// It cannot be read, or does not count.
fn read_earlier(dir: &StateDir, path: &Path) -> io::Result<String> {
    let read = if path.extension().is_some_and(|ending| ending == "json") {
        dir.read_status(path, state_file::MAX_BYTES)
    } else {
        state_file::read(path, state_file::MAX_BYTES)
    };
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the file in the project that a status names.
fn project_file_of(status: &str) -> Option<PathBuf> {
    // Most statuses have no such file, and a parse takes longer than a search.
    if !status.contains("\"envFile\"") {
        return None;
    }
    let status: EnvironmentStatus = serde_json::from_str(status).ok()?;
    status.env_file.map(PathBuf::from)
}

/// Compares everything except the time `asOf`, which has a line of its own.
fn equals_ignoring_time(left: &str, right: &str) -> bool {
    fn timeless(text: &str) -> impl Iterator<Item = &str> {
        let is_time = |line: &&str| line.starts_with("  \"asOf\": ");
        text.lines().filter(move |line| !is_time(line))
    }
    timeless(left).eq(timeless(right))
}

#[cfg(test)]
mod tests;
