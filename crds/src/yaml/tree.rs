//! The tree of a file, with the place of everything in it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{MAX_ALIASES, MAX_DEPTH, MAX_NODES, source};
use crate::diagnostic::{Diagnostic, Location};

/// One list, map or scalar of a file.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) place: Location,
    /// How many nodes it holds with aliases followed, itself included.
    weight: usize,
    /// How many levels it has, itself included.
    depth: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A text; `plain` when it is not in quotes, so that it may be a number, a bool or null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Arc<Node>>),
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: Location,
    pub(super) value: Arc<Node>,
}

impl Node {
    /// Whether it is the absence of a value.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if is_null(text))
    }

    /// The value under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Kind::Scalar { .. } | Kind::List(_) => None,
        }
    }
}

/// The node without the innermost map entry that `path` leads to; nothing where all of it has to go.
///
/// Items of lists are never left out, because paths count them.
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
            let mut entries = entries.clone();
            let at = entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| source::leads(&entry.key, path))
                .max_by_key(|(_, entry)| entry.key.len())
                .map(|(at, _)| at)?;
            let rest = path.get(entries[at].key.len()..)?.trim_start_matches('.');
            match without(&entries[at].value, rest) {
                Some(value) => entries[at].value = value,
                None => drop(entries.remove(at)),
            }
            Kind::Map(entries)
        }
    };
    Some(Arc::new(Node {
        kind,
        place: node.place,
        weight: node.weight,
        depth: node.depth,
    }))
}

impl Entry {
    /// Where a complaint about the value points: at a scalar, else at the key that leads to it.
    pub(super) fn place(&self) -> Location {
        match &self.value.kind {
            Kind::Scalar { text, plain } if !(*plain && text.is_empty()) => self.value.place,
            Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => self.key_place,
        }
    }
}

/// Whether a plain text means the absence of a value.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Why a file is not read on.
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
                "flatten it",
            ),
            Self::Nodes => (
                format!("the file holds more than {MAX_NODES} values, with its aliases followed"),
                "split it into several environments",
            ),
            Self::Anchors => (
                format!("the file has more than {MAX_ALIASES} anchors"),
                "use fewer of them",
            ),
            Self::Aliases => (
                format!("the file has more than {MAX_ALIASES} aliases"),
                "use fewer of them",
            ),
            Self::Recursion => (
                "this alias stands inside of what it names".to_owned(),
                "write it out",
            ),
            Self::Documents => (
                "the file has more than one document".to_owned(),
                "write one environment in each file",
            ),
        };
        Diagnostic::error("", message).hint(hint)
    }
}

/// A node that is complete, with the number of its anchor.
type Anchored = Option<(usize, Arc<Node>)>;

struct Frame {
    place: Location,
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

/// Builds a tree without recursion, within the bounds.
#[derive(Default)]
pub(super) struct Builder {
    frames: Vec<Frame>,
    root: Option<Arc<Node>>,
    broken: Vec<Diagnostic>,
    nodes: usize,
}

impl Builder {
    pub(super) fn scalar(
        &mut self,
        text: String,
        plain: bool,
        place: Location,
        anchor: usize,
    ) -> Result<Anchored, Broken> {
        self.count(1)?;
        let node = Arc::new(Node {
            kind: Kind::Scalar { text, plain },
            place,
            weight: 1,
            depth: 1,
        });
        self.attach(Arc::clone(&node), place);
        Ok((anchor != 0).then_some((anchor, node)))
    }

    pub(super) fn alias(&mut self, node: Arc<Node>, place: Location) -> Result<Anchored, Broken> {
        self.count(node.weight)?;
        if self.frames.len() + node.depth > MAX_DEPTH {
            return Err(Broken::Depth);
        }
        self.attach(node, place);
        Ok(None)
    }

    pub(super) fn open_list(&mut self, place: Location, anchor: usize) -> Result<Anchored, Broken> {
        self.open(place, anchor, Content::List(Vec::new()))
    }

    pub(super) fn open_map(&mut self, place: Location, anchor: usize) -> Result<Anchored, Broken> {
        self.open(place, anchor, Content::Map(Open::default()))
    }

    pub(super) fn close(&mut self) -> Anchored {
        let frame = self.frames.pop()?;
        let kind = match frame.content {
            Content::List(items) => Kind::List(items),
            Content::Map(open) => Kind::Map(self.merged(open)),
        };
        let node = Arc::new(Node {
            kind,
            place: frame.place,
            weight: frame.weight,
            depth: frame.depth,
        });
        self.attach(Arc::clone(&node), frame.place);
        (frame.anchor != 0).then_some((frame.anchor, node))
    }

    pub(super) fn finish(self) -> (Option<Arc<Node>>, Vec<Diagnostic>) {
        (self.root, self.broken)
    }

    fn open(&mut self, place: Location, anchor: usize, content: Content) -> Result<Anchored, Broken> {
        self.count(1)?;
        if self.frames.len() >= MAX_DEPTH {
            return Err(Broken::Depth);
        }
        self.frames.push(Frame {
            place,
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

    /// Puts a node into the list or map that is open; `place` is where it is used.
    fn attach(&mut self, node: Arc<Node>, place: Location) {
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
        let Some((key, key_place)) = open.key.take() else {
            open.key = Some(if let Kind::Scalar { text, .. } = &node.kind {
                (Some(text.clone()), place)
            } else {
                let diagnostic = Diagnostic::error("", "a key must be a text, not a list or a map");
                self.broken.push(
                    diagnostic
                        .hint("a value that starts with `{{` needs quotes")
                        .at(place),
                );
                (None, place)
            });
            return;
        };
        let Some(key) = key else { return };
        if key == "<<" {
            open.merges.push(node);
        } else if let Some(first) = open.index.get(&key) {
            let first = open.entries[*first].key_place;
            let message = format!("`{}` stands twice in this map", shown(&key));
            let hint = format!("the first one is in line {}; remove one of them", first.line);
            self.broken
                .push(Diagnostic::error("", message).hint(hint).at(key_place));
        } else {
            open.index.insert(key.clone(), open.entries.len());
            open.entries.push(Entry {
                key,
                key_place,
                value: node,
            });
        }
    }

    /// The entries of a map with those of its merge keys behind them.
    fn merged(&mut self, mut open: Open) -> Vec<Entry> {
        for merge in std::mem::take(&mut open.merges) {
            let sources = match &merge.kind {
                Kind::List(items) => items.as_slice(),
                Kind::Map(_) | Kind::Scalar { .. } => std::slice::from_ref(&merge),
            };
            for source in sources {
                let Kind::Map(entries) = &source.kind else {
                    let diagnostic = Diagnostic::error("", "`<<` takes a map, or a list of maps");
                    self.broken.push(
                        diagnostic
                            .hint("name an anchor of a map: `<<: *name`")
                            .at(source.place),
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

/// A text of the file as a message quotes it: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(MOST).map(safe).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}
