//! Files whose name is similar to that of a missing one.

use std::path::Path;

use argus_core::desired::nearest;

/// Maximum number of files that are compared with a missing one.
const MAX_NEIGHBOURS: usize = 1_000;

/// Returns the file next to a missing one whose name differs only by a typing error.
pub(crate) fn find_similar(path: &Path) -> Option<String> {
    let names = std::fs::read_dir(path.parent()?)
        .ok()?
        .take(MAX_NEIGHBOURS)
        .filter_map(Result::ok);
    let names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str)).map(str::to_owned)
}
