//! Tree of a file: lists, maps and scalars with their locations, built within the bounds of the format.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry_map::{Entry, EntryMap};
use super::{MAX_ALIASES, MAX_DEPTH, MAX_NODES, Original, source};
use crate::diagnostic::{Diagnostic, Location};
use crate::key_schema::join;

/// List, map or scalar of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) location: Location,
    /// Tag that YAML does not define, such as `!reset`.
    pub(super) tag: Option<Arc<str>>,
    /// Text of a translated scalar in the original file, if it differs.
    pub(super) written: Option<Arc<str>>,
    /// Number of nodes after expansion of aliases, including this one.
    weight: usize,
    /// Number of levels, including this one.
    depth: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Scalar. It is `plain` without quotes, and can then be a number, a boolean or null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Arc<Node>>),
    Map(EntryMap),
}

impl Node {
    /// Returns true for a plain scalar that means null.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if is_null(text))
    }

    /// Returns the entry under a key; `None` if the node is not a map.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.find(key),
            Kind::Scalar { .. } | Kind::List(_) => None,
        }
    }
}

/// Returns the node without the innermost map entry on `path`; `None` if nothing remains.
///
/// It never removes items of lists, because paths contain their indexes.
pub(super) fn without(node: &Arc<Node>, path: &str) -> Option<Arc<Node>> {
    let kind = match &node.kind {
        Kind::Scalar { .. } => return None,
        Kind::List(items) => {
            let (index, used) = source::index_of(path)?;
            let mut items = items.clone();
            let item = items.get_mut(index)?;
            *item = without(item, path.get(used..)?.trim_start_matches('.'))?;
            Kind::List(items)
        }
        Kind::Map(entries) => {
            let at = entries.find_next(path)?;
            let mut entries = entries.to_vec();
            let rest = path.get(entries[at].key.len()..)?.trim_start_matches('.');
            match without(&entries[at].value, rest) {
                Some(value) => entries[at].value = value,
                None => drop(entries.remove(at)),
            }
            Kind::Map(entries.into())
        }
    };
    Some(Arc::new(Node {
        kind,
        location: node.location,
        tag: node.tag.clone(),
        written: node.written.clone(),
        weight: node.weight,
        depth: node.depth,
    }))
}

/// Returns the node with the locations and texts of the original file. A node without a location has that of its parent.
///
/// Items of a list have their name in the path if they have one, else their index.
pub(super) fn relocate(node: &Node, path: &str, parent: Location, original: &dyn Original) -> Node {
    let location = original.locate(path).unwrap_or(parent);
    let written = match &node.kind {
        Kind::Scalar { text, .. } => original.written(path, text).map(Arc::from),
        Kind::List(_) | Kind::Map(_) => None,
    };
    let kind = match &node.kind {
        Kind::Scalar { text, plain } => Kind::Scalar {
            text: text.clone(),
            plain: *plain,
        },
        Kind::List(items) => {
            let path_of = |index, item: &Node| match item.get("name").map(|entry| &entry.value.kind) {
                Some(Kind::Scalar { text, .. }) => join(path, text),
                Some(Kind::List(_) | Kind::Map(_)) | None => format!("{path}[{index}]"),
            };
            let moved = |(index, item): (usize, &Arc<Node>)| {
                Arc::new(relocate(item, &path_of(index, item), location, original))
            };
            Kind::List(items.iter().enumerate().map(moved).collect())
        }
        Kind::Map(entries) => {
            let moved = |entry: &Entry| {
                let value = relocate(&entry.value, &join(path, &entry.key), location, original);
                Entry {
                    key: entry.key.clone(),
                    key_location: value.location,
                    value: Arc::new(value),
                }
            };
            Kind::Map(entries.iter().map(moved).collect::<Vec<_>>().into())
        }
    };
    Node {
        kind,
        location,
        tag: None,
        written,
        weight: node.weight,
        depth: node.depth,
    }
}

/// Returns true if a plain scalar with this text means null.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reason to stop parsing a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Broken {
    Depth,
    Nodes,
    Anchors,
    Aliases,
    Recursion,
    Documents,
}

impl Broken {
    pub(super) fn diagnostic(self) -> Diagnostic {
        let (message, hint) = match self {
            Self::Depth => (
                format!("the file nests deeper than {MAX_DEPTH} levels"),
                "reduce its nesting",
            ),
            Self::Nodes => (
                format!("the file has more than {MAX_NODES} values after expansion of its aliases"),
                "split it into several environments",
            ),
            Self::Anchors => (
                format!("the file has more than {MAX_ALIASES} anchors"),
                "use fewer anchors",
            ),
            Self::Aliases => (
                format!("the file has more than {MAX_ALIASES} aliases"),
                "use fewer aliases",
            ),
            Self::Recursion => (
                "this alias refers to a value that contains it".to_owned(),
                "write the value out",
            ),
            Self::Documents => (
                "the file has more than one document".to_owned(),
                "write one environment per file",
            ),
        };
        Diagnostic::error("", message).hint(hint)
    }
}

/// Completed node with an anchor, and the id of that anchor.
type Anchored = Option<(usize, Arc<Node>)>;

struct Frame {
    location: Location,
    tag: Option<Arc<str>>,
    anchor: usize,
    weight: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List(Vec<Arc<Node>>),
    Map(Open),
}

#[derive(Default)]
struct Open {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
    key: Option<(Option<String>, Location)>,
    merges: Vec<Arc<Node>>,
}

/// Builder of a tree, without recursion and within the bounds.
#[derive(Default)]
pub(super) struct Builder {
    frames: Vec<Frame>,
    root: Option<Arc<Node>>,
    broken: Vec<Diagnostic>,
    nodes: usize,
    /// Tag of the next node.
    pub(super) tag: Option<Arc<str>>,
}

impl Builder {
    pub(super) fn scalar(
        &mut self,
        text: String,
        plain: bool,
        location: Location,
        anchor: usize,
    ) -> Result<Anchored, Broken> {
        self.count(1)?;
        let node = Arc::new(Node {
            kind: Kind::Scalar { text, plain },
            location,
            tag: self.tag.take(),
            written: None,
            weight: 1,
            depth: 1,
        });
        self.attach(Arc::clone(&node), location);
        Ok((anchor != 0).then_some((anchor, node)))
    }

    pub(super) fn alias(&mut self, node: Arc<Node>, location: Location) -> Result<Anchored, Broken> {
        self.count(node.weight)?;
        if self.frames.len() + node.depth > MAX_DEPTH {
            return Err(Broken::Depth);
        }
        self.attach(node, location);
        Ok(None)
    }

    pub(super) fn open_list(&mut self, location: Location, anchor: usize) -> Result<Anchored, Broken> {
        self.open(location, anchor, Content::List(Vec::new()))
    }

    pub(super) fn open_map(&mut self, location: Location, anchor: usize) -> Result<Anchored, Broken> {
        self.open(location, anchor, Content::Map(Open::default()))
    }

    pub(super) fn close(&mut self) -> Anchored {
        let frame = self.frames.pop()?;
        let kind = match frame.content {
            Content::List(items) => Kind::List(items),
            Content::Map(open) => Kind::Map(self.merged(open).into()),
        };
        let node = Arc::new(Node {
            kind,
            location: frame.location,
            tag: frame.tag,
            written: None,
            weight: frame.weight,
            depth: frame.depth,
        });
        self.attach(Arc::clone(&node), frame.location);
        (frame.anchor != 0).then_some((frame.anchor, node))
    }

    pub(super) fn finish(self) -> (Option<Arc<Node>>, Vec<Diagnostic>) {
        (self.root, self.broken)
    }

    fn open(&mut self, location: Location, anchor: usize, content: Content) -> Result<Anchored, Broken> {
        self.count(1)?;
        if self.frames.len() >= MAX_DEPTH {
            return Err(Broken::Depth);
        }
        self.frames.push(Frame {
            location,
            tag: self.tag.take(),
            anchor,
            weight: 1,
            depth: 1,
            content,
        });
        Ok(None)
    }

    fn count(&mut self, nodes: usize) -> Result<(), Broken> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            Err(Broken::Nodes)
        } else {
            Ok(())
        }
    }

    /// Adds a node to the innermost open list or map. `location` is that of its use, not of its anchor.
    fn attach(&mut self, node: Arc<Node>, location: Location) {
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.weight += node.weight;
        frame.depth = frame.depth.max(node.depth + 1);
        let open = match &mut frame.content {
            Content::List(items) => return items.push(node),
            Content::Map(open) => open,
        };
        let Some((key, key_location)) = open.key.take() else {
            open.key = Some(if let Kind::Scalar { text, .. } = &node.kind {
                (Some(text.clone()), location)
            } else {
                let diagnostic = Diagnostic::error("", "a key must be a string, not a list or a map");
                self.broken.push(
                    diagnostic
                        .hint("put a value that starts with `{{` in quotes")
                        .at(location),
                );
                (None, location)
            });
            return;
        };
        let Some(key) = key else { return };
        if key == "<<" {
            open.merges.push(node);
        } else if let Some(first) = open.index.get(&key) {
            let first = open.entries[*first].key_location;
            let message = format!("duplicate key `{}`", shown(&key));
            let hint = format!("remove it, or the first one in line {}", first.line);
            self.broken
                .push(Diagnostic::error("", message).hint(hint).at(key_location));
        } else {
            open.index.insert(key.clone(), open.entries.len());
            open.entries.push(Entry {
                key,
                key_location,
                value: node,
            });
        }
    }

    /// Returns the entries of a map, followed by the missing entries from its merge keys.
    fn merged(&mut self, mut open: Open) -> Vec<Entry> {
        for merge in std::mem::take(&mut open.merges) {
            let sources = match &merge.kind {
                Kind::List(items) => items.as_slice(),
                Kind::Map(_) | Kind::Scalar { .. } => std::slice::from_ref(&merge),
            };
            for source in sources {
                let Kind::Map(entries) = &source.kind else {
                    let diagnostic = Diagnostic::error("", "`<<` needs a map or a list of maps");
                    self.broken.push(
                        diagnostic
                            .hint("refer to the anchor of a map with `<<: *name`")
                            .at(source.location),
                    );
                    continue;
                };
                for entry in entries {
                    if !open.index.contains_key(&entry.key) {
                        open.index.insert(entry.key.clone(), open.entries.len());
                        open.entries.push(entry.clone());
                    }
                }
            }
        }
        open.entries
    }
}

/// Shortens a text of the file for a message and replaces its control characters.
pub(super) fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(MAX_CHARS).map(safe).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        short.push('…');
    }
    short
}
