//! Source of the spec files: a folder, or one file.

use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use argus_backend::host_path::{FileId, real};
use argus_core::desired::excluded::is_spec_name;
use argus_crds::compose::is_compose_name;

use super::scan::{MAX_FILES, MAX_OTHERS, Scan};

/// Folder with spec files, or one spec file. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecSource {
    /// Folder of the spec files. Names of spec files are relative to it.
    pub folder: PathBuf,
    /// Name of the only file that Argus reads. `None`: all spec files of the folder and of the folders one level below.
    pub only: Option<OsString>,
    /// State directory without links, which Argus never scans.
    state: PathBuf,
}

impl SpecSource {
    /// Creates the source for a path that a user named: a folder or a file. `state` is the state directory.
    pub fn new(specs: &Path, state: &Path) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let specs = absolute(specs);
        let (folder, only) = match (specs.parent(), specs.file_name()) {
            (Some(folder), Some(name)) if is_file_path(&specs) => (folder.to_owned(), Some(name.to_owned())),
            _ => (specs, None),
        };
        Self {
            folder,
            only,
            state: real(&absolute(state)),
        }
    }

    /// Returns the path of a new spec file: `name` in the folder, or the only file unless it is a Compose file.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let only = self.only.as_deref().filter(|_| self.compose_file().is_none());
        self.folder.join(only.unwrap_or(name.as_ref()))
    }

    /// Returns the name of the only file if it is a Compose file.
    pub fn compose_file(&self) -> Option<&str> {
        let only = self.only.as_deref()?.to_str()?;
        is_compose_name(only).then_some(only)
    }

    /// Returns true if a file of this name can be a spec file of this source.
    pub(super) fn is_spec(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| match &self.only {
            Some(only) => name == only,
            None => name.to_str().is_some_and(is_spec_name),
        })
    }

    /// Returns true if a path without links is the state directory or inside it.
    pub(super) fn is_state(&self, path: &Path) -> bool {
        path.starts_with(&self.state)
    }

    /// Lists the spec files of a folder, given relative to the source. At the top, also the folders `below` it and other YAML files.
    pub(super) fn list(
        &self,
        relative: &Path,
        files: &mut Vec<PathBuf>,
        mut below: Option<&mut Vec<PathBuf>>,
        scan: &mut Scan,
    ) -> io::Result<()> {
        let folder = self.folder.join(relative);
        let meta = std::fs::metadata(&folder)?;
        if let Some(only) = &self.only {
            if std::fs::symlink_metadata(folder.join(only)).is_ok() {
                files.push(only.into());
            }
            below = None;
        }
        let entries = self.only.is_none().then(|| std::fs::read_dir(&folder));
        for entry in entries.transpose()?.into_iter().flatten() {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            if is_spec_name(&name) {
                // Enough to detect that there are too many files.
                if files.len() <= MAX_FILES {
                    files.push(relative.join(&name));
                }
            } else if let Some(below) = below.as_deref_mut() {
                if is_folder(&entry) {
                    below.push(PathBuf::from(name));
                } else if is_yaml(Path::new(&name)) && scan.misnamed.len() < MAX_OTHERS {
                    scan.misnamed.insert(name);
                }
            }
        }
        scan.folders.insert(relative.to_path_buf(), FileId::from(&meta));
        Ok(())
    }
}

/// Returns true for a folder and for a broken link, which may have led to one.
fn is_folder(entry: &DirEntry) -> bool {
    let is_link = || entry.file_type().is_ok_and(|file_type| file_type.is_symlink());
    std::fs::metadata(entry.path()).map_or_else(|_| is_link(), |meta| meta.is_dir())
}

/// Returns true if a path names a file. A file that is gone still counts because of its extension.
pub fn is_file_path(path: &Path) -> bool {
    path.is_file() || (is_yaml(path) && !path.is_dir())
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::specs::location::HostAccess;
    use crate::specs::scan::Scanner;

    fn names(source: &SpecSource) -> Vec<String> {
        let scan = Scanner::new(source.clone(), HostAccess::default())
            .scan(|_| false)
            .unwrap();
        scan.files.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn state_directory_in_the_folder_is_never_scanned() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["state", "var/state", "app"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("e2e.yaml"), "").unwrap();
        }
        symlink("var/state", root.join("linked")).unwrap();
        for (state, found) in [
            ("state", &["app/e2e.yaml", "linked/e2e.yaml"][..]),
            ("var/state", &["app/e2e.yaml", "state/e2e.yaml"]),
            ("linked", &["app/e2e.yaml", "state/e2e.yaml"]),
            ("var", &["app/e2e.yaml", "state/e2e.yaml"]),
        ] {
            let source = SpecSource::new(root, &root.join(state));
            assert_eq!(names(&source), found, "{state}");
            let scan = Scanner::new(source.clone(), HostAccess::default())
                .scan(|_| false)
                .unwrap();
            let is_state = |folder: &PathBuf| source.is_state(&real(&root.join(folder)));
            assert!(!scan.folders.keys().any(is_state), "it is not watched: {scan:?}");
        }
    }

    #[test]
    fn one_file_hides_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("app")).unwrap();
        for file in ["e2e.yaml", "shop.yaml", "other.e2e.yaml", "app/e2e.yaml"] {
            fs::write(root.join(file), "").unwrap();
        }
        let source = SpecSource::new(&root.join("shop.yaml"), &root.join(".argus"));
        assert_eq!(source.folder, root);
        assert_eq!(names(&source), ["shop.yaml"]);
        fs::remove_file(root.join("shop.yaml")).unwrap();
        assert_eq!(names(&source), [""; 0]);
        let gone = SpecSource::new(&root.join("shop.yaml"), &root.join(".argus"));
        assert_eq!(gone, source, "a file that is gone is not a folder");
    }

    #[test]
    fn broken_link_to_a_folder_hides_its_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let (specs, repo) = (dir.path().join("specs"), dir.path().join("repo"));
        for folder in [&specs, &repo] {
            fs::create_dir(folder).unwrap();
        }
        symlink(&repo, specs.join("shop")).unwrap();
        let source = SpecSource::new(&specs, &dir.path().join("state"));
        let mut scanner = Scanner::new(source, HostAccess::default());
        assert!(scanner.scan(|_| false).unwrap().unlisted.is_empty());
        fs::remove_dir(&repo).unwrap();
        let unlisted = scanner.scan(|_| false).unwrap().unlisted;
        assert_eq!(unlisted.keys().collect::<Vec<_>>(), [Path::new("shop")]);
        fs::remove_file(specs.join("shop")).unwrap();
        assert!(scanner.scan(|_| false).unwrap().unlisted.is_empty());
    }

    #[test]
    fn folder_of_a_linked_file_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["specs", "repo"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        for file in ["specs/own.e2e.yaml", "repo/e2e.yaml"] {
            fs::write(root.join(file), "").unwrap();
        }
        symlink(root.join("repo/e2e.yaml"), root.join("specs/shop.e2e.yaml")).unwrap();
        symlink(root.join("specs"), root.join("link")).unwrap();
        let source = SpecSource::new(&root.join("link"), &root.join("state"));
        let scan = Scanner::new(source, HostAccess::default())
            .scan(|_| false)
            .unwrap();
        let folders: Vec<_> = scan.folders.keys().collect();
        assert_eq!(folders, [Path::new(""), &root.join("repo")]);
    }
}
