//! Correction of the modes of state files.

use std::io;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::{self, Folder};
use argus_core::quoting::PathText as _;
use rustix::fs::FileType;

use crate::clock;
use crate::quarantine;
use crate::state_dir::StateDir;

/// File whose mode was corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrectedMode {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Mode before the correction.
    pub(crate) from: u32,
    /// Mode after the correction.
    pub(crate) to: u32,
}

/// Corrects and logs the modes of all state files. Their readers could otherwise see secrets and output of containers, and writers
/// could deceive agents.
pub(crate) fn correct_modes(state: &StateDir) -> Vec<CorrectedMode> {
    let folders = [
        (state.private(), 0o600),
        (state.builds(), 0o600),
        (state.histories(), 0o600),
        (state.environments(), state.status_mode()),
        (state.incidents(), 0o600),
    ];
    let mut files = vec![(state.controller_json(), state.status_mode())];
    for (folder, mode) in folders {
        let names = folder::list(&folder).unwrap_or_default();
        files.extend(names.into_iter().map(|name| (folder.join(name), mode)));
    }
    let mut corrected = Vec::new();
    for (path, to) in files {
        let group = state.status_group().filter(|_| to != 0o600);
        match correct_mode(&path, to, group) {
            Ok(None) => {}
            Ok(Some((from, to))) => {
                let (was, now) = (format!("{from:04o}"), format!("{to:04o}"));
                tracing::warn!(path = %path.shown(), was, now, "corrected the mode of a state file");
                corrected.push(CorrectedMode { path, from, to });
            }
            Err(error) => {
                tracing::error!(path = %path.shown(), %error, "cannot correct the mode of a state file");
            }
        }
    }
    corrected
}

/// Sets the mode and the group of a regular file. Returns the modes before and after a change.
fn correct_mode(path: &Path, to: u32, group: Option<u32>) -> io::Result<Option<(u32, u32)>> {
    let found = Folder::parent_of(path).and_then(|(folder, name)| Ok((folder.stat(&name)?, folder, name)));
    let Ok((stat, folder, name)) = found else {
        return Ok(None);
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let from = stat.st_mode & 0o7777;
    // Without the change, another group could read the file.
    let to = match group.filter(|group| *group != stat.st_gid) {
        Some(group) if folder.set_group(&name, group).is_err() => 0o600,
        Some(_) | None => to,
    };
    if from == to {
        return Ok(None);
    }
    if stat.st_nlink > 1 {
        // The mode belongs to the file, so it would change at its other name, too.
        quarantine::move_file(path, "it is a hard link", clock::now());
        return Ok(None);
    }
    folder.set_mode(&name, to)?;
    Ok(Some((from, to)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn wrong_modes_are_corrected_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let outside = dir.path().join("outside");
        for (path, mode) in [
            (state.state_json(), 0o644),
            (state.identity(), 0o600),
            (state.builds().join("x.log"), 0o666),
            (state.environments().join("shop.json"), 0o644),
            (state.incidents().join("x.json"), 0o644),
            (outside.clone(), 0o644),
        ] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, state.private().join("link")).unwrap();
        let mut corrected: Vec<_> = correct_modes(&state)
            .into_iter()
            .map(|file| (file.path, file.from, file.to))
            .collect();
        corrected.sort();
        let mut expected = vec![
            (state.state_json(), 0o644, 0o600),
            (state.builds().join("x.log"), 0o666, 0o600),
            (state.environments().join("shop.json"), 0o644, 0o600),
            (state.incidents().join("x.json"), 0o644, 0o600),
        ];
        expected.sort();
        assert_eq!(corrected, expected);
        assert_eq!(correct_modes(&state), []);
        let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "the target of a link keeps its mode");
        // Neither does a link on the way lead to a file whose mode changes.
        let keys = dir.path().join("keys");
        fs::create_dir(&keys).unwrap();
        fs::write(keys.join("id_rsa"), "").unwrap();
        fs::set_permissions(keys.join("id_rsa"), Permissions::from_mode(0o600)).unwrap();
        for folder in [state.environments(), state.incidents()] {
            fs::remove_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink(&keys, &folder).unwrap();
        }
        assert_eq!(correct_modes(&state), []);
        let mode = fs::metadata(keys.join("id_rsa")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn hard_link_is_moved_aside_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let (outside, status) = (dir.path().join("outside"), state.environments().join("shop.json"));
        fs::write(&outside, "text").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&outside, &status).unwrap();
        assert_eq!(correct_modes(&state), []);
        let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, status.exists()), (0o644, false));
    }

    #[test]
    fn status_files_are_given_to_the_group_that_may_read_them() {
        let dir = tempfile::tempdir().unwrap();
        // Only root can give a file to each group.
        let is_root = rustix::process::geteuid().is_root();
        let group = if is_root {
            4_321
        } else {
            rustix::process::getegid().as_raw()
        };
        let state = StateDir::at(dir.path().join("state")).with_status_group(Some(group));
        let state = state.create(&dir.path().join("specs")).unwrap();
        let status = state.environments().join("shop.json");
        for path in [&status, &state.state_json()] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        }
        correct_modes(&state);
        let facts = |path: &std::path::Path| {
            let meta = fs::metadata(path).unwrap();
            (meta.mode() & 0o777, meta.gid())
        };
        assert_eq!(facts(&status), (0o640, group));
        assert_eq!(facts(&state.state_json()).0, 0o600);
        state.write_status(&state.controller_json(), b"{}").unwrap();
        assert_eq!(facts(&state.controller_json()), (0o640, group));
    }
}
