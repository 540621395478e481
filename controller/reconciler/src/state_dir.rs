//! State directory: paths of its files, and their permissions.
//!
//! Its public part contains status files, for its user and for a group that the operator names. Its private part is a folder
//! `private` in it, or a folder outside of the project: who can write to the project then controls nothing that the controller trusts.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::folder::{self, Folder};
use argus_core::ident::EnvName;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;

use crate::private_folder::{FolderError, create_with_mode};
use crate::quarantine::{self, Quarantined};
use crate::specs::location::DEFAULT_STATE_DIR;
use crate::specs::source::SpecSource;

mod private_state;
mod seal;
mod status_files;

/// Name of the private folder in a state directory with all its state.
const PRIVATE: &str = "private";

/// Reason why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The state directory is or contains the specs directory, where its files would trigger scans forever.
    #[error("state directory `{}` contains the specs directory `{}`", .state.shown(), .specs.shown())]
    ContainsSpecs {
        /// State directory.
        state: PathBuf,
        /// Specs directory.
        specs: PathBuf,
    },
    /// A path cannot be created or read.
    #[error("cannot use `{}`", .path.shown())]
    Io {
        /// Path of the failed access.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Another user made the folder of the private state, or can exchange it, or git tracks it.
    #[error("cannot use `{}`", .path.shown())]
    Untrusted {
        /// State directory that a user named, else the folder of the private state.
        path: PathBuf,
        /// True if a user named the state directory.
        is_given: bool,
        /// Refused folder.
        source: FolderError,
    },
    /// The status files cannot belong to the group that may read them.
    #[error("cannot give `{}` to the group {group}", .path.shown())]
    Group {
        /// Folder of the status files.
        path: PathBuf,
        /// Number of the group.
        group: u32,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Another controller holds the directory.
    #[error(transparent)]
    Held(#[from] crate::lock::LockError),
}

/// Paths of the public and of the private state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
    private: PathBuf,
    /// Number of the group that may read the status files.
    status_group: Option<u32>,
}

impl StateDir {
    /// Creates a state directory with all its state, as [`Self::create`].
    pub fn prepare(state: &Path, specs: &Path) -> Result<Self, StateError> {
        Self::at(state).create(specs)
    }

    /// Creates the folders with their modes, and a `.gitignore` in a new `.argus`. Refuses a path that contains the specs
    /// directory, and private state that another user could have made. An existing state directory keeps its mode.
    pub fn create(&self, specs: &Path) -> Result<Self, StateError> {
        let state = self.root.as_path();
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| StateError::Io { path, source }
        };
        let (root, specs) = (
            self.resolve_root().map_err(at(state))?,
            resolve(&SpecSource::new(specs, state).folder).map_err(at(specs))?,
        );
        if specs.starts_with(&root) {
            return Err(StateError::ContainsSpecs { state: root, specs });
        }
        self.check_private()?;
        let dir = if self.has_outer_private() {
            self.create_private()?;
            Self::with_private(root, &self.private)
        } else {
            Self::at(root)
        };
        let dir = dir.with_status_group(self.status_group);
        let is_new = !dir.root.exists();
        if is_new {
            create_with_mode(&dir.root, 0o755).map_err(at(&dir.root))?;
        }
        // Another user can have made it since the first check.
        dir.check_private()?;
        dir.check_no_link()?;
        let incidents_mode = if dir.has_outer_private() { 0o700 } else { 0o755 };
        for (path, mode) in [
            (dir.environments(), 0o755),
            (dir.incidents(), incidents_mode),
            (dir.private(), 0o700),
            (dir.builds(), 0o700),
            (dir.evidence(), 0o700),
            (dir.histories(), 0o700),
        ] {
            create_with_mode(&path, mode).map_err(at(&path))?;
        }
        dir.check_status_group()?;
        if is_new && dir.root.ends_with(DEFAULT_STATE_DIR) {
            create_gitignore(&dir.root).map_err(at(&dir.root.join(".gitignore")))?;
        }
        Ok(dir)
    }

    /// Quarantines everything that occupies the path of a folder or file with another file type.
    pub fn quarantine_misplaced(&self, now: Timestamp) -> Vec<Quarantined> {
        let dir = self;
        let folders = [
            dir.environments(),
            dir.incidents(),
            dir.private(),
            dir.builds(),
            dir.evidence(),
            dir.histories(),
        ];
        let files = [dir.controller_json(), dir.lock(), dir.clean_shutdown()];
        let folders = folders
            .iter()
            .filter_map(|path| quarantine::move_unless_folder(path, now));
        // Folders first: the content of a quarantined folder is not checked.
        let mut all: Vec<_> = folders.collect();
        let written = folder::list(&dir.environments()).unwrap_or_default().into_iter();
        let written = written
            .map(|name| dir.environments().join(name))
            .filter(|path| is_status(path));
        all.extend(
            files
                .into_iter()
                .chain(written)
                .filter_map(|path| quarantine::move_unless_file(&path, now)),
        );
        all
    }

    /// Paths of a state directory that contains all its state. Touches nothing.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let private = root.join(PRIVATE);
        Self {
            root,
            private,
            status_group: None,
        }
    }

    /// Paths of public state in `root` and of private state in `private`, which is outside of the project. Touches nothing.
    pub fn with_private(root: impl Into<PathBuf>, private: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            private: private.into(),
            status_group: None,
        }
    }

    /// Returns true if the private state is not in the folder `private` of the state directory.
    pub fn has_outer_private(&self) -> bool {
        self.private != self.root.join(PRIVATE)
    }

    /// Logs that a private folder in the state directory is not used, because a repository can contain it.
    pub(crate) fn log_unread_private(&self) {
        let unread = self.root.join(PRIVATE);
        if self.has_outer_private() && unread.exists() {
            let (path, private) = (unread.shown(), self.private.shown());
            tracing::warn!(%path, %private, "the folder of an earlier version is not read; remove it");
        }
    }

    /// Folder that only one controller uses at a time: it contains the lock.
    pub fn locked_folder(&self) -> &Path {
        if self.has_outer_private() {
            &self.private
        } else {
            &self.root
        }
    }

    /// Folder of public state.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Status of the controller.
    pub fn controller_json(&self) -> PathBuf {
        self.root.join("controller.json")
    }

    /// Folder of the status files `ENV.json`, `ENV.env` and `ENV.debug`.
    pub fn environments(&self) -> PathBuf {
        self.root.join("environments")
    }

    /// Call traces of an environment's errors, if there are any.
    pub fn debug(&self, env: &str) -> PathBuf {
        self.environments().join(format!("{env}.debug"))
    }

    /// Folder of the incidents.
    pub fn incidents(&self) -> PathBuf {
        let folder = if self.has_outer_private() {
            &self.private
        } else {
            &self.root
        };
        folder.join("incidents")
    }

    /// Journal file.
    pub fn journal(&self) -> PathBuf {
        self.private().join("journal.jsonl")
    }

    /// Folder of all files that only the controller's user may read.
    pub fn private(&self) -> PathBuf {
        self.private.clone()
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

    /// Folder of the persisted histories.
    pub fn histories(&self) -> PathBuf {
        self.private().join("histories")
    }

    /// Persisted history of an environment: assigned ports and counters.
    pub fn history(&self, env: &EnvName) -> PathBuf {
        self.histories().join(format!("{env}.json"))
    }

    /// Persisted overrides: requests of people and agents.
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
        folder::remove(&self.clean_shutdown())
    }

    /// Returns the state directory without links. The operator names it, but not the one in a project, which is never a link.
    fn resolve_root(&self) -> io::Result<PathBuf> {
        let parts = (self.root.parent(), self.root.file_name());
        match parts {
            (Some(project), Some(name)) if self.has_outer_private() => {
                Ok(resolve(&Path::new(".").join(project))?.join(name))
            }
            _ => resolve(&self.root),
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
    folder::write(path, bytes, 0o600)
}

/// Creates the file that hides its directory from git, unless it exists.
fn create_gitignore(root: &Path) -> io::Result<()> {
    match Folder::open(root)?.create_file(OsStr::new(".gitignore"), 0o644) {
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
#[path = "state_dir_tests.rs"]
mod tests;
