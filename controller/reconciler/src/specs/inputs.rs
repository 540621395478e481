//! Files and folders that spec files name: the folders to watch, and the changes in them that matter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use argus_backend::host_path::{FileId, nearest_folder, real};

use super::context_rules::ContextFilter;
use super::registry::SpecRegistry;
use super::source::SpecSource;

/// Inputs of spec files as a scan found them. All paths are without links.
#[derive(Debug, Clone, Default)]
pub struct SpecInputs {
    /// Folders to watch.
    folders: BTreeMap<PathBuf, FileId>,
    /// Files, which need not exist.
    files: BTreeSet<PathBuf>,
    contexts: Vec<ContextFilter>,
    /// Files that containers can write. Only their replacements matter.
    writable: BTreeSet<PathBuf>,
}

/// Folders of a build context that its digest covers.
#[derive(Debug, Clone)]
pub(super) struct ContextFolders {
    filter: ContextFilter,
    folders: Vec<(PathBuf, FileId)>,
}

impl ContextFolders {
    pub(super) fn new(filter: ContextFilter) -> Self {
        let folders = Vec::new();
        Self { filter, folders }
    }

    pub(super) fn add(&mut self, folder: PathBuf, meta: &Metadata) {
        self.folders.push((folder, FileId::from(meta)));
    }
}

impl SpecInputs {
    /// Folders to watch, with their identities.
    pub(super) fn folders(&self) -> &BTreeMap<PathBuf, FileId> {
        &self.folders
    }

    /// Returns true if a change at this path can change an input. `is_write` is true for a write into an existing file.
    pub(super) fn concerns(&self, path: &Path, is_write: bool) -> bool {
        let is_file = self.files.contains(path) && !(is_write && self.writable.contains(path));
        is_file || self.contexts.iter().any(|context| context.concerns(path))
    }

    /// Adds files, and the target of each link.
    pub(super) fn add_files<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        paths.into_iter().for_each(|path| self.add_file(path));
    }

    /// Adds a file, and its target if it is a link.
    pub(super) fn add_file(&mut self, path: &Path) {
        self.add_name(path);
        self.add_name(&real(path));
    }

    /// Adds a name in the folder that contains it. Without that folder, adds the first missing folder on the way.
    fn add_name(&mut self, path: &Path) {
        let Some((folder, below)) = nearest_folder(path) else {
            return;
        };
        let folder = real(folder);
        if let (Ok(meta), Some(name)) = (fs::metadata(&folder), below.file_name()) {
            self.files.insert(folder.join(name));
            self.folders.insert(folder, FileId::from(&meta));
        }
    }

    /// Adds a build context.
    pub(super) fn add_context(&mut self, context: ContextFolders) {
        self.folders.extend(context.folders);
        self.contexts.push(context.filter);
    }

    /// Leaves out the folders of the state directory, and the writes of files that containers can write.
    pub(super) fn restricted(mut self, source: &SpecSource, registry: &SpecRegistry) -> Self {
        self.folders.retain(|folder, _| !source.is_state(folder));
        self.writable = registry.writable_sources().map(PathBuf::from).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn file_its_target_and_a_missing_folder_are_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["app", "shared"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        fs::write(root.join("shared/env"), "").unwrap();
        symlink("../shared/env", root.join("app/.env")).unwrap();
        let mut inputs = SpecInputs::default();
        inputs.add_file(&root.join("app/.env"));
        inputs.add_file(&root.join("docs/api/openapi.yaml"));
        let folders: Vec<_> = inputs.folders().keys().collect();
        assert_eq!(folders, [&root, &root.join("app"), &root.join("shared")]);
        for (path, expected) in [
            ("app/.env", true),
            ("shared/env", true),
            ("docs", true),
            ("app/main.py", false),
            ("docs.txt", false),
        ] {
            assert_eq!(inputs.concerns(&root.join(path), true), expected, "{path}");
        }
        inputs.writable.insert(root.join("shared/env"));
        assert!(
            !inputs.concerns(&root.join("shared/env"), true),
            "a container writes it"
        );
        assert!(
            inputs.concerns(&root.join("shared/env"), false),
            "it was replaced"
        );
    }
}
