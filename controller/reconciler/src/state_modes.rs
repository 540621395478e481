//! Correction of the modes of state files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

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

/// Corrects and logs the modes of all state files. Readers of the private ones could otherwise see secrets, and writers
/// of the public ones could deceive agents.
pub(crate) fn correct_modes(state: &StateDir) -> Vec<CorrectedMode> {
    let folders = [
        (state.private(), 0o600),
        (state.builds(), 0o600),
        (state.environments(), 0o644),
        (state.incidents(), 0o644),
    ];
    let mut files = vec![(state.controller_json(), 0o644)];
    for (folder, mode) in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| (entry.path(), mode)));
    }
    let mut corrected = Vec::new();
    for (path, to) in files {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let from = meta.permissions().mode() & 0o7777;
        if !meta.is_file() || from == to {
            continue;
        }
        match fs::set_permissions(&path, Permissions::from_mode(to)) {
            Ok(()) => {
                let (was, now) = (format!("{from:04o}"), format!("{to:04o}"));
                tracing::warn!(path = %path.display(), was, now, "corrected the mode of a state file");
                corrected.push(CorrectedMode { path, from, to });
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot correct the mode of a state file");
            }
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
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
            (state.environments().join("shop.json"), 0o666),
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
            (state.environments().join("shop.json"), 0o666, 0o644),
        ];
        expected.sort();
        assert_eq!(corrected, expected);
        assert_eq!(correct_modes(&state), []);
        let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "the target of a link keeps its mode");
    }
}
