//! Admission of tmpfs mounts: their paths and their options.

use argus_crds::Diagnostic;

use crate::desired::identity::shown;
use crate::desired::paths;

/// Options of a tmpfs. An engine also accepts options that mount something else, such as `bind` and `remount`.
const OPTIONS: [&str; 29] = [
    "size",
    "mode",
    "uid",
    "gid",
    "nr_inodes",
    "nr_blocks",
    "mpol",
    "defaults",
    "ro",
    "rw",
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "sync",
    "async",
    "dirsync",
    "mand",
    "nomand",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
];

/// Returns the entries as the file contains them.
pub(super) fn resolve_tmpfs(texts: &[String], path: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    for (index, text) in texts.iter().enumerate() {
        if let Some((message, hint)) = problem(text) {
            diagnostics.push(Diagnostic::error(format!("{path}[{index}]"), message).hint(hint));
        }
    }
    texts.to_vec()
}

/// Path of an entry: `/path` or `/path:options`.
pub fn tmpfs_path(entry: &str) -> &str {
    entry.split_once(':').map_or(entry, |(path, _)| path)
}

/// Returns the message and the hint for an invalid entry.
fn problem(text: &str) -> Option<(String, &'static str)> {
    let (folder, options) = text.split_once(':').unwrap_or((text, ""));
    let absolute = paths::to_absolute("/", folder);
    if !folder.starts_with('/') || absolute == "/" || !paths::is_sane(text) {
        let message = format!("`{}` is not a valid tmpfs path", shown(text));
        return Some((message, "write `/path` or `/path:size=64m`"));
    }
    if paths::is_inside(&absolute, "/proc") {
        let message = format!("`{}` hides `/proc` of the container", shown(folder));
        return Some((message, "POLICY_VIOLATION: choose a path outside `/proc`"));
    }
    let names = options.split(',').filter(|option| !option.is_empty());
    let mut names = names.map(|option| option.split('=').next().unwrap_or_default());
    let unknown = names.find(|name| !OPTIONS.contains(name))?;
    let message = format!("`{}` is not an option of a tmpfs", shown(unknown));
    Some((message, "use options such as `size=64m`, `mode=1777` or `noexec`"))
}
