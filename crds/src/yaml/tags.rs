//! Tags that YAML does not define, such as those of Compose files.

use super::tree::{Kind, Node, shown};
use crate::diagnostic::Location;

/// Maximum size of the keys of all tags, in bytes. A tag beyond it has no keys, for which a reader refuses it.
const MAX_KEYS: usize = 1 << 20;

/// Tag of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name with its exclamation mark, shortened for a message.
    pub name: String,
    /// Keys from the top of the document; `None` for an item of a list, for values below it, and beyond the maximum size of all
    /// keys.
    pub keys: Option<Vec<String>>,
    /// Location of the value, without the tag.
    pub location: Location,
}

/// Returns the tags of all values, in the order of the document. An alias repeats those of its anchor.
pub(super) fn find(root: &Node) -> Vec<Tag> {
    let (mut all, mut left) = (Vec::new(), MAX_KEYS);
    collect(root, &mut Some(Vec::new()), &mut all, &mut left);
    all
}

fn collect(node: &Node, keys: &mut Option<Vec<String>>, all: &mut Vec<Tag>, left: &mut usize) {
    all.extend(node.tag.as_ref().map(|tag| Tag {
        name: shown(tag),
        keys: keys.as_ref().filter(|keys| draw(left, keys)).cloned(),
        location: node.location,
    }));
    match &node.kind {
        Kind::Scalar { .. } => {}
        Kind::List(items) => items.iter().for_each(|item| collect(item, &mut None, all, left)),
        Kind::Map(entries) => {
            for entry in entries {
                if let Some(keys) = keys {
                    keys.push(entry.key.clone());
                }
                collect(&entry.value, keys, all, left);
                if let Some(keys) = keys {
                    keys.pop();
                }
            }
        }
    }
}

/// Draws the size of a path from what is left. Returns false if it is too large.
fn draw(left: &mut usize, keys: &[String]) -> bool {
    let size: usize = keys.iter().map(|key| key.len() + size_of::<String>()).sum();
    let rest = left.checked_sub(size);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use crate::yaml;

    #[test]
    fn keys_of_many_tags_are_bounded() {
        let key = "k".repeat(100_000);
        let children: Vec<String> = (0..50).map(|number| format!("a{number}: !x 1")).collect();
        let text = format!("? {key}\n: {{ {} }}\n", children.join(", "));
        let tags = yaml::document("a.yaml", text.as_bytes()).unwrap().tags;
        let kept = tags.iter().filter(|tag| tag.keys.is_some()).count();
        assert_eq!((tags.len(), kept), (50, 10));
    }
}
