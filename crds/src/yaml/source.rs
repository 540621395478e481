//! Where things stand in a file.

use std::sync::Arc;

use super::tree::{self, Entry, Kind, Node};
use crate::diagnostic::{Diagnostic, Location};

/// Where things stand in a file that was read.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    file: String,
    root: Option<Arc<Node>>,
}

impl SourceMap {
    pub(super) fn new(file: &str, root: Option<Arc<Node>>) -> Self {
        Self {
            file: file.to_owned(),
            root,
        }
    }

    pub(super) fn root(&self) -> Option<&Node> {
        self.root.as_deref()
    }

    /// The tree without what these complaints refuse.
    pub(super) fn without(&self, refused: &[&Diagnostic]) -> Option<Arc<Node>> {
        let whole = self.root.clone()?;
        refused
            .iter()
            .try_fold(whole, |node, diagnostic| tree::without(&node, &diagnostic.path))
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The place of a path as in `services[0].container.ports[1]` or `services.db.container`.
    ///
    /// A path that is not in the file gives the place of its nearest parent that is; a file that was not read gives
    /// nothing. A service is found by its index and by its name, whether it stands in a list or in a map.
    pub fn locate(&self, path: &str) -> Option<Location> {
        let mut node = self.root()?;
        let mut place = node.place;
        let mut rest = path;
        while !rest.is_empty() {
            let Some((next, at, used)) = step(node, rest) else {
                break;
            };
            (node, place) = (next, at);
            rest = rest[used..].trim_start_matches('.');
        }
        Some(place)
    }

    /// The same complaint with its place, unless it has one.
    #[must_use]
    pub fn placed(&self, diagnostic: Diagnostic) -> Diagnostic {
        match (diagnostic.location, self.locate(&diagnostic.path)) {
            (None, Some(place)) => diagnostic.at(place),
            _ => diagnostic,
        }
    }
}

/// One step down a path: where it leads, the place to point at, and how much of the path it used.
fn step<'a>(node: &'a Node, rest: &str) -> Option<(&'a Node, Location, usize)> {
    if let Some((index, used)) = index_of(rest) {
        return match &node.kind {
            Kind::List(items) => items.get(index).map(|item| (&**item, item.place, used)),
            Kind::Map(entries) => entries.get(index).map(|entry| entered(entry, used)),
            Kind::Scalar { .. } => None,
        };
    }
    match &node.kind {
        Kind::Map(entries) => entries
            .iter()
            .filter(|entry| leads(&entry.key, rest))
            .max_by_key(|entry| entry.key.len())
            .map(|entry| entered(entry, entry.key.len())),
        Kind::List(items) => items.iter().find_map(|item| {
            let Kind::Scalar { text, .. } = &item.get("name")?.value.kind else {
                return None;
            };
            leads(text, rest).then_some((&**item, item.place, text.len()))
        }),
        Kind::Scalar { .. } => None,
    }
}

fn entered(entry: &Entry, used: usize) -> (&Node, Location, usize) {
    (&entry.value, entry.place(), used)
}

/// Whether a path goes on with this key.
pub(super) fn leads(key: &str, rest: &str) -> bool {
    !key.is_empty()
        && rest
            .strip_prefix(key)
            .is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
}

pub(super) fn index_of(rest: &str) -> Option<(usize, usize)> {
    let inner = rest.strip_prefix('[')?;
    let end = inner.find(']')?;
    Some((inner[..end].parse().ok()?, end + 2))
}
