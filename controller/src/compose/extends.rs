//! Services that extend others, in the same file or in another one.

use std::path::{Path, PathBuf};

use serde_json::Map;

use super::Note;
use super::document::{Document, Files, Scope, size_of};
use super::merge::{merge, normalize};
use super::tags::clear_service;

/// Maximum number of services that extend each other.
const MAX_DEPTH: usize = 32;

impl Document {
    /// Merges each service of a file with the service that it extends.
    pub(super) fn extend_services(&mut self, files: &Files<'_>, index: usize) {
        let services = self.files[index].value["services"].as_object();
        let names: Vec<String> = services.into_iter().flat_map(Map::keys).cloned().collect();
        for name in names {
            self.extend(files, (index, &name), 0);
        }
    }

    fn extend(&mut self, files: &Files<'_>, (index, name): (usize, &str), depth: usize) {
        // A service is copied each time that another one extends it.
        if !self.fits(0) || !self.fits(size_of(&self.files[index].value["services"][name])) {
            return;
        }
        let mut own = normalize(&self.files[index].value["services"][name]);
        let extends = own.as_object_mut().and_then(|map| map.shift_remove("extends"));
        if let Some(extends) = extends.filter(|extends| !extends.is_null()) {
            let base = extends
                .as_str()
                .or_else(|| extends["service"].as_str())
                .unwrap_or_default();
            let from = match extends["file"].as_str() {
                None => Some(index),
                Some(path) => {
                    let path = files.path(path);
                    let folder = Path::new(&path).parent().map(PathBuf::from).unwrap_or_default();
                    let own = self.files[index].scope.own.clone();
                    self.read_other(files, &path, Scope { folder, own })
                }
            };
            let found = from.filter(|from| self.files[*from].value["services"].get(base).is_some());
            match found {
                Some(from) if depth < MAX_DEPTH => {
                    self.extend(files, (from, base), depth + 1);
                    let mut base = self.files[from].value["services"][base].clone();
                    clear_service(&mut base, name, &self.files[index].cleared);
                    own = merge(base, own);
                }
                _ => {
                    let why = if found.is_some() {
                        "the chain is too long or a circle".to_owned()
                    } else {
                        format!("no service `{base}`")
                    };
                    let place = self.place_in(index, &format!("services.{name}.extends"));
                    let what = format!("left out of `{name}`: `extends`: {why}");
                    self.notes.push(Note::error(what, place));
                }
            }
        }
        self.files[index].value["services"][name] = own;
    }
}
