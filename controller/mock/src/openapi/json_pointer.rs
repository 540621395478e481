//! A place in a document, with the way to it.

use serde_json::Value;

/// References that lead from one to the next: more of them are a circle.
const MOST: usize = 32;

/// A value and the JSON pointer that leads to it.
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

    /// The value at a pointer, with the references on its end followed.
    pub(super) fn at(root: &'a Value, pointer: &str) -> Option<Self> {
        let value = root.pointer(pointer)?;
        Self {
            root,
            value,
            pointer: pointer.to_owned(),
        }
        .followed()
    }

    /// What stands under a key, with its references followed.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        self.raw(key)?.followed()
    }

    /// What stands under a key, as it is.
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

    /// What stands under all keys, with references followed; what leads nowhere is left out.
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

    /// The text under a key.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    /// Whether `true` stands under a key.
    pub(super) fn is(&self, key: &str) -> bool {
        self.value.get(key) == Some(&Value::Bool(true))
    }

    fn followed(mut self) -> Option<Self> {
        for _ in 0..MOST {
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

/// The pointer of a reference into the document itself.
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
