//! Index of the accepted files by everything that a conflict needs: names, and places of mounts.
//!
//! A folder can contain thousands of files. [`conflicts`](super::conflict::conflicts) compares only those that the index returns.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::desired::Desired;
use crate::desired::conflict::Candidate;

/// Name that two files can have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Environment(String),
    Container(String),
    Network(String),
    EnvFile(String),
}

/// Everything in one file that a conflict needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Keys {
    names: BTreeSet<Key>,
    /// Sources of all mounts.
    sources: BTreeSet<String>,
    /// Sources of the writable mounts.
    writable: BTreeSet<String>,
}

/// Paths of files by the source of a mount.
type FilesOfSource = BTreeMap<String, BTreeSet<String>>;

/// Index of accepted files by path. The directories above a source are not stored: an expanded file can have many long sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConflictIndex {
    by_name: HashMap<Key, BTreeSet<String>>,
    by_source: FilesOfSource,
    by_writable: FilesOfSource,
    keys_of: HashMap<String, Keys>,
}

impl ConflictIndex {
    /// Number of files.
    pub fn len(&self) -> usize {
        self.keys_of.len()
    }

    /// Returns true without files.
    pub fn is_empty(&self) -> bool {
        self.keys_of.is_empty()
    }

    /// Adds the accepted revision of a file, in place of an earlier one.
    pub fn insert(&mut self, path: &str, desired: &Desired) {
        self.remove(path);
        let keys = Keys::of(desired);
        for name in &keys.names {
            let files = self.by_name.entry(name.clone()).or_default();
            files.insert(path.to_owned());
        }
        insert_sources(&mut self.by_source, &keys.sources, path);
        insert_sources(&mut self.by_writable, &keys.writable, path);
        self.keys_of.insert(path.to_owned(), keys);
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &str) {
        let Some(keys) = self.keys_of.remove(path) else {
            return;
        };
        for name in &keys.names {
            if let Some(files) = self.by_name.get_mut(name) {
                files.remove(path);
                if files.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        remove_sources(&mut self.by_source, &keys.sources, path);
        remove_sources(&mut self.by_writable, &keys.writable, path);
    }

    /// Returns all files that can have a conflict with a candidate.
    pub fn find(&self, candidate: &Candidate<'_>) -> BTreeSet<&str> {
        let keys = Keys::of(candidate.desired);
        let mut found = BTreeSet::new();
        for files in keys.names.iter().filter_map(|name| self.by_name.get(name)) {
            found.extend(files.iter().map(String::as_str));
        }
        // A conflict needs a mount of one file below a writable mount of the other one.
        if !self.by_writable.is_empty() {
            let parents = keys.sources.iter().flat_map(|source| parents(source));
            for files in parents.filter_map(|parent| self.by_writable.get(parent)) {
                found.extend(files.iter().map(String::as_str));
            }
        }
        for writable in &keys.writable {
            // The range of a directory contains those of the directories below it.
            if parents(writable).any(|parent| keys.writable.contains(parent)) {
                continue;
            }
            let prefix = format!("{writable}/");
            let below = self.by_source.range(prefix.clone()..);
            for (_, files) in below.take_while(|(source, _)| source.starts_with(&prefix)) {
                found.extend(files.iter().map(String::as_str));
            }
        }
        found
    }
}

impl Keys {
    fn of(desired: &Desired) -> Self {
        let mut keys = Self::default();
        keys.names.insert(Key::Environment(desired.env.to_string()));
        let own = desired.declared_networks().filter(|network| !network.external);
        keys.names
            .extend(own.map(|network| Key::Network(network.name.to_string())));
        keys.names.extend(desired.env_file.clone().map(Key::EnvFile));
        for service in desired.services.values() {
            keys.names
                .insert(Key::Container(service.container_name.to_string()));
            for (mount, _) in service.mounts_and_covers() {
                insert_new(&mut keys.sources, mount.source());
                insert_new(&mut keys.writable, mount.writable_source());
            }
        }
        keys
    }
}

/// Copies a source only if it is new, because covers repeat sources.
fn insert_new(sources: &mut BTreeSet<String>, source: Option<&str>) {
    if let Some(source) = source
        && !sources.contains(source)
    {
        sources.insert(source.to_owned());
    }
}

fn insert_sources(index: &mut FilesOfSource, sources: &BTreeSet<String>, path: &str) {
    for source in sources {
        index.entry(source.clone()).or_default().insert(path.to_owned());
    }
}

fn remove_sources(index: &mut FilesOfSource, sources: &BTreeSet<String>, path: &str) {
    for source in sources {
        if let Some(files) = index.get_mut(source) {
            files.remove(path);
            if files.is_empty() {
                index.remove(source);
            }
        }
    }
}

/// Directories above a path, the nearest first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0)).skip(1)
}
