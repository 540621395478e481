//! Quarantine: unusable files of the state directory are renamed to `NAME.corrupt-TIME`, where a person can inspect
//! them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::Folder;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use rustix::fs::FileType;

/// Number of quarantined copies that are retained per file.
const MAX_COPIES: usize = 3;

/// Unusable part of the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Original path.
    pub path: PathBuf,
    /// Reason why it is unusable.
    pub why: String,
    /// New path; `None` if it could not be moved.
    pub to: Option<PathBuf>,
}

/// Moves a file out of the way. It never fails: the result reports a file that cannot be moved.
pub fn move_file(path: &Path, why: &str, now: Timestamp) -> Quarantined {
    let stamp: String = now
        .to_string()
        .chars()
        .filter(|c| !matches!(c, '-' | ':' | '.'))
        .collect();
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let to = path.with_file_name(format!("{name}.corrupt-{stamp}"));
    let moved = Folder::parent_of(path).and_then(|(folder, own)| {
        folder.rename(&own, to.file_name().unwrap_or_default())?;
        Ok(folder)
    });
    let quarantined = Quarantined {
        path: path.to_path_buf(),
        why: why.to_owned(),
        to: moved.is_ok().then(|| to.clone()),
    };
    match moved {
        Ok(folder) => {
            tracing::error!(path = %path.shown(), to = %to.shown(), why, "state file is unusable and was quarantined");
            prune(&folder, &format!("{name}.corrupt-"));
        }
        Err(error) => {
            tracing::error!(path = %path.shown(), why, %error, "state file is unusable and cannot be quarantined");
        }
    }
    quarantined
}

/// Quarantines a path that exists and is not a regular file. A read of it may never end.
pub fn move_unless_file(path: &Path, now: Timestamp) -> Option<Quarantined> {
    let what = match kind_of(path) {
        Ok(FileType::RegularFile) => return None,
        Ok(FileType::Symlink) => "it is a link".to_owned(),
        Ok(_) => "it is not a file".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
    };
    Some(move_file(path, &what, now))
}

/// Quarantines a path that exists and is not a folder. A link to a folder could lead anywhere, so it is moved as well.
pub fn move_unless_folder(path: &Path, now: Timestamp) -> Option<Quarantined> {
    match kind_of(path) {
        Ok(FileType::Directory) | Err(_) => None,
        Ok(_) => Some(move_file(path, "it is not a folder", now)),
    }
}

fn kind_of(path: &Path) -> io::Result<FileType> {
    let (folder, name) = Folder::parent_of(path)?;
    Ok(FileType::from_raw_mode(folder.stat(&name)?.st_mode))
}

fn prune(folder: &Folder, prefix: &str) {
    let entries = folder.list().into_iter().flatten().flatten();
    let is_copy = |name: &OsString| name.to_string_lossy().starts_with(prefix);
    let mut old: Vec<OsString> = entries.filter(is_copy).collect();
    old.sort();
    let surplus = old.len().saturating_sub(MAX_COPIES);
    for name in &old[..surplus] {
        // A folder may belong to a person, so it stays.
        drop(folder.remove(name));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn newest_three_copies_are_retained_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(dir.path().join("state.json.mine"), "").unwrap();
        for number in 0..6 {
            fs::write(&path, number.to_string()).unwrap();
            let quarantined = move_file(
                &path,
                "it is not valid JSON",
                Timestamp(1_000_000 + number * 1_000),
            );
            assert_eq!(
                fs::read_to_string(quarantined.to.unwrap()).unwrap(),
                number.to_string()
            );
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
        assert!(!path.exists() && dir.path().join("state.json.mine").exists());
        assert_eq!(move_file(&path, "it is not there", Timestamp(1)).to, None);
    }

    #[test]
    fn path_that_is_not_a_file_is_quarantined() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(move_unless_file(&path, Timestamp(1)), None, "nothing is there");
        fs::write(&path, "").unwrap();
        assert_eq!(move_unless_file(&path, Timestamp(1)), None);
        fs::remove_file(&path).unwrap();
        for (second, target) in ["/nowhere", "/dev/zero", "state.json"].into_iter().enumerate() {
            std::os::unix::fs::symlink(target, &path).unwrap();
            let quarantined =
                move_unless_file(&path, Timestamp(1_000 * i64::try_from(second).unwrap())).unwrap();
            assert!(
                quarantined.to.is_some() && fs::symlink_metadata(&path).is_err(),
                "{target}"
            );
        }
        fs::create_dir(&path).unwrap();
        assert!(move_unless_file(&path, Timestamp(9_000)).unwrap().to.is_some());
        fs::write(&path, "").unwrap();
        assert!(move_unless_folder(&path, Timestamp(10_000)).unwrap().to.is_some());
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(move_unless_folder(&path, Timestamp(11_000)).unwrap().to.is_some());
        fs::create_dir(&path).unwrap();
        assert_eq!(move_unless_folder(&path, Timestamp(12_000)), None);
    }

    #[test]
    fn nothing_is_moved_or_removed_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (theirs, state) = (dir.path().join("theirs"), dir.path().join("state"));
        fs::create_dir(&theirs).unwrap();
        for number in 0..5 {
            fs::write(theirs.join(format!("shop.json.corrupt-{number}")), "").unwrap();
        }
        std::os::unix::fs::symlink("/nowhere", theirs.join("shop.json")).unwrap();
        std::os::unix::fs::symlink(&theirs, &state).unwrap();
        assert_eq!(move_file(&state.join("shop.json"), "any", Timestamp(1)).to, None);
        assert_eq!(move_unless_folder(&state.join("shop.json"), Timestamp(1)), None);
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 6);
    }
}
