//! Document of a compose file: with its `<<` merges, `include` and `extends` resolved, and with the lines of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_crds::compose::compose_key;
use argus_crds::diagnostic::{Diagnostic, Location};
use argus_crds::yaml::{self, SourceMap};
use serde_json::{Map, Value, json};

use super::merge::{merge, normalize, rebase};
use super::{Note, Place, shape};
use crate::spec_draft::ReadFile;

/// Maximum number of files that a compose file may name.
pub(super) const MAX_FILES: usize = 64;
/// Maximum depth of `include` and `extends`.
const MAX_DEPTH: usize = 32;
/// Top-level maps that included files add to.
const SECTIONS: [&str; 5] = ["services", "volumes", "networks", "secrets", "configs"];
/// A compose file with the files that it names.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// Problems of the file and of files that it names.
    pub(super) notes: Vec<Note>,
    /// The files, by index. The first is the compose file itself.
    pub(super) files: Vec<NamedFile>,
    /// File of each service of another file.
    origins: BTreeMap<String, usize>,
    /// Files that were merged into the first one, by index.
    pub(super) overrides: Vec<usize>,
}

/// A file during the resolution of `include` and `extends`.
#[derive(Debug)]
pub(super) struct NamedFile {
    /// Path relative to the project.
    path: PathBuf,
    /// Lines of its keys.
    source: SourceMap,
    /// Its content, with paths relative to the project.
    pub(super) value: Value,
}

/// Reader of the files of a project.
pub(super) struct Files<'a> {
    pub(super) dir: &'a Path,
    pub(super) read: ReadFile<'a>,
}

impl Document {
    /// Parses the contents of a compose file, and reads the files that it names, and those that Compose merges into it. `named` is the
    /// value of `COMPOSE_FILE`.
    pub(crate) fn parse(
        name: &str,
        path: &Path,
        bytes: &[u8],
        named: Option<&str>,
        read: ReadFile<'_>,
    ) -> Result<Self, Box<Diagnostic>> {
        let files = Files {
            dir: path.parent().unwrap_or(Path::new(".")),
            read,
        };
        let mut document = Self {
            value: Value::Null,
            notes: Vec::new(),
            files: Vec::new(),
            origins: BTreeMap::new(),
            overrides: Vec::new(),
        };
        let own = path.file_name().map(PathBuf::from).unwrap_or_default();
        let value = document.add_file(own.clone(), name, bytes)?;
        let value = document.add_overrides(value, &own, named, &files);
        document.value = document.include_files(value, &files, &mut BTreeSet::new(), 0);
        document.extend_services(&files);
        Ok(document)
    }

    /// Parses a file, and removes its invalid parts.
    fn add_file(&mut self, path: PathBuf, name: &str, bytes: &[u8]) -> Result<Value, Box<Diagnostic>> {
        let read = yaml::document(name, bytes)?;
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
        let value = Value::Object(fields);
        self.files.push(NamedFile {
            path,
            source: read.source,
            value: value.clone(),
        });
        Ok(value)
    }

    /// Returns the paths of the other files, relative to the project.
    pub(super) fn other_files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().skip(1).map(|file| file.path.as_path())
    }

    /// Returns the place of a key of a service.
    pub(crate) fn place(&self, service: &str, key: &str) -> Option<Place> {
        let own = self.origins.get(service).copied().unwrap_or_default();
        let first = key.split(['.', '[']).next().unwrap_or_default();
        let names_key = |file: &&usize| self.files[**file].value["services"][service].get(first).is_some();
        // The last of the files that contain the key decides its value.
        let file = self
            .overrides
            .iter()
            .rev()
            .find(names_key)
            .copied()
            .unwrap_or(own);
        self.place_in(file, &format!("services.{service}.{key}"))
    }

    /// Returns the place of a top-level path.
    pub(super) fn place_of(&self, path: &str) -> Option<Place> {
        self.place_in(0, path)
    }

    fn place_in(&self, file: usize, path: &str) -> Option<Place> {
        let known = self.files.get(file)?;
        Some(Place {
            location: known.source.locate(path.trim_end_matches('.'))?,
            file: (file > 0).then(|| known.path.clone()),
        })
    }

    /// Returns the location of a path of the translation. A service of another file has the location of `include`.
    pub(crate) fn locate(&self, path: &str) -> Option<Location> {
        let source = &self.files.first()?.source;
        let Some(path) = path.strip_prefix("services.") else {
            let key = match path {
                "network" | "network.internal" => "networks",
                "project.name" => "name",
                volume if volume.starts_with("volumes.") => volume,
                _ => "",
            };
            return source.locate(key);
        };
        let services = self.value["services"].as_object()?;
        let named = services.keys().filter_map(|name| {
            let key = path.strip_prefix(name.as_str())?;
            (key.is_empty() || key.starts_with(['.', '['])).then(|| (name, key.trim_start_matches('.')))
        });
        let (name, key) = named.max_by_key(|(name, _)| name.len())?;
        if self.origins.contains_key(name) {
            return source.locate("include");
        }
        let written = format!("services.{name}.{}", compose_key(key));
        let limits = format!("services.{name}.deploy.resources.limits.{key}");
        let path = if source.scalar(&limits).is_some() {
            &limits
        } else {
            &written
        };
        source.locate(path.trim_end_matches('.'))
    }

    /// Reads another file, whose paths become relative to the project. Returns its index.
    fn read_other(&mut self, files: &Files<'_>, path: &str) -> Option<usize> {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        self.read_in(files, path, folder)
    }

    /// Reads another file, whose paths start from `folder`. Returns its index.
    pub(super) fn read_in(&mut self, files: &Files<'_>, path: &str, folder: &Path) -> Option<usize> {
        let known = self
            .files
            .iter()
            .skip(1)
            .position(|file| file.path == Path::new(path));
        if let Some(known) = known {
            return Some(known + 1);
        }
        if self.files.len() > MAX_FILES {
            let what = format!("`{path}`: the file names more than {MAX_FILES} files");
            self.notes.push(Note::error(what, None));
            return None;
        }
        let added = (files.read)(&files.dir.join(path)).and_then(|bytes| {
            self.add_file(PathBuf::from(path), path, &bytes)
                .map_err(|diagnostic| {
                    let line = diagnostic
                        .location
                        .map(|location| format!("line {}: ", location.line))
                        .unwrap_or_default();
                    format!("{line}{}", diagnostic.message)
                })
        });
        match added {
            Ok(mut value) => {
                if folder.as_os_str() != "" {
                    rebase(&mut value, folder);
                }
                let last = self.files.last_mut()?;
                last.value = value;
                Some(self.files.len() - 1)
            }
            Err(why) => {
                let what = format!("cannot read `{path}`: {why}");
                self.notes.push(Note::error(what, None));
                None
            }
        }
    }

    /// Adds the files under `include`, each of them once.
    fn include_files(
        &mut self,
        mut value: Value,
        files: &Files<'_>,
        included: &mut BTreeSet<String>,
        depth: usize,
    ) -> Value {
        let include = value.as_object_mut().and_then(|map| map.shift_remove("include"));
        if include
            .as_ref()
            .is_some_and(|include| !include.is_array() && !include.is_null())
        {
            self.notes
                .push(Note::error("`include` is not a list", self.place_of("include")));
        }
        for one in include.as_ref().and_then(Value::as_array).into_iter().flatten() {
            for key in one
                .as_object()
                .into_iter()
                .flat_map(Map::keys)
                .filter(|key| *key != "path")
            {
                let place = self.place_of("include").filter(|_| depth == 0);
                self.notes
                    .push(Note::omission(format!("left out: `include.{key}`"), place));
            }
            let paths = match one.get("path").unwrap_or(one) {
                Value::Array(paths) => paths.clone(),
                path => vec![path.clone()],
            };
            for path in paths.iter().filter_map(Value::as_str) {
                if depth > MAX_DEPTH || !included.insert(path.to_owned()) {
                    continue;
                }
                let Some(file) = self.read_other(files, path) else {
                    continue;
                };
                let other = self.files[file].value.clone();
                let other = self.include_files(other, files, included, depth + 1);
                self.add_sections(&mut value, &other, file);
            }
        }
        value
    }

    /// Adds the entries of an included file.
    fn add_sections(&mut self, value: &mut Value, other: &Value, file: usize) {
        for section in SECTIONS {
            for (name, entry) in other[section].as_object().into_iter().flatten() {
                match value[section].get(name) {
                    Some(own) if own == entry => {}
                    Some(_) => {
                        let what = format!(
                            "`{section}.{name}` is also in the included file `{}`",
                            self.files[file].path.display()
                        );
                        let place = self.place_of(&format!("{section}.{name}"));
                        self.notes.push(Note::error(what, place));
                    }
                    None => {
                        if section == "services" {
                            self.origins.entry(name.clone()).or_insert(file);
                        }
                        if value[section].is_null() {
                            value[section] = json!({});
                        }
                        value[section][name] = entry.clone();
                    }
                }
            }
        }
    }

    /// Merges each service with the service that it extends.
    fn extend_services(&mut self, files: &Files<'_>) {
        self.files[0].value = self.value.clone();
        let names: Vec<String> = self.value["services"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .cloned()
            .collect();
        let mut extended = BTreeMap::new();
        for name in names {
            let merged = self.extend(files, (0, &name), &mut extended, 0);
            self.value["services"][name] = merged;
        }
    }

    /// Returns a service of a file with the service that it extends. `extended` contains the results by file and name.
    fn extend(
        &mut self,
        files: &Files<'_>,
        (file, name): (usize, &str),
        extended: &mut BTreeMap<(usize, String), Value>,
        depth: usize,
    ) -> Value {
        if let Some(known) = extended.get(&(file, name.to_owned())) {
            return known.clone();
        }
        let mut own = normalize(&self.files[file].value["services"][name]);
        let extends = own.as_object_mut().and_then(|map| map.shift_remove("extends"));
        let extends = extends.filter(|extends| !extends.is_null());
        let merged = match extends {
            None => own,
            Some(extends) => {
                let base = extends
                    .as_str()
                    .or_else(|| extends["service"].as_str())
                    .unwrap_or_default()
                    .to_owned();
                let from = match extends["file"].as_str() {
                    None => Some(file),
                    Some(path) => self.read_other(files, path),
                };
                let found = from.filter(|from| self.files[*from].value["services"].get(&base).is_some());
                match found {
                    Some(from) if depth < MAX_DEPTH => {
                        merge(self.extend(files, (from, &base), extended, depth + 1), own)
                    }
                    _ => {
                        let why = if found.is_some() {
                            "the chain is too long or a circle".to_owned()
                        } else {
                            format!("no service `{base}`")
                        };
                        let place = self.place(name, "extends");
                        self.notes.push(Note::error(
                            format!("left out of `{name}`: `extends`: {why}"),
                            place,
                        ));
                        own
                    }
                }
            }
        };
        extended.insert((file, name.to_owned()), merged.clone());
        merged
    }
}
