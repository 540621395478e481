//! State directory: paths of its files, and their permissions.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use argus_core::time::Timestamp;
use atomic_write_file::AtomicWriteFile;

use crate::quarantine::{self, Quarantined};
use crate::specs::location::DEFAULT_STATE_DIR;
use crate::specs::source::SpecSource;

/// Reason why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The state directory is or contains the specs directory, where its files would trigger scans forever.
    #[error("state directory `{}` contains the specs directory `{}`", .state.display(), .specs.display())]
    ContainsSpecs {
        /// State directory.
        state: PathBuf,
        /// Specs directory.
        specs: PathBuf,
    },
    /// A path cannot be created or read.
    #[error("cannot use `{}`", .path.display())]
    Io {
        /// Path of the failed access.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Another controller holds the directory.
    #[error(transparent)]
    Held(#[from] crate::lock::LockError),
}

/// Paths below the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Creates the folders with their modes, and a `.gitignore` in a new `.argus`. Refuses a path that contains the specs
    /// directory.
    pub fn prepare(state: &Path, specs: &Path) -> Result<Self, StateError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| StateError::Io { path, source }
        };
        let (root, specs) = (
            resolve(state).map_err(at(state))?,
            resolve(&SpecSource::new(specs, state).folder).map_err(at(specs))?,
        );
        if specs.starts_with(&root) {
            return Err(StateError::ContainsSpecs { state: root, specs });
        }
        let dir = Self { root };
        let is_new_default = dir.root.ends_with(DEFAULT_STATE_DIR) && !dir.root.exists();
        for (path, mode) in [
            (dir.root.clone(), 0o755),
            (dir.environments(), 0o755),
            (dir.incidents(), 0o755),
            (dir.private(), 0o700),
            (dir.builds(), 0o700),
            (dir.evidence(), 0o700),
        ] {
            let created = std::fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(&path);
            // The umask may have cleared bits, and an earlier run may have set others.
            created
                .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)))
                .map_err(at(&path))?;
        }
        if is_new_default {
            let path = dir.root.join(".gitignore");
            create_gitignore(&path).map_err(at(&path))?;
        }
        Ok(dir)
    }

    /// Quarantines everything that occupies the path of a folder or file with another file type.
    pub fn quarantine_misplaced(state: &Path, now: Timestamp) -> Vec<Quarantined> {
        let dir = Self::at(state);
        let folders = [
            dir.environments(),
            dir.incidents(),
            dir.private(),
            dir.builds(),
            dir.evidence(),
        ];
        let files = [dir.controller_json(), dir.lock(), dir.clean_shutdown()];
        let folders = folders
            .iter()
            .filter_map(|path| quarantine::move_unless_folder(path, now));
        // Folders first: the content of a quarantined folder is not checked.
        let mut all: Vec<_> = folders.collect();
        let written = std::fs::read_dir(dir.environments())
            .into_iter()
            .flatten()
            .flatten();
        let written = written.map(|entry| entry.path()).filter(|path| is_status(path));
        all.extend(
            files
                .into_iter()
                .chain(written)
                .filter_map(|path| quarantine::move_unless_file(&path, now)),
        );
        all
    }

    /// Paths of an existing state directory, for readers. Touches nothing.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// State directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Status of the controller.
    pub fn controller_json(&self) -> PathBuf {
        self.root.join("controller.json")
    }

    /// Folder of `ENV.json`, `ENV.env` and `ENV.debug`; world-readable.
    pub fn environments(&self) -> PathBuf {
        self.root.join("environments")
    }

    /// Call traces of an environment's errors, if there are any; world-readable.
    pub fn debug(&self, env: &str) -> PathBuf {
        self.environments().join(format!("{env}.debug"))
    }

    /// Folder of the incidents, world-readable.
    pub fn incidents(&self) -> PathBuf {
        self.root.join("incidents")
    }

    /// Journal file.
    pub fn journal(&self) -> PathBuf {
        self.private().join("journal.jsonl")
    }

    /// Folder of all files that only the controller's user may read.
    pub fn private(&self) -> PathBuf {
        self.root.join("private")
    }

    /// Returns the path of the socket on which a controller accepts commands.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.private().join("argus.sock")
    }

    /// Folder of build and pull logs.
    pub fn builds(&self) -> PathBuf {
        self.private().join("builds")
    }

    /// Log of the last build or pull of an image.
    pub fn build_log(&self, image: &str) -> PathBuf {
        let sanitize = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
                c
            } else {
                '_'
            }
        };
        let name: String = image.chars().take(160).map(sanitize).collect();
        self.builds().join(format!("{name}.log"))
    }

    /// Folder of the evidence.
    pub fn evidence(&self) -> PathBuf {
        self.private().join("evidence")
    }

    /// Folder of the evidence of one failed run.
    pub fn evidence_run(&self, environment: &str, service: &str, number: u64) -> PathBuf {
        self.evidence()
            .join(environment)
            .join(service)
            .join(number.to_string())
    }

    /// Identity file of the controller.
    pub fn identity(&self) -> PathBuf {
        self.private().join("identity")
    }

    /// Lock file.
    pub fn lock(&self) -> PathBuf {
        self.private().join("lock")
    }

    /// Persisted state of the planner and the overrides: assigned ports, counters, requests.
    pub fn state_json(&self) -> PathBuf {
        self.private().join("state.json")
    }

    /// Persisted spec registry: last good revision of every spec file.
    pub fn specs_json(&self) -> PathBuf {
        self.private().join("specs.json")
    }

    /// Marker that exists only after a clean stop.
    pub fn clean_shutdown(&self) -> PathBuf {
        self.private().join("clean_shutdown")
    }

    /// Removes the marker of the last clean stop. Returns whether it existed.
    pub fn remove_clean_shutdown(&self) -> io::Result<bool> {
        match std::fs::remove_file(self.clean_shutdown()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Reports whether the path has an extension of the status writer.
pub(crate) fn is_status(path: &Path) -> bool {
    let endings = ["json", "env", "debug"];
    path.extension()
        .is_some_and(|ext| endings.iter().any(|ending| ext == *ending))
}

/// Writes a file atomically that only the owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, 0o600)
}

/// Writes a world-readable file atomically.
pub fn write_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, 0o644)
}

fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = AtomicWriteFile::options().open(path)?;
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.commit()
}

/// Creates the file that hides its directory from git, unless it exists.
fn create_gitignore(path: &Path) -> io::Result<()> {
    match std::fs::File::create_new(path) {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Resolves symlinks and dots, also if the last parts of the path do not exist yet.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let absolute = std::path::absolute(path)?;
    let mut existing = absolute.as_path();
    loop {
        match existing.canonicalize() {
            Ok(real) => {
                let mut whole = real;
                for part in missing.iter().rev() {
                    match part {
                        Component::ParentDir => drop(whole.pop()),
                        part => whole.push(part),
                    }
                }
                return Ok(whole);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut parts = existing.components();
                missing.extend(parts.next_back());
                existing = parts.as_path();
                if existing.as_os_str().is_empty() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn status_is_public_and_the_rest_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("a/state"), &dir.path().join("specs")).unwrap();
        assert_eq!(mode(state.root()), 0o755);
        assert_eq!(mode(&state.environments()), 0o755);
        assert_eq!(mode(&state.private()), 0o700);
        write_private(&state.state_json(), b"{}").unwrap();
        write_public(&state.controller_json(), b"{}").unwrap();
        write_public(&state.controller_json(), b"{\"a\":1}").unwrap();
        assert_eq!(mode(&state.state_json()), 0o600);
        assert_eq!(mode(&state.controller_json()), 0o644);
        assert_eq!(std::fs::read(state.controller_json()).unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn state_around_the_specs_is_refused_through_links_and_dots() {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        std::fs::create_dir(&specs).unwrap();
        std::fs::write(specs.join("shop.yaml"), "").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&specs, &link).unwrap();
        for state in [
            specs.clone(),
            link.clone(),
            dir.path().join("none/../specs"),
            dir.path().to_owned(),
        ] {
            for specs in [&specs, &specs.join("shop.yaml")] {
                let refused = StateDir::prepare(&state, specs);
                assert!(
                    matches!(refused, Err(StateError::ContainsSpecs { .. })),
                    "{}",
                    state.display()
                );
            }
        }
        for state in [
            specs.join(".argus"),
            link.join("x/y"),
            dir.path().join("specs-state"),
        ] {
            StateDir::prepare(&state, &specs).unwrap();
        }
    }

    #[test]
    fn clean_stop_marker_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        assert!(!state.remove_clean_shutdown().unwrap());
        write_private(&state.clean_shutdown(), b"").unwrap();
        assert!(state.remove_clean_shutdown().unwrap());
        assert!(!state.remove_clean_shutdown().unwrap());
    }
}
