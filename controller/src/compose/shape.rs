//! Kinds of values. Compose rejects a file with a value of another kind; a translation without it would leave it out.

use serde_json::Value;

/// Kinds of values that a key accepts.
struct Shape {
    text: bool,
    list: bool,
    map: bool,
}

const TEXT: Shape = Shape {
    text: true,
    list: false,
    map: false,
};
const LIST: Shape = Shape {
    text: false,
    list: true,
    map: false,
};
const MAP: Shape = Shape {
    text: false,
    list: false,
    map: true,
};
const TEXT_OR_LIST: Shape = Shape {
    text: true,
    list: true,
    map: false,
};
const TEXT_OR_MAP: Shape = Shape {
    text: true,
    list: false,
    map: true,
};
const LIST_OR_MAP: Shape = Shape {
    text: false,
    list: true,
    map: true,
};

/// Keys of a service that are translated, and whether the items of a list are single values.
static KEYS: [(&str, Shape, bool); 20] = [
    ("build", TEXT_OR_MAP, true),
    ("command", TEXT_OR_LIST, true),
    ("configs", LIST, false),
    ("depends_on", LIST_OR_MAP, true),
    ("deploy", MAP, true),
    ("entrypoint", TEXT_OR_LIST, true),
    ("env_file", TEXT_OR_LIST, false),
    ("environment", LIST_OR_MAP, true),
    ("extends", TEXT_OR_MAP, true),
    ("extra_hosts", LIST_OR_MAP, true),
    ("healthcheck", MAP, true),
    ("labels", LIST_OR_MAP, true),
    ("links", LIST, true),
    ("networks", LIST_OR_MAP, true),
    ("ports", LIST, false),
    ("profiles", LIST, true),
    ("secrets", LIST, false),
    ("tmpfs", TEXT_OR_LIST, true),
    ("volumes", LIST, false),
    ("image", TEXT, true),
];

/// Returns the keys of a service whose values are of a wrong kind, with the problem.
pub(super) fn problems(service: &Value) -> Vec<(String, String)> {
    KEYS.iter()
        .filter_map(|(key, shape, is_plain)| {
            let value = service.get(key)?;
            let is_valid = match value {
                Value::Null => true,
                Value::String(_) => shape.text,
                Value::Array(_) => shape.list,
                Value::Object(_) => shape.map,
                Value::Bool(_) | Value::Number(_) => false,
            };
            if !is_valid {
                return Some(((*key).to_owned(), shape.describe()));
            }
            let is_nested = |item: &Value| item.is_object() || item.is_array() || item.is_null();
            let items = value.as_array().filter(|_| *is_plain)?;
            let at = items.iter().position(is_nested)?;
            Some((format!("{key}[{at}]"), "a text".to_owned()))
        })
        .collect()
}

impl Shape {
    fn describe(&self) -> String {
        let kinds = [(self.text, "a text"), (self.list, "a list"), (self.map, "a map")];
        let kinds = kinds
            .into_iter()
            .filter_map(|(accepts, kind)| accepts.then_some(kind));
        kinds.collect::<Vec<_>>().join(" or ")
    }
}
