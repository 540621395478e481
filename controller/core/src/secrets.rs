//! What must not leave the system: the values of `{{env.…}}`, and of variables whose name says that they are secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use argus_crds::E2eSpec;
use argus_crds::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desired::template::{Piece, pieces};
use crate::desired::{Desired, Service};

/// Words that make a variable's name one of a secret.
const SECRET: [&str; 9] = [
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
/// A shorter value would take harmless words with it.
const SHORTEST: usize = 4;
/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Values that are blacked out wherever they stand.
///
/// They are written only where the environment itself is, which holds them anyway: the controller's private files.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeSet<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of every `{{env.…}}` that a file reads.
    pub(crate) fn read_by(written: &E2eSpec, variables: &BTreeMap<String, String>) -> Self {
        let mut secrets = Self::default();
        if variables.is_empty() {
            return secrets;
        }
        let mut names = BTreeSet::new();
        // A file that was read has a form in which it can be written.
        gather(&serde_json::to_value(written).unwrap_or_default(), &mut names);
        for name in names {
            let Some(value) = variables.get(&name) else {
                continue;
            };
            if !is_plain(value.trim()) {
                secrets.add(value);
            }
        }
        secrets
    }

    /// Also these.
    pub fn join(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text in which they are blacked out; of two that begin at one place, the longer.
    pub fn redacted(&self, text: &str) -> String {
        let inside: Vec<&str> = self
            .0
            .iter()
            .map(String::as_str)
            .filter(|secret| text.contains(secret))
            .collect();
        if inside.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let here = inside.iter().filter(|secret| rest.starts_with(**secret));
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

    /// A document in whose texts they are blacked out; keys stay, and what stands under those that `ours` names.
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

    /// A complaint in whose words they are blacked out.
    #[must_use]
    pub fn redacted_diagnostic(&self, diagnostic: Diagnostic) -> Diagnostic {
        Diagnostic {
            message: self.redacted(&diagnostic.message),
            hint: diagnostic.hint.map(|hint| self.redacted(&hint)),
            ..diagnostic
        }
    }

    /// A value with the forms that it takes in logs: line by line, without blanks around it, in a URL.
    fn add(&mut self, value: &str) {
        for part in value.lines().map(str::trim) {
            // What is part of the mark itself would be found in it again.
            if part.len() >= SHORTEST && !REDACTED.contains(part) {
                self.0.insert(part.to_owned());
                self.0.insert(in_a_url(part));
            }
        }
    }
}

impl Desired {
    /// What must not leave: what the file reads from outside, and the values of variables whose name says that they are
    /// secret. One service's is another's to log, so they count for the whole environment.
    pub fn not_to_be_told(&self) -> Secrets {
        let mut secrets = self.secrets.clone();
        for service in self.services.values() {
            secrets.join(&named(service));
        }
        // What the file calls things is no secret, and without it nobody knows who is meant.
        let names = self.services.values().flat_map(|service| {
            let aliases = service.aliases.iter().map(String::as_str);
            aliases.chain([service.name.as_str(), service.container_name.as_str()])
        });
        for name in names.chain([self.env.as_str(), self.project.as_str(), self.network.as_str()]) {
            secrets.0.remove(name);
        }
        secrets
    }
}

/// Values of variables whose name says that they are secret.
fn named(service: &Service) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, value) in &service.environment {
        if is_secret(name) {
            secrets.add(value);
        }
    }
    secrets
}

/// Whether the name of a variable, a header or a field says that its value is a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// A number or a truth value: it stands in too many places that have nothing to do with it.
fn is_plain(value: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "null", "none"];
    value.parse::<f64>().is_ok() || words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn in_a_url(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // A string takes whatever is written.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The names in every `{{env.NAME}}` of a document.
fn gather(value: &Value, to: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            for piece in pieces(text) {
                if let Piece::Slot(slot, _) = piece
                    && let Some(name) = slot.strip_prefix("env.")
                {
                    to.insert(name.to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, to)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn names_tell_what_is_secret() {
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
    fn a_secret_goes_in_every_form_that_it_takes_in_a_log() {
        let secrets = secrets(&["hunter", "hunter-two", "a b@c", "first line\nsecond line", "act"]);
        for (text, told) in [
            ("nothing of it", "nothing of it"),
            ("as hunter-two, as hunter", "as [redacted], as [redacted]"),
            ("http://u:a%20b%40c@db", "http://u:[redacted]@db"),
            ("> second line\n", "> [redacted]\n"),
            ("é hunteré", "é [redacted]é"),
            ("an act", "an act"),
        ] {
            assert_eq!(secrets.redacted(text), told);
            assert_eq!(secrets.redacted(told), told, "once is as good as twice");
        }
    }

    #[test]
    fn keys_of_a_document_stay_and_what_is_ours() {
        let secrets = secrets(&["line", "exit"]);
        let value = serde_json::json!({ "line": ["a line", 3, null], "kind": "exit" });
        let told = secrets.redacted_json(value, &["kind"]);
        let expected = serde_json::json!({ "line": ["a [redacted]", 3, null], "kind": "exit" });
        assert_eq!(told, expected);
    }

    #[test]
    fn what_a_file_reads_from_outside_is_secret_unless_it_says_nothing() {
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
        let site = SpecContext {
            env_vars: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..SpecContext::default()
        };
        let desired = admit(&written, &site).desired.unwrap();
        let found = desired.not_to_be_told();
        assert_eq!(found, secrets(&["v1.2-rc", "swordfish", "1234"]));
        assert_eq!(format!("{found:?}"), "Secrets(3)");
        let without = Desired {
            secrets: Secrets::default(),
            ..desired.clone()
        };
        assert_eq!(revision_of(&without), desired.revision);
    }

    #[test]
    fn no_complaint_tells_a_secret() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  db:\n    image: \"no image {{env.TAG}}\"\n    container: { name: shop-db }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let site = SpecContext {
            env_vars: [("TAG".to_owned(), "swordfish".to_owned())].into(),
            ..SpecContext::default()
        };
        let told = admit(&written, &site).diagnostics;
        let message = &told[0].message;
        assert!(message.contains("[redacted]"), "{told:?}");
        assert!(!format!("{told:?}").contains("swordfish"), "{told:?}");
    }
}
