//! JSON pointers, and a cursor that follows references within a document.

use serde_json::Value;

/// Maximum length of a chain of references. A longer chain counts as circular.
const MAX_REFERENCES: usize = 32;

/// Value of a document with its JSON pointer.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    root: &'a Value,
    pub(super) value: &'a Value,
    pub(super) pointer: String,
}

impl<'a> Cursor<'a> {
    pub(super) fn root(root: &'a Value) -> Self {
        Self {
            root,
            value: root,
            pointer: String::new(),
        }
    }

    /// Returns the value at a pointer, and follows references at its end.
    pub(super) fn at(root: &'a Value, pointer: &str) -> Option<Self> {
        let value = root.pointer(pointer)?;
        Self {
            root,
            value,
            pointer: pointer.to_owned(),
        }
        .follow()
    }

    /// Returns the value under a key, and follows its references.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        self.raw(key)?.follow()
    }

    /// Returns the value under a key without following references.
    pub(super) fn raw(&self, key: &str) -> Option<Self> {
        let value = match self.value {
            Value::Object(map) => map.get(key)?,
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        Some(Self {
            root: self.root,
            value,
            pointer: format!("{}/{}", self.pointer, escape(key)),
        })
    }

    /// Returns all entries with their references followed, without those with broken references.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, Self)> {
        let keys: Vec<String> = match self.value {
            Value::Object(map) => map.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        let this = self.clone();
        keys.into_iter()
            .filter_map(move |key| this.get(&key).map(|found| (key, found)))
    }

    /// Returns the string under a key.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    /// Returns true if the value under a key is `true`.
    pub(super) fn is(&self, key: &str) -> bool {
        self.value.get(key) == Some(&Value::Bool(true))
    }

    fn follow(mut self) -> Option<Self> {
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = self.value.get("$ref").and_then(Value::as_str) else {
                return Some(self);
            };
            let pointer = target(reference)?;
            self.value = self.root.pointer(&pointer)?;
            self.pointer = pointer;
        }
        None
    }
}

/// Returns the JSON pointer of a reference within the document; `None` for a reference to another document.
pub(super) fn target(reference: &str) -> Option<String> {
    let pointer = crate::path::decode(reference.strip_prefix('#')?);
    (pointer.is_empty() || pointer.starts_with('/')).then_some(pointer)
}

pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

pub(super) fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}
