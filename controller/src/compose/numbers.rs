//! Numbers, sizes, times and other settings of a service for which spec files have no variables.

use argus_core::secrets::is_secret;
use serde_json::{Map, Value, json};

use super::variables::{Variables, is_name_char};
use super::{Service, parts};

/// Beginning of the name of a variable in a spec file.
const BEGIN: &str = "{{env.";

/// Keys whose texts have no variables in a spec file.
const SETTINGS: [&str; 14] = [
    "cap_drop",
    "extra_hosts",
    "hostname",
    "init",
    "pull_policy",
    "read_only",
    "security_opt",
    "stdin_open",
    "stop_signal",
    "sysctls",
    "tmpfs",
    "ulimits",
    "user",
    "working_dir",
];

impl Service<'_> {
    /// Translates a value, and notes one that has no counterpart.
    pub(super) fn translate_part(
        &mut self,
        key: &str,
        value: &Value,
        translate: fn(&Value) -> Option<Value>,
    ) -> Option<Value> {
        let translated = translate(&self.fill_number(value));
        if translated.is_none() && !value.is_null() {
            self.add_note(key, &format!("`{key}: {value}`"));
        }
        translated
    }

    /// Replaces the names of variables by their values, because spec files have no variables in numbers. A text that does not begin
    /// with a digit keeps them: it is no number, and messages would contain its value.
    pub(super) fn fill_number(&mut self, value: &Value) -> Value {
        self.variables.fill_number(value)
    }
}

impl Variables {
    /// Returns whether a value with the variables of the project is this number.
    pub(super) fn is_number(&mut self, value: &Value, number: u8) -> bool {
        parts::scalar_to_text(&self.fill_number(value)).is_some_and(|text| text == number.to_string())
    }

    /// Replaces the names of variables by their values in the settings of a service. Secrets keep their names.
    pub(super) fn fill_settings(&mut self, keys: &Map<String, Value>) -> Map<String, Value> {
        let mut keys = keys.clone();
        for (_, value) in keys
            .iter_mut()
            .filter(|(key, _)| SETTINGS.contains(&key.as_str()))
        {
            self.fill_texts(value);
        }
        keys
    }

    fn fill_texts(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.fill_text(text, |name| !is_secret(name)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_texts(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill_texts(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn fill_number(&mut self, value: &Value) -> Value {
        let Some(text) = value.as_str().filter(|text| text.contains(BEGIN)) else {
            return value.clone();
        };
        let filled = self.fill_text(text, |_| true);
        if filled.starts_with(|c: char| c.is_ascii_digit()) {
            json!(filled)
        } else {
            value.clone()
        }
    }

    /// Replaces the names of variables by their values, which count as inserted values.
    fn fill_text(&mut self, text: &str, is_filled: impl Fn(&str) -> bool) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEGIN) {
            out.push_str(before);
            let end = after.find(|c: char| !is_name_char(c)).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            rest = match tail.strip_prefix("}}") {
                Some(tail) if is_filled(name) && self.project.contains_key(name) => {
                    out.push_str(&self.insert(name));
                    tail
                }
                Some(_) | None => {
                    out.push_str(BEGIN);
                    after
                }
            };
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_filled() {
        let project = [("A", "1"), ("B", "{{env.A}}"), ("DB_PASSWORD", "x")];
        let project = project.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut variables = Variables {
            project: project.into(),
            ..Variables::default()
        };
        for (text, expected) in [
            ("{{env.A}}m/{{env.A}}", "1m/1"),
            ("{{env.B}}", "{{env.A}}"),
            (
                "{{env.NONE}} {{env.DB_PASSWORD}}",
                "{{env.NONE}} {{env.DB_PASSWORD}}",
            ),
            ("{{env.{{env.A}}", "{{env.1"),
            ("é{{env.A", "é{{env.A"),
        ] {
            assert_eq!(variables.fill_text(text, |name| !is_secret(name)), expected);
        }
        assert_eq!(variables.fill_number(&json!("{{env.A}}")), "1");
        assert_eq!(variables.fill_number(&json!("{{env.B}}")), "{{env.B}}");
    }
}
