//! Permission that `argus init` gives to a project without other files for Argus.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use argus_core::desired::excluded::is_spec_name;
use argus_crds::compose::is_compose_name;
use argus_reconciler::specs::git_paths;

use crate::process::exit::state_failure;
use crate::render::output;
use crate::settings::trust;

/// Maximum number of entries of a project that are listed.
const MAX_ENTRIES: usize = 100_000;

/// Allows the current folder for the written file. A repository can contain an `argus.toml`, which its user has not read.
pub(super) fn allow_project(target: &Path) {
    let has_settings = !trust::read_settings(Path::new(".")).is_ok_and(|settings| settings.is_none());
    let Ok(here) = fs::canonicalize(".") else {
        return;
    };
    if has_settings || !trust::contains(&here, target) {
        return;
    }
    let note = match trust::allow(&here) {
        Ok(_) => format!(
            "this folder is allowed: {}; `argus allow --revoke` ends that",
            trust::REACH
        ),
        Err(error) => format!("cannot allow the project: {}", state_failure(&error).message()),
    };
    output::print_note(&format!("note: {note}"));
}

/// Returns true if the permission of these folders gives nothing to a repository: git tracks none of the translated files, and a
/// command could read no other one with it.
pub(super) fn is_safe(folders: [PathBuf; 2], translated: &[PathBuf]) -> bool {
    // A name can lead to another folder, and the index has the name of a link.
    let place = |file: &PathBuf| Some((file.parent()?.canonicalize().ok()?, file.file_name()?.to_owned()));
    let Some(places) = translated.iter().map(place).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let is_tracked = |(folder, name): &(PathBuf, OsString)| {
        name.to_str()
            .is_none_or(|name| git_paths::is_tracked(folder, &[name]))
    };
    let known: Vec<PathBuf> = places.iter().map(|(folder, name)| folder.join(name)).collect();
    !folders.into_iter().any(|folder| has_spec_file(folder, &known)) && !places.iter().any(is_tracked)
}

/// Returns true if a folder has a spec file or a Compose file at any depth, except the known ones. Also true for a folder with too many
/// entries.
fn has_spec_file(folder: PathBuf, known: &[PathBuf]) -> bool {
    let (mut folders, mut left) = (vec![folder], MAX_ENTRIES);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_named = |is: fn(&str) -> bool| name.to_str().is_some_and(is);
            let is_new = || !known.contains(&entry.path());
            if left == 0 || is_named(is_spec_name) || is_named(is_compose_name) && is_new() {
                return true;
            }
            left -= 1;
            if name != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    false
}
