//! Trust in a project: keys of its `argus.toml` that count only with it, and the record of a person who gave it.
//!
//! A repository can contain any file, but not the record, which is in the private state of its folder. The record names the
//! content of `argus.toml`, so an edit ends the permission.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_reconciler::specs::location::worktrees_of;
use argus_reconciler::state_dir::{StateDir, StateError, write_private};
use argus_reconciler::state_file;
use sha2::{Digest as _, Sha256};

use super::{File, Listen, paths, shared_state};

/// Name of the settings file of a project.
pub(crate) const SETTINGS_FILE: &str = "argus.toml";
/// Record of the permission, in the private state of the folder.
const RECORD: &str = "allowed";
/// Maximum size of a record and of the settings file of a project in bytes.
const MAX_BYTES: u64 = 1 << 20;

impl File {
    /// Removes all keys with which a project would get more than without the file. Returns their names.
    pub(super) fn remove_widening(&mut self) -> Vec<&'static str> {
        let mut removed = Vec::new();
        let mut note = |key, widens: bool| {
            if widens {
                removed.push(key);
            }
            widens
        };
        if note("state", self.state.is_some()) {
            self.state = None;
        }
        if note("docker-host", self.docker_host.is_some()) {
            self.docker_host = None;
        }
        let other = |listen: &Listen| !matches!(listen, Listen::Off) && *listen != Listen::default();
        if note("listen", self.listen.as_ref().is_some_and(other)) {
            self.listen = None;
        }
        if note("allow-test-commands", self.allow_test_commands) {
            self.allow_test_commands = false;
        }
        if note(
            "publish-address",
            self.publish_address.is_some_and(|address| !address.is_loopback()),
        ) {
            self.publish_address = None;
        }
        if note(
            "env-allow",
            self.env_allow.as_ref().is_some_and(|names| !names.is_empty()),
        ) {
            self.env_allow = None;
        }
        if note(
            "allow-mount",
            self.allow_mount
                .as_ref()
                .is_some_and(|folders| !folders.is_empty()),
        ) {
            self.allow_mount = None;
        }
        removed
    }
}

/// Returns the folder that a person allowed: the current one, with this content of its `argus.toml`. A folder without the file
/// also has the permission of a parent folder in its project.
pub(super) fn find_allowed(settings: Option<&str>) -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?.canonicalize().ok()?;
    if is_allowed(&current, settings) {
        return Some(current);
    }
    if settings.is_some() {
        return None;
    }
    let top = worktrees_of(&current).into_iter().next();
    let mut parents = shared_state::parents_in_project(&current, top.as_deref()).into_iter();
    parents.find(|parent| read_settings(parent).is_ok_and(|settings| is_allowed(parent, settings.as_deref())))
}

/// Returns true if spec files belong to an allowed folder. A command in it can read those of another project.
pub(super) fn contains(allowed: &Path, specs: &Path) -> bool {
    let mut known = std::path::absolute(specs).unwrap_or_else(|_| specs.to_path_buf());
    // A folder that does not exist yet is below one that does.
    while !known.exists() && known.pop() {}
    known.canonicalize().is_ok_and(|real| real.starts_with(allowed))
}

/// Records that a person allows a folder with the present content of its `argus.toml`.
pub(crate) fn allow(folder: &Path) -> Result<(), StateError> {
    let (state, record) = record_of(folder);
    let failed = |path: &Path, source| StateError::Io {
        path: path.to_path_buf(),
        source,
    };
    let file = folder.join(SETTINGS_FILE);
    let settings = read_settings(folder).map_err(|error| failed(&file, error))?;
    state.create_private()?;
    let text = digest(settings.as_deref());
    write_private(&record, text.as_bytes()).map_err(|error| failed(&record, error))
}

/// Removes the record of a folder, if there is one.
pub(crate) fn revoke(folder: &Path) -> Result<(), StateError> {
    let (state, record) = record_of(folder);
    state.check_private()?;
    match std::fs::remove_file(&record) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(StateError::Io { path: record, source }),
        _ => Ok(()),
    }
}

/// Reads the `argus.toml` of a folder; `None` if it does not exist.
pub(crate) fn read_settings(folder: &Path) -> std::io::Result<Option<String>> {
    match state_file::read_text(&folder.join(SETTINGS_FILE), MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file if it belongs to this user or to root.
pub(super) fn read_own(path: &Path) -> Option<String> {
    let owner = path.metadata().ok()?.uid();
    let is_own = owner == 0 || owner == rustix::process::geteuid().as_raw();
    std::fs::read_to_string(path).ok().filter(|_| is_own)
}

/// Returns the keys of a settings file that count only in an allowed project.
pub(crate) fn list_widening(settings: &str) -> Vec<&'static str> {
    let file = toml::from_str::<File>(settings);
    file.map(|mut file| file.remove_widening()).unwrap_or_default()
}

fn is_allowed(folder: &Path, settings: Option<&str>) -> bool {
    let (state, record) = record_of(folder);
    let recorded = || state_file::read_text(&record, MAX_BYTES).ok();
    state.check_private().is_ok() && recorded().is_some_and(|recorded| recorded == digest(settings))
}

fn record_of(folder: &Path) -> (StateDir, PathBuf) {
    let state = paths::state_of(folder);
    let record = state.private().join(RECORD);
    (state, record)
}

/// Returns a text that identifies the content of a settings file, or its absence.
fn digest(settings: Option<&str>) -> String {
    let Some(settings) = settings else {
        return "without settings\n".to_owned();
    };
    let mut text = String::new();
    for byte in Sha256::digest(settings.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_widen_are_removed_and_others_stay() {
        let text = "state = \"s\"\ndocker-host = \"h\"\nlisten = \"0.0.0.0:9470\"\nallow-test-commands = true\n\
                    publish-address = \"0.0.0.0\"\nenv-allow = [\"A\"]\nallow-mount = [\"/etc\"]\n";
        let all = text.lines().map(|line| line.split(' ').next().unwrap());
        assert_eq!(list_widening(text), all.collect::<Vec<_>>());
        let mut file: File = toml::from_str(text).unwrap();
        file.remove_widening();
        assert_eq!(format!("{file:?}"), format!("{:?}", File::default()));
        let narrow = "listen = \"off\"\nallow-test-commands = false\npublish-address = \"127.0.0.1\"\nenv-allow = []\n\
                      allow-mount = []\nstrict = true\nno-helpers = true\ntimeout-short = \"1s\"\nspecs = \"x\"\n";
        assert_eq!(list_widening(narrow), [""; 0]);
    }

    #[test]
    fn digest_differs_with_content_and_absence() {
        let all = [
            digest(None),
            digest(Some("")),
            digest(Some("a")),
            digest(Some("without settings")),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }
}
