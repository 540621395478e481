//! Variables of a compose file: values of the project's `.env`, defaults, else `{{env.NAME}}`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use argus_core::secrets::is_secret;
use serde_json::{Map, Value};

use super::Document;
use crate::compose::spec_draft::note::Note;

/// Maximum length of a variable with its default, in bytes.
const MAX_LENGTH: usize = 4_096;
/// Maximum length of all inserted values of a translation, in bytes.
const MAX_INSERTED: usize = 1 << 20;
/// Maximum nesting depth of defaults.
const MAX_DEPTH: usize = 16;

/// Variables during a translation.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// True if the values of variables without a secret name are written.
    pub(super) is_inlined: bool,
    /// Values in the `.env` next to the compose file.
    pub(super) project: BTreeMap<String, String>,
    /// Names whose values the spec file reads from the `.env` next to it.
    pub(super) read: BTreeSet<String>,
    /// Names whose values were written to the spec file.
    pub(super) written: BTreeSet<String>,
    /// Names in paths that have no value.
    pub(super) unset: BTreeSet<String>,
    /// Names of `${NAME:?message}` that have no value, with their messages.
    pub(super) required: BTreeMap<String, String>,
    /// Names without a value.
    pub(super) missing: BTreeSet<String>,
    /// Length of the inserted values, in bytes.
    pub(super) inserted: usize,
    /// First variable whose value was left out, because the values are longer than [`MAX_INSERTED`].
    pub(super) left_out: Option<String>,
    /// True while a path is replaced.
    pub(super) is_path: bool,
    /// True if only the variables in `project` are replaced. The result is the text of a Compose file, in which all others remain.
    pub(super) is_partial: bool,
}

/// Variable that Compose sets itself: the folder of the Compose file, from which relative paths start.
const WORKING_FOLDER: &str = "PWD";

/// Variable with the name of the project.
pub(crate) const NAME: &str = "COMPOSE_PROJECT_NAME";

impl Variables {
    /// Replaces the variables in a text.
    pub(super) fn replace(&mut self, text: &str) -> String {
        let whole = Braced::new(text);
        self.replace_at(&whole, 0..text.len(), 0)
    }

    /// Replaces the variables in a path with their values, because no later step resolves one in a path. The result is the text of a
    /// Compose file.
    pub(super) fn replace_in_path(&mut self, text: &str) -> String {
        self.is_path = true;
        let replaced = self.replace(text).replace('$', "$$");
        self.is_path = false;
        replaced
    }

    fn replace_at(&mut self, whole: &Braced<'_>, part: Range<usize>, depth: usize) -> String {
        let text = &whole.text[..part.end];
        if depth > MAX_DEPTH {
            return text[part.start..].to_owned();
        }
        let (mut out, mut at) = (String::new(), part.start);
        while let Some(dollar) = text[at..].find('$').map(|index| at + index) {
            out.push_str(&text[at..dollar]);
            let start = dollar + 1;
            let rest = &text[start..];
            if rest.starts_with('$') {
                out.push_str(if self.is_partial { "$$" } else { "$" });
                at = start + 1;
                continue;
            }
            if let Some(end) = whole.end_of(start) {
                out.push_str(&self.resolve(whole, start + 1..end, depth));
                at = end + 1;
                continue;
            }
            at = start + rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
            if at == start {
                out.push('$');
            } else {
                out.push_str(&self.resolve(whole, start..at, depth));
            }
        }
        out + &text[at..]
    }

    fn resolve(&mut self, whole: &Braced<'_>, inner: Range<usize>, depth: usize) -> String {
        let text = &whole.text[inner.clone()];
        let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        // The end of the text, of which the first bytes are the operator.
        let replace = |this: &mut Self, rest: &str| {
            this.replace_at(whole, inner.end - rest.len()..inner.end, depth + 1)
        };
        if self.is_partial && !self.project.contains_key(name) {
            return format!("${{{name}{}}}", replace(self, rest));
        }
        if self.is_path && name == WORKING_FOLDER {
            return ".".to_owned();
        }
        let (rest, empty_counts) = match rest.strip_prefix(':') {
            Some(rest) => (rest, false),
            None => (rest, true),
        };
        // A value can be long, so it is copied only into the text.
        let value = self.project.get(name);
        self.missing.extend(value.is_none().then(|| name.to_owned()));
        let is_set = value.is_some_and(|value| empty_counts || !value.is_empty());
        if let Some(other) = rest.strip_prefix('+') {
            return replace(self, if is_set { other } else { "" });
        }
        if is_set {
            if self.is_inlined && !is_secret(name) {
                self.written.insert(name.to_owned());
                return self.insert(name);
            }
            if self.is_path {
                return self.insert(name);
            }
        } else {
            if let Some(default) = rest.strip_prefix('-') {
                return replace(self, default);
            }
            if let Some(message) = rest.strip_prefix('?').filter(|_| !self.is_inlined) {
                self.required.insert(name.to_owned(), message.to_owned());
                return String::new();
            }
            if self.is_path {
                self.unset.insert(name.to_owned());
                return String::new();
            }
        }
        self.read.insert(name.to_owned());
        format!("{{{{env.{name}}}}}")
    }

    /// Returns the value of a variable, or nothing if the inserted values become too long.
    pub(super) fn insert(&mut self, name: &str) -> String {
        let value = self.project.get(name).map_or("", String::as_str);
        let inserted = self.inserted.saturating_add(value.len());
        if inserted > MAX_INSERTED {
            self.left_out.get_or_insert_with(|| name.to_owned());
            return String::new();
        }
        self.inserted = inserted;
        if self.is_partial {
            value.replace('$', "$$")
        } else {
            value.to_owned()
        }
    }

    /// Replaces these variables in all texts of a file, and gives them to the services that name them without a value.
    pub(super) fn replace_own(own: &BTreeMap<String, String>, value: &mut Value) -> Self {
        let mut variables = Self {
            project: own.clone(),
            is_path: true,
            is_partial: true,
            ..Self::default()
        };
        for (_, service) in value["services"].as_object_mut().into_iter().flatten() {
            match service.get_mut("environment") {
                Some(Value::Array(lines)) => {
                    for line in lines {
                        if let Some(name) = line.as_str().filter(|name| own.contains_key(*name)) {
                            *line = Value::String(format!("{name}=${{{name}}}"));
                        }
                    }
                }
                Some(Value::Object(all)) => {
                    let unset = all
                        .iter_mut()
                        .filter(|(name, value)| value.is_null() && own.contains_key(*name));
                    unset.for_each(|(name, value)| *value = Value::String(format!("${{{name}}}")));
                }
                Some(_) | None => {}
            }
        }
        replace_texts(value, &mut |text| variables.replace(text));
        // A variable without a value is empty here.
        variables.unset.clear();
        variables
    }

    /// Errors for variables without a value in a path, and for values that are too long.
    pub(super) fn errors(&self, document: &Document) -> Vec<Note> {
        let mut notes = Vec::new();
        for name in &self.unset {
            let what = format!(
                "a path needs the variable `{name}`, which is not set: add it to the `.env` file next to this file, or run `argus allow`, \
after which variables of the shell count"
            );
            notes.push(Note::error(what, document.place_of_variable(name)));
        }
        for (name, message) in &self.required {
            let why = if message.is_empty() {
                String::new()
            } else {
                format!(" ({message})")
            };
            let what = format!(
                "the variable `{name}` is required and not set{why}: add it to the `.env` file next to this file, or run \
`argus allow`, after which variables of the shell count"
            );
            notes.push(Note::error(what, document.place_of_variable(name)));
        }
        if let Some(name) = &self.left_out {
            let what = format!(
                "the values of variables are longer than {MAX_INSERTED} bytes in total, and the first left out is that of `{name}`: shorten \
it, or use it in fewer places"
            );
            notes.push(Note::error(what, document.place_of_variable(name)));
        }
        notes
    }

    /// Values of the project's `.env` that the spec file reads from the `.env` next to it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let found = self
            .read
            .iter()
            .filter_map(|name| self.project.get_key_value(name));
        found.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Replaces the variables in the paths of a document.
pub(super) fn replace_in_paths(value: &Value, variables: &mut Variables) -> Value {
    const PATHS: [&str; 6] = [
        "/volumes",
        "/env_file",
        "/build",
        "/build/context",
        "/build/dockerfile",
        "/build/additional_contexts",
    ];
    let mut value = value.clone();
    let mut replace = |part: &mut Value, path: &str| {
        if let Some(found) = part
            .pointer_mut(path)
            .filter(|found| path != "/build" || found.is_string())
        {
            replace_texts(found, &mut |text| variables.replace_in_path(text));
        }
    };
    for (key, paths) in [
        ("services", &PATHS[..]),
        ("secrets", &["/file"]),
        ("configs", &["/file"]),
    ] {
        let parts = value.get_mut(key).and_then(Value::as_object_mut);
        for part in parts.into_iter().flat_map(Map::values_mut) {
            for path in paths {
                replace(part, path);
            }
        }
    }
    value
}

fn replace_texts(value: &mut Value, replace: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::String(text) => *text = replace(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, replace)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace_texts(field, replace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces the variables in all texts of a document.
pub(super) fn replace_variables(value: &Value, variables: &mut Variables) -> Value {
    match value {
        Value::String(text) => Value::String(variables.replace(text)),
        Value::Array(items) => items
            .iter()
            .map(|item| replace_variables(item, variables))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), replace_variables(value, variables)))
            .collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
    }
}

/// Text with its pairs of braces. They are found once, so that the time grows only with the length of the text.
pub(super) struct Braced<'a> {
    text: &'a str,
    /// Positions of the opening braces of variables, each with its closing one. Defaults may contain pairs of braces.
    ends: BTreeMap<usize, usize>,
}

impl<'a> Braced<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (mut open, mut ends, mut before) = (Vec::new(), BTreeMap::new(), b' ');
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'{' => open.push((at, before == b'$')),
                b'}' => {
                    if let Some((start, true)) = open.pop()
                        && at - start <= MAX_LENGTH
                    {
                        ends.insert(start, at);
                    }
                }
                _ => {}
            }
            before = byte;
        }
        Self { text, ends }
    }

    /// Position of the brace that ends the variable with this opening brace.
    pub(super) fn end_of(&self, start: usize) -> Option<usize> {
        self.ends.get(&start).copied()
    }
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_becomes_its_default_or_an_env_reference() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a$$b $", "a$b $"),
            ("postgres:${TAG:-16}", "postgres:16"),
            ("${A-x}${B:-${C:-y}}", "xy"),
            ("${KEY}/$KEY2-${MUST:?why}", "{{env.KEY}}/{{env.KEY2}}-"),
            ("${open", "${open"),
            ("{${A-{x}}}}", "{{x}}}"),
        ] {
            assert_eq!(Variables::default().replace(text), expected, "{text}");
        }
        let mut variables = Variables::default();
        variables.replace("${MUST:?why} ${A?}");
        let required = [("A", ""), ("MUST", "why")].map(|(name, why)| (name.to_owned(), why.to_owned()));
        assert_eq!(variables.required, required.into());
        assert_eq!(variables.replace_in_path("$PWD/a$$b/${C:-1}:/x"), "./a$$b/1:/x");
        assert_eq!((variables.unset.len(), variables.read.len()), (0, 0));
        assert_eq!(variables.replace_in_path("${HOME}/x"), "/x");
        assert_eq!(variables.unset, BTreeSet::from(["HOME".to_owned()]));
        variables.replace("${B} $A ${C:-1}");
        assert_eq!(variables.read, BTreeSet::from(["A".to_owned(), "B".to_owned()]));
    }

    #[test]
    fn values_are_limited() {
        let mut variables = Variables {
            project: [("LONG".to_owned(), "x".repeat(MAX_INSERTED / 2))].into(),
            ..Variables::default()
        };
        for expected in [MAX_INSERTED / 2, MAX_INSERTED / 2, 0] {
            assert_eq!(variables.replace_in_path("$LONG").len(), expected);
        }
        assert_eq!(variables.left_out.as_deref(), Some("LONG"));
    }

    #[test]
    fn value_of_the_project_is_written_unless_it_is_secret() {
        let project = [("TAG", "7"), ("EMPTY", ""), ("DB_PASSWORD", "hunter2")];
        let mut variables = Variables {
            project: project
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            is_inlined: true,
            ..Variables::default()
        };
        for (text, expected) in [
            ("redis:${TAG:-16}", "redis:7"),
            ("${EMPTY-x}|${EMPTY:-x}", "|x"),
            ("${TAG:+set}|${EMPTY:+set}|${NONE+set}", "set||"),
            ("${DB_PASSWORD:-pass}", "{{env.DB_PASSWORD}}"),
        ] {
            assert_eq!(variables.replace(text), expected, "{text}");
        }
        assert_eq!(
            variables.secrets().collect::<Vec<_>>(),
            [("DB_PASSWORD", "hunter2")]
        );
    }
}
