//! Folder of a report, with the files `report.json`, `junit.xml` and `summary.md`.

use std::io;
use std::path::{Path, PathBuf};

use super::Report;
use crate::blocking_io;
use crate::exit::Failure;
use crate::foreign_text;

/// Folder of a report.
#[derive(Debug, Clone)]
pub(crate) struct ReportFolder {
    root: PathBuf,
}

impl ReportFolder {
    /// The folder at a path, which may not exist yet.
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
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
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
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
        let write = move || files.iter().try_for_each(|(name, text)| folder.write(name, text));
        blocking_io::read(write).await
    }
}

/// Failure of a write in a report folder.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::operation_failed(&format!("cannot write `{}`", path.display()), error)
}
