//! Variables of a service and of a build.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Service, parts};

impl Service<'_> {
    /// Variables as a map, from a map or a list of `NAME=value`. A variable without a value has that of the project. As in Compose, a
    /// container does not receive one that the project does not have.
    pub(super) fn translate_environment(&mut self, key: &str, value: &Value) -> Value {
        let mut all: BTreeMap<String, Option<String>> = BTreeMap::new();
        match value {
            Value::Object(map) => {
                let texts = map.iter();
                all.extend(texts.map(|(name, value)| (name.clone(), parts::scalar_to_text(value))));
            }
            Value::Array(list) => {
                let lines = list.iter().filter_map(Value::as_str);
                all.extend(lines.map(|line| match line.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (line.to_owned(), None),
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        let mut known = BTreeMap::new();
        for (name, value) in all {
            let is_set = self.project.is_inlined || self.project.variables.contains_key(&name);
            if value.is_none() && !is_set {
                let what = format!("`{key}`: the variable `{name}`, which is not set");
                self.add_note(&format!("{key}.{name}"), &what);
                continue;
            }
            let value = value.unwrap_or_else(|| format!("{{{{env.{name}}}}}"));
            known.insert(name, value);
        }
        json!(known)
    }
}
