//! Variables of a compose file: values of the project's `.env`, defaults, else `{{env.NAME}}`.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::secrets::is_secret;

/// Maximum length of a variable with its default, in characters.
const MAX_LENGTH: usize = 4_096;
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
}

impl Variables {
    /// Replaces the variables in a text.
    pub(super) fn replace(&mut self, text: &str) -> String {
        self.replace_at(text, 0)
    }

    fn replace_at(&mut self, text: &str, depth: usize) -> String {
        if depth > MAX_DEPTH {
            return text.to_owned();
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
                continue;
            }
            let braced = rest
                .strip_prefix('{')
                .and_then(|inner| Some((inner, find_closing_brace(inner)?)));
            if let Some((inner, end)) = braced {
                out.push_str(&self.resolve(&inner[..end], depth));
                rest = &inner[end + 1..];
                continue;
            }
            let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
            if end == 0 {
                out.push('$');
            } else {
                out.push_str(&self.resolve(&rest[..end], depth));
            }
            rest = &rest[end..];
        }
        out + rest
    }

    fn resolve(&mut self, inner: &str, depth: usize) -> String {
        let end = inner.find(|c: char| !is_name_char(c)).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let (rest, empty_counts) = match rest.strip_prefix(':') {
            Some(rest) => (rest, false),
            None => (rest, true),
        };
        let value = self
            .project
            .get(name)
            .filter(|value| empty_counts || !value.is_empty());
        let value = value.cloned();
        if let Some(other) = rest.strip_prefix('+') {
            return value.map_or_else(String::new, |_| self.replace_at(other, depth + 1));
        }
        match value {
            Some(value) if self.is_inlined && !is_secret(name) => {
                self.written.insert(name.to_owned());
                return value;
            }
            Some(_) => {}
            None => {
                if let Some(default) = rest.strip_prefix('-') {
                    return self.replace_at(default, depth + 1);
                }
            }
        }
        self.read.insert(name.to_owned());
        format!("{{{{env.{name}}}}}")
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

/// Position of the closing brace. Defaults may contain pairs of braces.
fn find_closing_brace(inner: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in inner.char_indices().take(MAX_LENGTH) {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_name_char(c: char) -> bool {
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
            (
                "${KEY}/$KEY2-${MUST:?why}",
                "{{env.KEY}}/{{env.KEY2}}-{{env.MUST}}",
            ),
            ("${open", "${open"),
        ] {
            assert_eq!(Variables::default().replace(text), expected, "{text}");
        }
        let mut variables = Variables::default();
        variables.replace("${B} $A ${C:-1}");
        assert_eq!(variables.read, BTreeSet::from(["A".to_owned(), "B".to_owned()]));
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
