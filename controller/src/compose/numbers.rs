//! Numbers, sizes, times and other settings of a service for which spec files have no variables.

use argus_core::secrets::is_secret;
use serde_json::{Map, Value, json};

use super::{ProjectInfo, Service, parts};

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
    pub(super) fn fill_number(&self, value: &Value) -> Value {
        fill(self.project, value)
    }
}

/// Returns whether a value with the variables of the project is this number.
pub(super) fn is_number(project: &ProjectInfo<'_>, value: &Value, number: u8) -> bool {
    parts::scalar_to_text(&fill(project, value)).is_some_and(|text| text == number.to_string())
}

/// Replaces the names of variables by their values in the settings of a service. Secrets keep their names.
pub(super) fn fill_settings(project: &ProjectInfo<'_>, keys: &Map<String, Value>) -> Map<String, Value> {
    let mut keys = keys.clone();
    for (_, value) in keys
        .iter_mut()
        .filter(|(key, _)| SETTINGS.contains(&key.as_str()))
    {
        fill_texts(project, value);
    }
    keys
}

fn fill_texts(project: &ProjectInfo<'_>, value: &mut Value) {
    match value {
        Value::String(text) => *text = fill_text(project, text, |name| !is_secret(name)),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_texts(project, item)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_texts(project, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fill_text(project: &ProjectInfo<'_>, text: &str, is_filled: impl Fn(&str) -> bool) -> String {
    if !text.contains("{{env.") {
        return text.to_owned();
    }
    let variables = project.variables.iter().filter(|(name, _)| is_filled(name));
    variables.fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{env.{name}}}}}"), value)
    })
}

fn fill(project: &ProjectInfo<'_>, value: &Value) -> Value {
    let Some(text) = value.as_str().filter(|text| text.contains("{{env.")) else {
        return value.clone();
    };
    let filled = fill_text(project, text, |_| true);
    if filled.starts_with(|c: char| c.is_ascii_digit()) {
        json!(filled)
    } else {
        value.clone()
    }
}
