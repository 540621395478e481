//! Redaction of secrets: values of `{{env.…}}`, and values of variables with a secret name.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use argus_crds::diagnostic::{Correction, Diagnostic, RelatedPlace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod decoded;
mod patterns;
mod source;
mod token;

pub use source::render_diagnostics;

use patterns::Patterns;
pub(crate) use token::find_tokens;

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
/// Headers with credentials whose names have none of these words.
const SECRET_HEADERS: [&str; 5] = [
    "AUTHORIZATION",
    "PROXY_AUTHORIZATION",
    "COOKIE",
    "SET_COOKIE",
    "WWW_AUTHENTICATE",
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
/// assert_eq!(secrets.redacted("curl http://a:b@host"), "curl http://a:[redacted]@host");
/// assert_eq!(format!("{secrets:?}"), "Secrets(1)");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeSet<String>", into = "BTreeSet<String>")]
pub struct Secrets {
    values: BTreeSet<String>,
    /// Forms of the values.
    patterns: Patterns,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl From<BTreeSet<String>> for Secrets {
    fn from(values: BTreeSet<String>) -> Self {
        let mut patterns = Patterns::default();
        for value in &values {
            patterns.add(value);
        }
        Self { values, patterns }
    }
}

impl From<Secrets> for BTreeSet<String> {
    fn from(secrets: Secrets) -> Self {
        secrets.values
    }
}

impl Secrets {
    /// Removes a text that is not a secret.
    pub(crate) fn remove(&mut self, text: &str) {
        if self.values.remove(text) {
            *self = Self::from(std::mem::take(&mut self.values));
        }
    }

    /// Adds other secrets.
    pub fn join(&mut self, others: &Self) {
        for value in &others.values {
            let is_new = !self.values.contains(value);
            self.insert(value);
            if is_new && others.patterns.is_limited(value) {
                self.patterns.limit_to_words(value);
            }
        }
    }

    /// Redacts a value, if it is one of the secrets, only where it is a whole word, because it is part of a name.
    pub(crate) fn limit_to_words(&mut self, value: &str) {
        if self.values.contains(value) {
            self.patterns.limit_to_words(value);
        }
    }

    /// Returns the text with all secrets redacted, in every form; of two matches at one position, the longer one.
    ///
    /// Passwords in the authority of a URL are redacted by their form.
    pub fn redacted(&self, text: &str) -> String {
        replaced(text, &self.patterns.ranges(text, false))
    }

    /// Returns a text, whose beginning and end were cut off, with all secrets redacted, also those that the cuts split.
    pub fn redacted_fragment(&self, text: &str) -> String {
        replaced(text, &self.patterns.ranges(text, true))
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

    /// Returns the diagnostic with all secrets redacted in its texts.
    #[must_use]
    pub fn redacted_diagnostic(&self, diagnostic: Diagnostic) -> Diagnostic {
        Diagnostic {
            message: self.redacted(&diagnostic.message),
            hint: diagnostic.hint.map(|hint| self.redacted(&hint)),
            correction: diagnostic
                .correction
                .map(|it| Box::new(self.redacted_correction(*it))),
            ..diagnostic
        }
    }

    fn redacted_correction(&self, correction: Correction) -> Correction {
        let text = |text: String| self.redacted(&text);
        let place = |place: RelatedPlace| RelatedPlace {
            message: text(place.message),
            ..place
        };
        Correction {
            now: correction.now.map(text),
            suggest: correction.suggest.map(text),
            related: correction.related.into_iter().map(place).collect(),
            elsewhere: correction.elsewhere,
            conflicts_with: correction.conflicts_with,
        }
    }

    /// Adds a value: as a whole, and each of its lines without surrounding blanks.
    pub fn add(&mut self, value: &str) {
        for part in value.lines().chain([value]).map(str::trim) {
            // A part of the replacement text would match it again.
            if part.len() >= MIN_LENGTH && !REDACTED.contains(part) {
                self.insert(part);
            }
        }
    }

    fn insert(&mut self, value: &str) {
        if self.values.insert(value.to_owned()) {
            self.patterns.add(value);
        }
    }
}

/// Returns whether the name of a variable, a header, an option or a field marks its value as a secret.
///
/// ```
/// use argus_core::secrets::is_secret;
///
/// assert!(is_secret("DB_PASSWORD"));
/// assert!(is_secret("X-Api-Key"));
/// assert!(is_secret("Set-Cookie"));
/// assert!(!is_secret("LOG_LEVEL"));
/// ```
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    SECRET_WORDS.iter().any(|word| name.contains(word)) || SECRET_HEADERS.contains(&name.as_str())
}

/// Replaces sorted and disjoint ranges of a text.
pub(crate) fn replaced(text: &str, ranges: &[Range<usize>]) -> String {
    let mut result = Vec::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        result.extend_from_slice(&text.as_bytes()[at..range.start]);
        result.extend_from_slice(REDACTED.as_bytes());
        at = range.end;
    }
    result.extend_from_slice(&text.as_bytes()[at..]);
    String::from_utf8_lossy(&result).into_owned()
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
            (
                "http://u:a%20b%40c@db?p=a+b%40c",
                "http://u:[redacted]@db?p=[redacted]",
            ),
            (
                "postgres://u:p@ss@db/x, https://a:80/@b",
                "postgres://u:[redacted]@db/x, https://a:80/@b",
            ),
        ] {
            assert_eq!(secrets.redacted(text), redacted);
            assert_eq!(secrets.redacted(redacted), redacted, "redaction is idempotent");
        }
    }

    #[test]
    fn short_secret_and_part_of_a_name_are_redacted_as_whole_words() {
        let mut secrets = secrets(&["plane", "postgres", "longersecret"]);
        secrets.limit_to_words("postgres");
        secrets.limit_to_words("other");
        for (text, redacted) in [
            (
                "`plane-db` waits for `postgres-db`, my_plane",
                "`plane-db` waits for `postgres-db`, my_plane",
            ),
            ("postgresql is no planet", "postgresql is no planet"),
            ("PASSWORD=plane", "PASSWORD=[redacted]"),
            ("{\"password\":\"postgres\"}", "{\"password\":\"[redacted]\"}"),
            ("login with plane. Done", "login with [redacted]. Done"),
            ("p=pl%61ne&x", "p=[redacted]&x"),
            ("dXNlcjpwb3N0Z3Jlcw==", "dXNlcjp[redacted]w=="),
            ("alongersecret-", "a[redacted]-"),
        ] {
            assert_eq!(secrets.redacted(text), redacted);
        }
        let mut joined = Secrets::default();
        joined.join(&secrets);
        assert_eq!(joined.redacted("postgres-db"), "postgres-db");
    }

    #[test]
    fn encoded_secret_is_redacted() {
        let secret = "s/w\"o\\r d+f\u{e9}";
        let secrets = secrets(&[secret]);
        for text in [
            "s%2Fw%22o%5Cr%20d%2Bf%C3%A9",
            "s%2fw%22o%5cr%20d%2bf%c3%a9",
            "s%2Fw%22o%5Cr+d%2Bf%C3%A9",
            "s/w%22o%5Cr%20d+f%C3%A9",
            "s/w\\\"o\\\\r d+f\u{e9}",
            "s\\/w\\u0022o\\u005Cr d\\u002bf\\u00e9",
            // JSON in a query, and JSON in JSON.
            "s/w%5C%22o%5C%5Cr%20d%2Bf%C3%A9",
            "s/w\\\\\\\"o\\\\\\\\r d+f\u{e9}",
            "cy93Im9cciBkK2bDqQ==",
        ] {
            assert_eq!(secrets.redacted(text), REDACTED, "{text}");
            let inside = format!("<{text}>");
            assert_eq!(secrets.redacted(&inside), "<[redacted]>", "{text}");
        }
        // `user:SECRET`, `user1:SECRET` and `user12:SECRET` have three alignments.
        for (text, redacted) in [
            ("dXNlcjpzL3cib1xyIGQrZsOp", "dXNlcjp[redacted]"),
            ("dXNlcjE6cy93Im9cciBkK2bDqQ==", "dXNlcjE6[redacted]"),
            ("dXNlcjEyOnMvdyJvXHIgZCtmw6k=", "dXNlcjEyOn[redacted]k="),
        ] {
            assert_eq!(secrets.redacted(text), redacted);
        }
    }

    #[test]
    fn secret_at_a_cut_is_redacted() {
        let secrets = secrets(&["swordfish"]);
        for (text, redacted) in [
            ("ordfish and sword", "[redacted] and [redacted]"),
            ("rdfish%20swo", "[redacted]%20swo"),
            ("fish", "[redacted]"),
            ("ish swo", "ish swo"),
        ] {
            assert_eq!(secrets.redacted_fragment(text), redacted);
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
                    container:\n      name: shop-db\n      environment: { URL: \"pg://{{env.USER}}:{{config.deep}}@db:{{env.PORT}}/{{env.ON}}{{env.ABC}}\", A_TOKEN: '1234', B_TOKEN: '{{env.LATER}}' }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let variables = [
            ("TAG", "v1.2-rc"),
            ("DEEP", "swordfish"),
            ("USER", "shop-db"),
            ("PORT", "54321"),
            ("ON", "true"),
            ("ABC", "abc"),
            ("UNUSED", "not read"),
            // A part of `DEEP`.
            ("INNER_TOKEN", "ordfish"),
        ];
        let context = SpecContext {
            env_vars: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..SpecContext::default()
        };
        let desired = admit(&written, &context).desired.unwrap();
        let found = desired.secret_values();
        assert_eq!(found, secrets(&["v1.2-rc", "swordfish", "1234", "ordfish"]));
        assert_eq!(format!("{found:?}"), "Secrets(4)");
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
