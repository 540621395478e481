//! Files of a report: `report.json`, `junit.xml` and `summary.md`.

use std::path::{Path, PathBuf};

use super::Report;
use crate::blocking_io;
use crate::exit::Failure;

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
            ("summary.md", self.to_summary()),
        ];
        let folder = folder.to_owned();
        blocking_io::read(move || {
            std::fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, &error))?;
            for (name, text) in files {
                let path: PathBuf = folder.join(name);
                std::fs::write(&path, text).map_err(|error| unwritten(&path, &error))?;
            }
            Ok(())
        })
        .await
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::operation_failed(&format!("cannot write `{}`", path.display()), error)
}
