//! Redaction of secrets: values of `{{env.…}}`, and values of variables with a secret name.
//! Invariant 20: they reach only the container.

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
const SECRET_WORDS: [&str; 10] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "PRIVATE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
];
/// The same at the end of a name only, such as `DB_PASS`.
const SHORT_WORDS: [&str; 3] = ["PASS", "PWD", "PW"];
/// Names of working directories.
const FOLDERS: [&str; 4] = ["PWD", "OLD_PWD", "HOST_PWD", "PROJECT_PWD"];
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
            let mut rest = Self::from(std::mem::take(&mut self.values));
            let limited = rest.values.iter().filter(|value| self.patterns.is_limited(value));
            for value in limited {
                rest.patterns.limit_to_words(value);
            }
            *self = rest;
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
    let last = name.rsplit('_').next().unwrap_or(&name);
    let is_short = SHORT_WORDS.contains(&last) && !FOLDERS.contains(&name.as_str());
    is_short || SECRET_WORDS.iter().any(|word| name.contains(word)) || SECRET_HEADERS.contains(&name.as_str())
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
#[path = "secrets_tests.rs"]
mod tests;
