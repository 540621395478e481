//! Permission that `argus init` gives to a project without other files for Argus.

use std::fs;
use std::path::{Path, PathBuf};

use argus_core::desired::excluded::is_spec_name;
use argus_crds::compose::is_compose_name;

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

/// Returns true if a command could read a file with the permission of a folder: a spec file or a Compose file at any depth, except the
/// Compose files in `dir`, which are the input. Also true for a folder with too many entries.
pub(super) fn has_spec_file(folder: PathBuf, dir: &Path) -> bool {
    let (mut folders, mut left) = (vec![folder], MAX_ENTRIES);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_named = |is: fn(&str) -> bool| name.to_str().is_some_and(is);
            if left == 0 || is_named(is_spec_name) || is_named(is_compose_name) && folder != dir {
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
