//! Numbers, sizes and times of a service.

use serde_json::{Value, json};

use super::{ProjectInfo, Service, parts};

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

fn fill(project: &ProjectInfo<'_>, value: &Value) -> Value {
    let Some(text) = value.as_str().filter(|text| text.contains("{{env.")) else {
        return value.clone();
    };
    let fill =
        |text: String, (name, value): (&String, &String)| text.replace(&format!("{{{{env.{name}}}}}"), value);
    let filled = project.variables.iter().fold(text.to_owned(), fill);
    if filled.starts_with(|c: char| c.is_ascii_digit()) {
        json!(filled)
    } else {
        value.clone()
    }
}
