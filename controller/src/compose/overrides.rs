//! Files that Compose merges into the first one: those in `COMPOSE_FILE`, else the override file of the folder.

use std::collections::BTreeSet;
use std::path::Path;

use argus_crds::compose::COMPOSE_NAMES;
use serde_json::Value;

use super::Note;
use super::document::{Document, Files, MAX_FILES, Scope};
use super::merge::merge_documents;
use super::parts::join_paths;

/// Variable with the files of a project.
pub(crate) const FILES: &str = "COMPOSE_FILE";

/// Variable with the active profiles.
pub(crate) const PROFILES: &str = "COMPOSE_PROFILES";

/// Names of override files, in the order of Compose, which reads the first one.
const OVERRIDES: [&str; 4] = [
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
];

impl Document {
    /// Merges the files that belong to the first file. `named` is the value of `COMPOSE_FILE`.
    pub(super) fn add_overrides(
        &mut self,
        value: Value,
        own: &Path,
        named: Option<&str>,
        files: &Files<'_>,
    ) -> Value {
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let mut paths = named.split(':');
            let first = paths.next().unwrap_or_default();
            if Path::new(first.trim_start_matches("./")) == own {
                let mut seen = BTreeSet::new();
                let paths = paths.filter(|path| !path.is_empty());
                let paths = paths.filter(|path| seen.insert(join_paths(Path::new(""), path)));
                let paths: Vec<&str> = paths.take(MAX_FILES + 1).collect();
                if paths.len() > MAX_FILES {
                    let what = format!("`{FILES}` names more than {MAX_FILES} files");
                    self.notes.push(Note::error(what, None));
                }
                return paths
                    .into_iter()
                    .take(MAX_FILES)
                    .fold(value, |value, path| self.merge_file(value, path, files));
            }
            let what = format!("left out: the files in `{FILES}`, which begins with `{first}`");
            self.notes.push(Note::omission(what, None));
            return value;
        }
        if !COMPOSE_NAMES.iter().any(|name| own == Path::new(name)) {
            return value;
        }
        // A missing file is read too, so that Argus notices when it appears.
        let found = OVERRIDES.into_iter().find(|name| {
            let path = files.dir.join(name);
            (files.read)(&path).is_ok() || path.exists()
        });
        match found {
            Some(name) => self.merge_file(value, name, files),
            None => value,
        }
    }

    /// Merges another file, whose paths start from the folder of the first one.
    fn merge_file(&mut self, value: Value, name: &str, files: &Files<'_>) -> Value {
        let Some(index) = self.read_other(files, name, Scope::default()) else {
            return value;
        };
        let own = self.resolve(files, index);
        merge_documents(value, &own, &self.files[index].cleared)
    }
}
