//! Source map: from paths to locations in a file.

use std::sync::Arc;

use super::entry_map::Entry;
use super::repeated;
use super::tree::{self, Kind, Node};
use crate::diagnostic::{Diagnostic, Location};
use crate::key_schema::join;

/// Locations of all paths in a parsed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    file: String,
    root: Option<Arc<Node>>,
    is_translated: bool,
}

impl SourceMap {
    pub(super) fn new(file: &str, root: Option<Arc<Node>>) -> Self {
        Self {
            file: file.to_owned(),
            root,
            is_translated: false,
        }
    }

    /// Returns true if the file is a Compose file. The paths are those of its translation, and the locations those of the file.
    pub fn is_translated(&self) -> bool {
        self.is_translated
    }

    pub(super) fn of(file: &str, root: Arc<Node>, is_translated: bool) -> Self {
        Self {
            is_translated,
            ..Self::new(file, Some(root))
        }
    }

    pub(super) fn root(&self) -> Option<&Node> {
        self.root.as_deref()
    }

    /// Returns the tree without the parts that these errors reject.
    pub(super) fn without(&self, errors: &[&Diagnostic]) -> Option<Arc<Node>> {
        let whole = self.root.clone()?;
        errors
            .iter()
            .try_fold(whole, |node, diagnostic| tree::without(&node, &diagnostic.path))
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the location of a path such as `services[0].container.ports[1]` or `services.db.container`.
    ///
    /// For a path outside the file, it returns the location of the nearest existing parent. For a file that could not be
    /// parsed, it returns `None`. Both the index and the name of a service work, in a list and in a map.
    pub fn locate(&self, path: &str) -> Option<Location> {
        let mut node = self.root()?;
        let mut location = node.location;
        let mut rest = path;
        while !rest.is_empty() {
            let Some((next, at, used)) = step(node, rest) else {
                break;
            };
            (node, location) = (next, at);
            rest = rest[used..].trim_start_matches('.');
        }
        Some(location)
    }

    /// Returns the location of the key that a path ends with. Without exactly this path, it returns [`SourceMap::locate`].
    pub fn locate_key(&self, path: &str) -> Option<Location> {
        let mut node = self.root()?;
        let mut rest = path;
        while let Some((next, _, used)) = step(node, rest) {
            let after = rest[used..].trim_start_matches('.');
            if after.is_empty() {
                return match node.get(rest) {
                    Some(entry) => Some(entry.key_location),
                    None => self.locate(path),
                };
            }
            (node, rest) = (next, after);
        }
        self.locate(path)
    }

    /// Returns the text of the scalar at a path; `None` without exactly this path, or for a list or a map.
    pub fn scalar(&self, path: &str) -> Option<&str> {
        let node = self.node(path)?;
        match &node.kind {
            Kind::Scalar { text, .. } if !node.is_null() => Some(text),
            Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// Returns the text of the scalar at a path of a translation as the original file writes it, if it differs.
    pub fn written(&self, path: &str) -> Option<&str> {
        self.node(path)?.written.as_deref()
    }

    fn node(&self, path: &str) -> Option<&Node> {
        let mut node = self.root()?;
        let mut rest = path;
        while !rest.is_empty() {
            let (next, _, used) = step(node, rest)?;
            node = next;
            rest = rest[used..].trim_start_matches('.');
        }
        Some(node)
    }

    /// Returns the text of every scalar with its path, in the order of the file. Items of a list have their name in the path if they
    /// have one, else their index. Empty lists and maps are `[]` and `{}`.
    pub fn scalars(&self) -> Vec<Scalar<'_>> {
        let mut all = Vec::new();
        if let Some(root) = self.root() {
            collect_scalars(root, root.location.line, String::new(), &mut all);
        }
        all
    }

    /// Sets the location of a diagnostic from its path, unless it has one.
    #[must_use]
    pub fn with_location(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let correction = diagnostic.correction.iter_mut();
        for place in correction.flat_map(|correction| &mut correction.related) {
            place.line = place
                .line
                .or_else(|| self.locate(&place.path).map(|location| location.line));
        }
        match (diagnostic.location, self.locate(&diagnostic.path)) {
            (None, Some(location)) => diagnostic.at(location),
            _ => diagnostic,
        }
    }

    /// Sets the locations of diagnostics, and merges equal ones of a block that an alias uses in several places.
    #[must_use]
    pub fn with_locations(&self, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let placed = diagnostics.into_iter().map(|it| self.with_location(it));
        repeated::merge(placed.collect(), self)
    }
}

/// Scalar of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar<'a> {
    /// Path of its key.
    pub path: String,
    /// Text of the value.
    pub text: &'a str,
    /// Line of its key.
    pub line: usize,
}

fn collect_scalars<'a>(node: &'a Node, line: usize, path: String, all: &mut Vec<Scalar<'a>>) {
    match &node.kind {
        Kind::Scalar { text, .. } => all.push(Scalar { path, text, line }),
        Kind::List(items) if items.is_empty() => all.push(Scalar {
            path,
            text: "[]",
            line,
        }),
        Kind::Map(entries) if entries.is_empty() => all.push(Scalar {
            path,
            text: "{}",
            line,
        }),
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = item.get("name").map(|entry| &entry.value.kind);
                let path = match name {
                    Some(Kind::Scalar { text, .. }) => join(&path, text),
                    Some(Kind::List(_) | Kind::Map(_)) | None => format!("{path}[{index}]"),
                };
                collect_scalars(item, item.location.line, path, all);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                let path = join(&path, &entry.key);
                collect_scalars(&entry.value, entry.location().line, path, all);
            }
        }
    }
}

/// Follows one step of a path. Returns the node, its location, and the number of consumed bytes.
fn step<'a>(node: &'a Node, rest: &str) -> Option<(&'a Node, Location, usize)> {
    if let Some((index, used)) = index_of(rest) {
        return match &node.kind {
            Kind::List(items) => items.get(index).map(|item| (&**item, item.location, used)),
            Kind::Map(entries) => entries.get(index).map(|entry| entry_step(entry, used)),
            Kind::Scalar { .. } => None,
        };
    }
    match &node.kind {
        Kind::Map(entries) => {
            let entry = entries.get(entries.find_next(rest)?)?;
            Some(entry_step(entry, entry.key.len()))
        }
        Kind::List(items) => items.iter().find_map(|item| {
            let Kind::Scalar { text, .. } = &item.get("name")?.value.kind else {
                return None;
            };
            is_next_key(text, rest).then_some((&**item, item.location, text.len()))
        }),
        Kind::Scalar { .. } => None,
    }
}

fn entry_step(entry: &Entry, used: usize) -> (&Node, Location, usize) {
    (&entry.value, entry.location(), used)
}

/// Returns true if a path continues with this key.
pub(super) fn is_next_key(key: &str, rest: &str) -> bool {
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
