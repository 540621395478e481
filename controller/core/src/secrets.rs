//! Redaction of secrets: values of `{{env.…}}`, and values of variables with a secret name.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use argus_crds::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Words that mark the name of a variable as secret.
const SECRET_WORDS: [&str; 9] = [
    "PASSWORD",
    "PASSWD",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "PRIVATE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
];
/// Minimum length of a secret in bytes; a shorter value would also match harmless words.
const MIN_LENGTH: usize = 4;
/// Replacement text of a secret.
pub const REDACTED: &str = "[redacted]";

/// Secret values, which all outputs redact.
///
/// Argus writes them only to its private files, which contain the environment variables anyway.
///
/// ```
/// use argus_core::secrets::Secrets;
///
/// let secrets: Secrets = serde_json::from_str(r#"["hunter2"]"#).unwrap();
/// assert_eq!(secrets.redacted("login with hunter2 failed"), "login with [redacted] failed");
/// assert_eq!(format!("{secrets:?}"), "Secrets(1)");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeSet<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Removes a text that is not a secret.
    pub(crate) fn remove(&mut self, text: &str) {
        self.0.remove(text);
    }

    /// Adds other secrets.
    pub fn join(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text with all secrets redacted; of two matches at one position, the longer one.
    pub fn redacted(&self, text: &str) -> String {
        let contained: Vec<&str> = self
            .0
            .iter()
            .map(String::as_str)
            .filter(|secret| text.contains(secret))
            .collect();
        if contained.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let here = contained.iter().filter(|secret| rest.starts_with(**secret));
            let step = if let Some(longest) = here.map(|secret| secret.len()).max() {
                out.push_str(REDACTED);
                longest
            } else {
                out.push(first);
                first.len_utf8()
            };
            rest = &rest[step..];
        }
        out
    }

    /// Returns the document with all secrets redacted in its texts. Keys stay, as do values under the keys in `ours`.
    #[must_use]
    pub fn redacted_json(&self, value: Value, ours: &[&str]) -> Value {
        let redacted = |value| self.redacted_json(value, ours);
        match value {
            Value::String(text) => Value::String(self.redacted(&text)),
            Value::Array(items) => items.into_iter().map(redacted).collect(),
            Value::Object(fields) => {
                let field = |(key, value): (String, Value)| {
                    let value = if ours.contains(&key.as_str()) {
                        value
                    } else {
                        redacted(value)
                    };
                    (key, value)
                };
                fields.into_iter().map(field).collect()
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
        }
    }

    /// Returns the diagnostic with all secrets redacted in its message and hint.
    #[must_use]
    pub fn redacted_diagnostic(&self, diagnostic: Diagnostic) -> Diagnostic {
        Diagnostic {
            message: self.redacted(&diagnostic.message),
            hint: diagnostic.hint.map(|hint| self.redacted(&hint)),
            ..diagnostic
        }
    }

    /// Adds a value in its forms in logs: each line without surrounding blanks, also percent-encoded as in a URL.
    pub(crate) fn add(&mut self, value: &str) {
        for part in value.lines().map(str::trim) {
            // A part of the replacement text would match it again.
            if part.len() >= MIN_LENGTH && !REDACTED.contains(part) {
                self.0.insert(part.to_owned());
                self.0.insert(percent_encoded(part));
            }
        }
    }
}

/// Returns whether the name of a variable, a header or a field marks its value as a secret.
///
/// ```
/// use argus_core::secrets::is_secret;
///
/// assert!(is_secret("DB_PASSWORD"));
/// assert!(!is_secret("LOG_LEVEL"));
/// ```
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Desired;
    use crate::desired::admit::{SpecContext, admit};
    use crate::desired::hash::revision_of;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.add(value);
        }
        secrets
    }

    #[test]
    fn is_secret_decides_by_the_name() {
        for (name, secret) in [
            ("DB_PASSWORD", true),
            ("github_token", true),
            ("AWS_SECRET_ACCESS_KEY", true),
            ("GREETING", false),
            ("KEYBOARD", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }

    #[test]
    fn secret_is_redacted_in_every_form() {
        let secrets = secrets(&["hunter", "hunter-two", "a b@c", "first line\nsecond line", "act"]);
        for (text, redacted) in [
            ("nothing of it", "nothing of it"),
            ("as hunter-two, as hunter", "as [redacted], as [redacted]"),
            ("http://u:a%20b%40c@db", "http://u:[redacted]@db"),
            ("> second line\n", "> [redacted]\n"),
            ("é hunteré", "é [redacted]é"),
            ("an act", "an act"),
        ] {
            assert_eq!(secrets.redacted(text), redacted);
            assert_eq!(secrets.redacted(redacted), redacted, "redaction is idempotent");
        }
    }

    #[test]
    fn json_redaction_keeps_keys_and_own_fields() {
        let secrets = secrets(&["line", "exit"]);
        let value = serde_json::json!({ "line": ["a line", 3, null], "kind": "exit" });
        let redacted = secrets.redacted_json(value, &["kind"]);
        let expected = serde_json::json!({ "line": ["a [redacted]", 3, null], "kind": "exit" });
        assert_eq!(redacted, expected);
    }

    #[test]
    fn env_values_are_secret_unless_plain_or_names() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  db:\n    image: \"x:{{ env.TAG }}\"\n    vars: { deep: \"{{env.DEEP}}\" }\n    \
                    container:\n      name: shop-db\n      environment: { URL: \"pg://{{env.USER}}:{{config.deep}}@db:{{env.PORT}}/{{env.ON}}{{env.ABC}}\", A_TOKEN: '1234' }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let variables = [
            ("TAG", "v1.2-rc"),
            ("DEEP", "swordfish"),
            ("USER", "shop-db"),
            ("PORT", "54321"),
            ("ON", "true"),
            ("ABC", "abc"),
            ("UNUSED", "not read"),
        ];
        let context = SpecContext {
            env_vars: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..SpecContext::default()
        };
        let desired = admit(&written, &context).desired.unwrap();
        let found = desired.secret_values();
        assert_eq!(found, secrets(&["v1.2-rc", "swordfish", "1234"]));
        assert_eq!(format!("{found:?}"), "Secrets(3)");
        let without = Desired {
            secrets: Secrets::default(),
            ..desired.clone()
        };
        assert_eq!(revision_of(&without), desired.revision);
    }

    #[test]
    fn diagnostics_contain_no_secret() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  db:\n    image: \"no image {{env.TAG}}\"\n    container: { name: shop-db }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let context = SpecContext {
            env_vars: [("TAG".to_owned(), "swordfish".to_owned())].into(),
            ..SpecContext::default()
        };
        let diagnostics = admit(&written, &context).diagnostics;
        let message = &diagnostics[0].message;
        assert!(message.contains("[redacted]"), "{diagnostics:?}");
        assert!(
            !format!("{diagnostics:?}").contains("swordfish"),
            "{diagnostics:?}"
        );
    }
}
