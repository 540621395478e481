//! Tags that YAML does not define, such as those of Compose files.

use super::tree::{Kind, Node, shown};
use crate::diagnostic::Location;

/// Tag of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name with its exclamation mark, shortened for a message.
    pub name: String,
    /// Keys from the top of the document; `None` for an item of a list and for values below it.
    pub keys: Option<Vec<String>>,
    /// Location of the value, without the tag.
    pub location: Location,
}

/// Returns the tags of all values, in the order of the document. An alias repeats those of its anchor.
pub(super) fn find(root: &Node) -> Vec<Tag> {
    let mut all = Vec::new();
    collect(root, &mut Some(Vec::new()), &mut all);
    all
}

fn collect(node: &Node, keys: &mut Option<Vec<String>>, all: &mut Vec<Tag>) {
    all.extend(node.tag.as_ref().map(|tag| Tag {
        name: shown(tag),
        keys: keys.clone(),
        location: node.location,
    }));
    match &node.kind {
        Kind::Scalar { .. } => {}
        Kind::List(items) => items.iter().for_each(|item| collect(item, &mut None, all)),
        Kind::Map(entries) => {
            for entry in entries {
                if let Some(keys) = keys {
                    keys.push(entry.key.clone());
                }
                collect(&entry.value, keys, all);
                if let Some(keys) = keys {
                    keys.pop();
                }
            }
        }
    }
}
