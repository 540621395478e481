//! Files under `include`. Each entry is a project with its own folder and variables; several paths of one entry are merged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argus_core::dotenv;
use serde_json::{Value, json};

use super::Note;
use super::document::{Document, Files, MAX_FILES, SECTIONS, Scope, Stage};
use super::files::count_env_file;
use super::merge::merge_documents;

impl Document {
    /// Adds the files under `include` of a file.
    pub(super) fn include_files(&mut self, files: &Files<'_>, index: usize) {
        let fields = self.files[index].value.as_object_mut();
        let entries = match fields.and_then(|fields| fields.shift_remove("include")) {
            None | Some(Value::Null) => return,
            Some(Value::Array(entries)) => entries,
            Some(_) => return self.report(index, "`include` is not a list"),
        };
        if entries.len() > MAX_FILES {
            self.report(index, &format!("`include` has more than {MAX_FILES} entries"));
        }
        for entry in entries.iter().take(MAX_FILES) {
            let paths = texts(entry.get("path").unwrap_or(entry));
            let paths: Vec<String> = paths.into_iter().map(|path| files.path(path)).collect();
            let Some(first) = paths.first() else {
                self.report(index, "`include`: an entry has no path");
                continue;
            };
            let scope = self.scope_of(files, index, entry, Path::new(first));
            let mut merged: Option<Value> = None;
            for path in &paths {
                let Some(other) = self.read_other(files, path, scope.clone()) else {
                    continue;
                };
                if self.files[other].stage == Stage::Open {
                    self.report(index, &format!("`include`: `{path}` includes itself"));
                    continue;
                }
                let value = self.resolve(files, other);
                merged = Some(match merged {
                    Some(base) => merge_documents(base, &value, &self.files[other].cleared),
                    None => value,
                });
            }
            self.add_sections(index, &merged.unwrap_or_default(), first);
        }
    }

    fn report(&mut self, index: usize, what: &str) {
        let place = self.place_in(index, "include");
        self.notes.push(Note::error(what, place));
    }

    /// Returns the folder of an entry, and its variables: those of its `env_file`, else those of the `.env` in its folder.
    fn scope_of(&mut self, files: &Files<'_>, index: usize, entry: &Value, first: &Path) -> Scope {
        let folder = match entry["project_directory"].as_str() {
            Some(folder) => files.path(folder).into(),
            None => first.parent().unwrap_or(Path::new("")).to_owned(),
        };
        let mut own = BTreeMap::new();
        let named = texts(&entry["env_file"]);
        for path in named.iter().map(|path| files.path(path)) {
            if self.env_files.exceeded().is_some() {
                break;
            }
            match (files.read)(&files.dir.join(&path)) {
                _ if path == "/dev/null" => {}
                Ok(bytes) => self.add_variables(files, index, &mut own, path.as_ref(), &bytes),
                Err(why) => self.report(index, &format!("`include`: cannot read `{path}`: {why}")),
            }
        }
        // The `.env` of the project is known.
        let has_own = folder != Path::new("") && folder != Path::new(".");
        if named.is_empty() && has_own && self.env_files.exceeded().is_none() {
            let path = folder.join(".env");
            let bytes = (files.read)(&files.dir.join(&path)).unwrap_or_default();
            self.add_variables(files, index, &mut own, &path, &bytes);
        }
        let outer = Arc::clone(&self.files[index].scope.own);
        if own.is_empty() {
            return Scope { folder, own: outer };
        }
        // Each entry has a copy of them.
        if self.env_files.exceeded().is_none() {
            let bytes = outer.iter().map(|(name, value)| name.len() + value.len());
            self.count_variables(index, outer.len(), bytes.sum());
        }
        if self.env_files.exceeded().is_none() {
            own.extend(BTreeMap::clone(&outer));
        }
        let own = Arc::new(own);
        Scope { folder, own }
    }

    fn count_variables(&mut self, index: usize, variables: usize, bytes: usize) {
        if let Some(excess) = count_env_file(&mut self.env_files, variables, bytes) {
            self.report(index, &format!("`include`: {excess}"));
        }
    }

    /// Adds the variables of a file that the project does not have.
    fn add_variables(
        &mut self,
        files: &Files<'_>,
        index: usize,
        all: &mut BTreeMap<String, String>,
        path: &Path,
        bytes: &[u8],
    ) {
        let outer = self.files[index].scope.own.as_ref();
        let found = dotenv::read(bytes, &|name| {
            let known = [files.variables, outer, &*all];
            known.into_iter().find_map(|known| known.get(name)).cloned()
        });
        for problem in found.problems {
            self.report(index, &format!("`include`: {}", problem.describe(path)));
        }
        self.count_variables(index, found.variables.len(), bytes.len() + found.inserted);
        let variables = found.variables.into_iter();
        all.extend(variables.filter(|(name, _)| !files.variables.contains_key(name)));
    }

    /// Adds the entries of an included project to a file.
    fn add_sections(&mut self, index: usize, other: &Value, path: &str) {
        for section in SECTIONS {
            for (name, entry) in other[section].as_object().into_iter().flatten() {
                let sections = &mut self.files[index].value;
                match sections[section].get(name) {
                    Some(own) if own == entry => {}
                    Some(_) => {
                        let what = format!("`{section}.{name}` is also in the included file `{path}`");
                        let place = self.place_in(index, &format!("{section}.{name}"));
                        self.notes.push(Note::error(what, place));
                    }
                    None => {
                        if sections[section].is_null() {
                            sections[section] = json!({});
                        }
                        sections[section][name] = entry.clone();
                    }
                }
            }
        }
    }
}

/// Texts of a list, or a single text.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}
