//! Variables of a service and of a build.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Service, parts};

impl Service<'_> {
    /// Variables as a map of texts. A variable without a value has that of the project. As in Compose, a
    /// container does not receive one that the project does not have.
    pub(super) fn translate_environment(&mut self, key: &str, value: &Value) -> Value {
        let mut known = BTreeMap::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            let value = parts::scalar_to_text(value);
            let is_set = self.project.is_inlined || self.project.variables.contains_key(name);
            if value.is_none() && !is_set {
                self.variables.missing.insert(name.clone());
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
