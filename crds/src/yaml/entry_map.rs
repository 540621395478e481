//! Entries of a map in the order of the file, with an index of their keys: a search for each of many keys takes no quadratic time.

use std::ops::Deref;
use std::sync::Arc;

use super::source::is_next_key;
use super::tree::{Kind, Node};
use crate::diagnostic::Location;

/// Entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_location: Location,
    pub(super) value: Arc<Node>,
}

impl Entry {
    /// Returns the location for diagnostics about the value: that of a non-empty scalar, otherwise that of the key.
    pub(super) fn location(&self) -> Location {
        match &self.value.kind {
            Kind::Scalar { text, plain } if !(*plain && text.is_empty()) => self.value.location,
            Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => self.key_location,
        }
    }
}

/// Entries of a map, each with another key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryMap {
    entries: Vec<Entry>,
    /// Positions of the entries in the order of their keys.
    by_key: Vec<usize>,
}

impl From<Vec<Entry>> for EntryMap {
    fn from(entries: Vec<Entry>) -> Self {
        let mut by_key: Vec<usize> = (0..entries.len()).collect();
        by_key.sort_by(|left, right| entries[*left].key.cmp(&entries[*right].key));
        Self { entries, by_key }
    }
}

impl Deref for EntryMap {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.entries
    }
}

impl<'a> IntoIterator for &'a EntryMap {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl EntryMap {
    /// Returns the entry under a key.
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        let is_at = |at: &usize| self.entries[*at].key.as_str().cmp(key);
        let found = self.by_key.binary_search_by(is_at).ok()?;
        self.entries.get(self.by_key[found])
    }

    /// Returns the position of the entry with the longest key with which a path begins. Keys can contain dots.
    pub(super) fn find_next(&self, path: &str) -> Option<usize> {
        let mut start = path;
        while !start.is_empty() {
            let after = self
                .by_key
                .partition_point(|at| self.entries[*at].key.as_str() <= start);
            let at = self.by_key[after.checked_sub(1)?];
            let key = self.entries[at].key.as_str();
            if is_next_key(key, path) {
                return Some(at);
            }
            // Each shorter key with which the path begins is also the beginning of this one.
            let pairs = start.char_indices().zip(key.chars());
            let shared = pairs.take_while(|((_, c), other)| c == other).last();
            let shared = shared.map_or(0, |((at, c), _)| at + c.len_utf8());
            let is_end = shared < key.len() && path[shared..].starts_with(['.', '[']);
            let end = if is_end {
                shared
            } else {
                path[..shared].rfind(['.', '[']).unwrap_or(0)
            };
            start = &path[..end];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::tree_of;

    fn entries(keys: &[String]) -> EntryMap {
        let text: Vec<String> = keys.iter().map(|key| format!("\"{key}\": 1\n")).collect();
        let root = tree_of(&text.concat()).unwrap().node;
        match &root.kind {
            Kind::Map(entries) => EntryMap::from(entries.to_vec()),
            kind => panic!("{kind:?}"),
        }
    }

    proptest! {
        #[test]
        fn longest_key_of_a_path_is_found(
            keys in proptest::collection::btree_set("[ab.é\\[-]{1,5}", 1..20),
            path in "[ab.é\\[-]{0,8}",
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let entries = entries(&keys);
            let next = keys.iter().filter(|key| is_next_key(key, &path)).max_by_key(|key| key.len());
            let found = entries.find_next(&path).map(|at| &entries[at].key);
            prop_assert_eq!(found, next);
            for key in &keys {
                prop_assert_eq!(entries.find(key).map(|entry| &entry.key), Some(key));
            }
            prop_assert!(entries.find("other").is_none());
        }
    }
}
