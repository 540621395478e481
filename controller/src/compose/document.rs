//! Document of a compose file: with its `<<` merges, `include` and `extends` resolved, and with the lines of its keys.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_core::budget::Budget;
use argus_crds::diagnostic::{Diagnostic, Location};
use argus_crds::yaml::{self, SourceMap};
use serde_json::{Map, Value};

use super::files::ENV_FILES;
use super::merge::rebase;
use super::tags::{self, Keys};
use super::{FILES, Note, Place, Variables, shape, unknown_keys};
use crate::compose::spec_draft::ReadFile;

/// Maximum number of files that a compose file may name.
pub(super) const MAX_FILES: usize = 64;
/// Top-level maps that included files add to.
pub(super) const SECTIONS: [&str; 6] = ["services", "volumes", "networks", "secrets", "configs", "models"];

/// Maximum size of the files, and of what `include` and `extends` repeat of them, in bytes.
const MAX_SIZE: u64 = 8 << 20;
/// Size of a value without its texts, in bytes.
const VALUE_SIZE: u64 = 16;

/// A compose file with the files that it names.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// Problems of the file and of files that it names.
    pub(super) notes: Vec<Note>,
    /// The files, by index. The first is the compose file itself.
    pub(super) files: Vec<NamedFile>,
    /// Files of each service by index, in the order of their merge.
    pub(super) origins: BTreeMap<String, Vec<usize>>,
    /// Rest of the budget for the files under `env_file`.
    pub(super) env_files: Budget,
    /// Rest of the budget for the size of the document.
    size: Budget,
}

/// A file during the resolution of `include` and `extends`.
#[derive(Debug)]
pub(super) struct NamedFile {
    /// Path relative to the project.
    pub(super) path: PathBuf,
    /// Lines of its keys.
    pub(super) source: SourceMap,
    /// Its content, with paths relative to the project.
    pub(super) value: Value,
    pub(super) scope: Scope,
    pub(super) stage: Stage,
    /// Keys whose values it replaces or removes in a file or service under it.
    pub(super) cleared: Vec<Keys>,
    /// True if it has the key `include`.
    pub(super) has_includes: bool,
}

/// Scope of the relative paths and variables of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Folder from which its relative paths start, relative to the project.
    pub(super) folder: PathBuf,
    /// Variables of an included file that the project does not have. Many scopes share them.
    pub(super) own: Arc<BTreeMap<String, String>>,
}

/// Progress of the resolution of `include` and `extends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Read,
    Open,
    Resolved,
}

/// Reader of the files of a project.
pub(super) struct Files<'a> {
    pub(super) dir: &'a Path,
    pub(super) read: ReadFile<'a>,
    /// Variables of the project.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The same variables, for the paths of files.
    in_paths: RefCell<Variables>,
}

impl Files<'_> {
    /// Replaces the variables in the path of a file.
    pub(super) fn path(&self, text: &str) -> String {
        let mut variables = self.in_paths.borrow_mut();
        variables.inserted = 0;
        variables.replace_in_path(text).replace("$$", "$")
    }
}

impl Document {
    /// Parses the contents of a compose file, and reads the files that it names, and those that Compose merges into it. As in Compose,
    /// `include` and `extends` of each file are resolved before the merge. `variables` are those of the project.
    pub(crate) fn parse(
        name: &str,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        read: ReadFile<'_>,
    ) -> Result<Self, Box<Diagnostic>> {
        let files = Files {
            dir: path.parent().unwrap_or(Path::new(".")),
            read,
            variables,
            in_paths: RefCell::new(Variables {
                project: variables.clone(),
                ..Variables::default()
            }),
        };
        let mut document = Self {
            value: Value::Null,
            notes: Vec::new(),
            files: Vec::new(),
            origins: BTreeMap::new(),
            env_files: ENV_FILES,
            size: Budget::new(u64::MAX, MAX_SIZE),
        };
        let own = path.file_name().map(PathBuf::from).unwrap_or_default();
        document.add_file(own.clone(), name, bytes)?;
        let value = document.resolve(&files, 0);
        let named = variables.get(FILES).map(String::as_str);
        document.value = document.add_overrides(value, &own, named, &files);
        Ok(document)
    }

    /// Parses a file, and removes its invalid parts.
    fn add_file(&mut self, path: PathBuf, name: &str, bytes: &[u8]) -> Result<(), Box<Diagnostic>> {
        let mut read = yaml::document(name, bytes)?;
        let cleared = tags::apply(&read.tags, &mut read.value);
        let Value::Object(mut fields) = read.value else {
            return Err(Box::new(Diagnostic::error("", "the file is not a map")));
        };
        let index = self.files.len();
        let place = |location: Option<Location>| {
            Some(Place {
                file: (index > 0).then(|| path.clone()),
                location: location?,
            })
        };
        for diagnostic in read.diagnostics {
            let place = place(diagnostic.location);
            self.notes.push(Note::error(diagnostic.message, place));
        }
        for tag in &read.tags {
            let note = tags::problem(tag).map(|what| Note::error(what, place(Some(tag.location))));
            self.notes.extend(note);
        }
        for section in SECTIONS {
            let is_valid = |value: &Value| value.is_object() || value.is_null();
            if fields.get(section).is_some_and(|value| !is_valid(value)) {
                fields.shift_remove(section);
                let place = place(read.source.locate(section));
                self.notes
                    .push(Note::error(format!("`{section}` is not a map"), place));
            }
        }
        if let Some(Value::Object(services)) = fields.get_mut("services") {
            services.retain(|name, service| {
                if !service.is_object() {
                    let place = place(read.source.locate(&format!("services.{name}")));
                    self.notes
                        .push(Note::error(format!("service `{name}` is not a map"), place));
                }
                service.is_object()
            });
            for (name, service) in &*services {
                for (key, expected) in shape::problems(service) {
                    let place = place(read.source.locate(&format!("services.{name}.{key}")));
                    let what = format!("`{key}` of the service `{name}` is not {expected}");
                    self.notes.push(Note::error(what, place));
                }
            }
        }
        let mut value = Value::Object(fields);
        let mut unknown = Vec::new();
        // Only spec files have the key `project`.
        if value.get("project").is_none() {
            unknown_keys::remove(&mut value, "", "", &mut unknown);
        }
        for key in unknown {
            let what = format!("`{}` is not a key of Compose files", key.path);
            let rest = key
                .nearest
                .map(|nearest| format!("; the nearest key is `{nearest}`"));
            let note = Note::error(what, place(read.source.locate(&key.path)));
            self.notes.push(note.then(rest.unwrap_or_default()));
        }
        self.files.push(NamedFile {
            path,
            source: read.source,
            has_includes: value.get("include").is_some(),
            value,
            scope: Scope::default(),
            stage: Stage::Read,
            cleared,
        });
        Ok(())
    }

    /// Counts bytes before they are added to the document. The first excess is an error, after which nothing is added.
    pub(super) fn fits(&mut self, bytes: u64) -> bool {
        let was_exceeded = self.size.exceeded().is_some();
        let Err(exceeded) = self.size.bytes(bytes) else {
            return true;
        };
        if !was_exceeded {
            let what = format!(
                "the Compose files of this project have {exceeded} with the parts that `include` and `extends` repeat: remove some of both"
            );
            self.notes.push(Note::error(what, None));
        }
        false
    }

    /// Returns the paths of the other files, relative to the project.
    pub(crate) fn other_files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().skip(1).map(|file| file.path.as_path())
    }

    /// Returns the place of a key of a service.
    pub(crate) fn place(&self, service: &str, key: &str) -> Option<Place> {
        let first = key.split(['.', '[']).next().unwrap_or_default();
        let path = format!("services.{service}.{first}");
        let files = self.origins.get(service).map_or(&[][..], Vec::as_slice);
        // The last of the files that contain the key decides its value.
        let last = files.iter().rev().find(|file| self.contains(**file, &path));
        let file = last.or(files.first()).copied().unwrap_or_default();
        self.place_in(file, &format!("services.{service}.{key}"))
    }

    /// Returns the place of a top-level path, in the first file that contains it.
    pub(super) fn place_of(&self, path: &str) -> Option<Place> {
        let file = (0..self.files.len()).find(|file| self.contains(*file, path));
        self.place_in(file.unwrap_or_default(), path)
    }

    /// Returns true if a file contains exactly this path.
    fn contains(&self, file: usize, path: &str) -> bool {
        let NamedFile { source, value, .. } = &self.files[file];
        match path.rsplit_once('.') {
            Some((parent, _)) => source.locate(path) != source.locate(parent),
            None => value.get(path).is_some(),
        }
    }

    /// Returns the place of a path in a file.
    pub(super) fn place_in(&self, file: usize, path: &str) -> Option<Place> {
        let known = self.files.get(file)?;
        Some(Place {
            location: known.source.locate(path.trim_end_matches('.'))?,
            file: (file > 0).then(|| known.path.clone()),
        })
    }

    /// Reads another file. Returns its index.
    pub(super) fn read_other(&mut self, files: &Files<'_>, path: &str, scope: Scope) -> Option<usize> {
        let known = self
            .files
            .iter()
            .position(|file| file.path == Path::new(path) && file.scope == scope);
        if known.is_some() {
            return known;
        }
        if self.files.len() > MAX_FILES {
            let what = format!("`{path}`: the file names more than {MAX_FILES} files");
            self.notes.push(Note::error(what, None));
            return None;
        }
        if !self.fits(0) {
            return None;
        }
        let read = (files.read)(&files.dir.join(path));
        // A file that cannot be parsed is read for each of its names.
        if !self.fits(read.as_ref().map_or(0, |bytes| bytes.len() as u64)) {
            return None;
        }
        let added = read.and_then(|bytes| {
            self.add_file(PathBuf::from(path), path, &bytes)
                .map_err(|diagnostic| {
                    let line = diagnostic
                        .location
                        .map(|location| format!("line {}: ", location.line))
                        .unwrap_or_default();
                    format!("{line}{}", diagnostic.message)
                })
        });
        if let Err(why) = added {
            let what = format!("cannot read `{path}`: {why}");
            self.notes.push(Note::error(what, None));
            return None;
        }
        let index = self.files.len() - 1;
        let file = &mut self.files[index];
        if !scope.own.is_empty() {
            let variables = Variables::replace_own(&scope.own, &mut file.value);
            let problems = variables.errors(self);
            self.notes.extend(problems);
        }
        let file = &mut self.files[index];
        if scope.folder.as_os_str() != "" {
            rebase(&mut file.value, &scope.folder);
        }
        file.scope = scope;
        Some(index)
    }

    /// Resolves the files under `include` of a file, then the services that its services extend. Returns its content.
    pub(super) fn resolve(&mut self, files: &Files<'_>, index: usize) -> Value {
        if self.files[index].stage == Stage::Read {
            self.files[index].stage = Stage::Open;
            let services = self.files[index].value["services"].as_object();
            let own: Vec<String> = services.into_iter().flat_map(Map::keys).cloned().collect();
            self.include_files(files, index);
            for name in own {
                self.origins.entry(name).or_default().push(index);
            }
            self.extend_services(files, index);
            self.files[index].stage = Stage::Resolved;
        }
        // Each place that includes a file gets a copy. The size is not needed after an excess.
        if index == 0 || self.fits(0) && self.fits(size_of(&self.files[index].value)) {
            self.files[index].value.clone()
        } else {
            Value::Null
        }
    }
}

/// Size of a value in bytes, about as in memory.
pub(super) fn size_of(value: &Value) -> u64 {
    let inner: u64 = match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| key.len() as u64 + size_of(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    VALUE_SIZE + inner
}
