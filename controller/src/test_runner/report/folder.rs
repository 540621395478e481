//! Folder of a report, with the files `report.json`, `junit.xml` and `summary.md`.

use std::io;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::Folder;
use argus_backend::host_path::own_files::REPORT_MARK;
use argus_backend::host_path::real;
use argus_core::quoting::PathText as _;

use super::Report;
use crate::blocking_io;
use crate::exit::Failure;
use crate::foreign_text;

/// Content of the mark.
const MARK_TEXT: &str =
    "Argus wrote the report in this folder. With this file, no build context contains it.\n";

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
        let marked = Folder::create(&self.root, 0o755).and_then(|folder| {
            if folder.stat(REPORT_MARK.as_ref()).is_ok() {
                return Ok(());
            }
            folder.write(REPORT_MARK.as_ref(), MARK_TEXT.as_bytes(), 0o644)
        });
        marked.map_err(|error| cannot_write(&self.root, &error))
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
        let written =
            Folder::create(folder, 0o755).and_then(|folder| folder.write(name, text.as_bytes(), 0o644));
        written.map_err(|error| cannot_write(&path, &error))
    }
}

impl Report {
    /// Writes the files of the report into a folder, which it creates.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) async fn write(&self, folder: &Path) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::operation_failed("cannot write JSON", &error))?;
        let files = [
            ("report.json", json + "\n"),
            ("junit.xml", self.to_junit()?),
            ("summary.md", self.to_summary("")),
        ];
        let folder = ReportFolder::at(folder);
        let write = move || {
            folder.mark()?;
            files.iter().try_for_each(|(name, text)| folder.write(name, text))
        };
        blocking_io::read(write).await
    }
}

/// Failure of a write in a report folder.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::operation_failed(&format!("cannot write `{}`", path.shown()), error)
}
