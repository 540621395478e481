//! Folder of a report: the modes of its files, its mark, and its links.

use std::io;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::Folder;
use argus_backend::host_path::own_files::REPORT_MARK;
use argus_backend::host_path::real;
use argus_core::quoting::PathText as _;
use rustix::fs::FileType;

use crate::process::exit::Failure;
use crate::render::foreign_text;

/// Content of the mark.
const MARK_TEXT: &str =
    "Argus wrote the report in this folder. With this file, no build context contains it.\n";

/// Modes of the folders and files of a report.
#[derive(Debug, Clone, Copy)]
struct Modes {
    folder: u32,
    file: u32,
}

const PRIVATE: Modes = Modes {
    folder: 0o700,
    file: 0o600,
};
const SHARED: Modes = Modes {
    folder: 0o755,
    file: 0o644,
};

/// Folder of a report.
#[derive(Debug, Clone)]
pub(crate) struct ReportFolder {
    root: PathBuf,
}

impl ReportFolder {
    /// The folder at a path, which may not exist yet. A checkout can contain a link at a relative path, so it has none.
    pub(crate) fn at(root: &Path) -> Self {
        let root = if root.is_absolute() {
            real(root)
        } else {
            root.to_owned()
        };
        Self { root }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// Creates the folder, with the mark that keeps the report out of build contexts.
    ///
    /// # Errors
    /// The folder or the mark cannot be written.
    pub(crate) fn mark(&self) -> Result<(), Failure> {
        let marked = self.open().and_then(|(folder, modes)| {
            if folder.stat(REPORT_MARK.as_ref()).is_ok() {
                return Ok(());
            }
            folder.write(REPORT_MARK.as_ref(), MARK_TEXT.as_bytes(), modes.file)
        });
        marked.map_err(|error| cannot_write(&self.root, &error))
    }

    /// Removes parts of an earlier report. A container that mounts the folder can exchange it at any time, so no path is resolved again.
    ///
    /// # Errors
    /// A part cannot be removed.
    pub(crate) fn remove<const N: usize>(&self, names: [&str; N]) -> Result<(), Failure> {
        let removed = self
            .open()
            .and_then(|(folder, _)| names.iter().try_for_each(|name| folder.remove_all(name.as_ref())));
        removed.map_err(|error| cannot_write(&self.root, &error))
    }

    /// Writes one file, and creates its folder. The file contains no control characters.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, name: impl AsRef<Path>, text: &str) -> Result<(), Failure> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let text = if is_json {
            foreign_text::escape_json(text)
        } else {
            foreign_text::to_plain(text)
        };
        let name = path.file_name().unwrap_or_default();
        let written = self.open().and_then(|(_, modes)| {
            Folder::create(folder, modes.folder)?.write(name, text.as_bytes(), modes.file)
        });
        written.map_err(|error| cannot_write(&path, &error))
    }

    /// Opens or creates the folder. Its files contain logs, so a new one is private. Files in an existing one have its access.
    fn open(&self) -> io::Result<(Folder, Modes)> {
        let folder = Folder::create(&self.root, PRIVATE.folder)?;
        let mode = folder.stat(".".as_ref())?.st_mode;
        let is_private = mode & 0o777 == PRIVATE.folder;
        let modes = if is_private { PRIVATE } else { SHARED };
        Ok((folder, modes))
    }

    /// Removes all links from the folder: a container that mounts it can leave some, and an upload of the report would follow them. A folder
    /// with the current folder is not only a report, and keeps its links.
    ///
    /// # Errors
    /// A folder cannot be listed, or a link cannot be removed.
    pub(crate) fn remove_links(&self) -> io::Result<()> {
        let is_working_folder = std::env::current_dir()?.starts_with(self.root.canonicalize()?);
        if is_working_folder {
            return Ok(());
        }
        remove_links(&Folder::open(&self.root)?)
    }
}

fn remove_links(folder: &Folder) -> io::Result<()> {
    for name in folder.list()? {
        let name = name?;
        match FileType::from_raw_mode(folder.stat(&name)?.st_mode) {
            FileType::Symlink => folder.remove(&name)?,
            FileType::Directory => remove_links(&folder.below(Path::new(&name))?)?,
            _ => {}
        }
    }
    Ok(())
}

/// Failure of a write in a report folder.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::operation_failed(&format!("cannot write `{}`", path.shown()), error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn new_report_is_private_and_an_existing_one_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, folder_mode, file_mode) in [("new", 0o700, 0o600), ("shared", 0o755, 0o644)] {
            let root = dir.path().join(name);
            let folder = ReportFolder::at(&root);
            folder.mark().unwrap();
            folder.write("logs/web.log", "x").unwrap();
            let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
            let found = ["", ".argus-report", "logs/web.log"].map(mode);
            assert_eq!(found, [folder_mode, file_mode, file_mode], "{name}");
        }
    }

    #[test]
    fn earlier_parts_are_removed_without_what_their_links_name() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("mine"), "x").unwrap();
        let folder = ReportFolder::at(&dir.path().join("report"));
        folder.write("logs/deep/web.log", "x").unwrap();
        symlink(&outside, folder.path().join("logs/deep/link")).unwrap();
        symlink(&outside, folder.path().join("evidence")).unwrap();
        folder.remove(["evidence", "logs", "missing"]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(outside.join("mine").exists());
    }

    #[test]
    fn complete_report_contains_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "own").unwrap();
        let root = dir.path().join("report");
        let folder = ReportFolder::at(&root);
        folder.write("logs/web.log", "x").unwrap();
        symlink(&secret, root.join("one")).unwrap();
        symlink(dir.path(), root.join("logs/two")).unwrap();
        folder.remove_links().unwrap();
        let names = |path: &str| fs::read_dir(root.join(path)).unwrap().count();
        assert_eq!((names(""), names("logs")), (1, 1));
        assert_eq!(fs::read_to_string(secret).unwrap(), "own");
    }
}
