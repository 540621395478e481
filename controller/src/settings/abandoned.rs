//! Private folders whose project is removed or replaced. Nothing uses them again.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use argus_reconciler::clock;
use argus_reconciler::lock::{Lock, LockHolder, host_name};
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::state_file;
use serde::Serialize;

use super::paths::{name_of, private_base};
use crate::process::exit::format_chain;

/// Maximum length of a path in bytes.
const MAX_PATH: u64 = 4_096;

/// Private folder without its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Abandoned {
    pub(crate) folder: PathBuf,
    /// Path of the project, at which nothing or another folder is now.
    pub(crate) project: PathBuf,
    /// True if the folder was removed.
    pub(crate) removed: bool,
    /// Error of the removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// Lists the private folders without their project, sorted. A folder without a record of its project is not listed.
pub(crate) fn list() -> Vec<Abandoned> {
    list_in(&private_base())
}

fn list_in(base: &Path) -> Vec<Abandoned> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let mut all: Vec<Abandoned> = entries.filter_map(|entry| check(&entry.path())).collect();
    all.sort_unstable_by(|one, other| one.folder.cmp(&other.folder));
    all
}

/// Returns the folder if its project is gone.
fn check(folder: &Path) -> Option<Abandoned> {
    let state = StateDir::with_private(folder, folder);
    state.check_private().ok()?;
    let recorded = state_file::read(&state.project_file(), MAX_PATH).ok()?;
    let project = PathBuf::from(OsString::from_vec(recorded));
    let is_gone = match project.symlink_metadata() {
        Ok(_) => folder.file_name() != Some(name_of(&project).as_ref()),
        // A project that this user cannot reach now can still exist.
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    is_gone.then(|| Abandoned {
        folder: folder.to_path_buf(),
        project,
        removed: false,
        message: None,
    })
}

/// Removes the folders, except those that a controller uses, and records the results.
pub(crate) fn remove(all: &mut [Abandoned]) {
    for one in all {
        let removed = remove_one(&one.folder);
        one.removed = removed.is_ok();
        one.message = removed.err();
    }
}

fn remove_one(folder: &Path) -> Result<(), String> {
    let holder = LockHolder {
        pid: std::process::id(),
        host: host_name(),
        since: clock::now().to_string(),
        run: String::new(),
    };
    let lock = StateDir::with_private(folder, folder).lock();
    let _held = Lock::acquire(&lock, &holder).map_err(|error| format_chain(&error))?;
    if check(folder).is_none() {
        return Err("its project exists again".to_owned());
    }
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn state_of_a_removed_project_is_removed_unless_locked() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let base = root.join("home/argus");
        let create = |name: &str| {
            let project = root.join(name);
            fs::create_dir(&project).unwrap();
            let state = StateDir::with_private(project.join(".argus"), base.join(name_of(&project)));
            state.create_private().unwrap();
            (project, state)
        };
        let (_, kept) = create("kept");
        let (gone, of_gone) = create("gone");
        let (replaced, of_replaced) = create("replaced");
        fs::create_dir(base.join("without-record")).unwrap();
        assert_eq!(list_in(&base), []);
        fs::remove_dir(&gone).unwrap();
        // It still exists, so the new folder has another inode.
        fs::rename(&replaced, root.join("moved")).unwrap();
        fs::create_dir(&replaced).unwrap();

        let holder = LockHolder::default();
        let lock = Lock::acquire(&of_gone.lock(), &holder).unwrap();
        let mut found = list_in(&base);
        let projects = |found: &[Abandoned]| found.iter().map(|one| one.project.clone()).collect::<Vec<_>>();
        assert_eq!(projects(&found), [gone.clone(), replaced]);
        remove(&mut found);
        assert!(!found[0].removed && found[0].message.is_some() && of_gone.private().exists());
        assert!(found[1].removed && !of_replaced.private().exists());
        drop(lock);
        let mut found = list_in(&base);
        assert_eq!(projects(&found), [gone]);
        remove(&mut found);
        assert!(found[0].removed && kept.private().exists());
        assert_eq!(list_in(&base), []);
    }
}
