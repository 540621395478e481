//! Secret values of an environment.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::E2eSpec;
use serde_json::Value;

use crate::desired::template::{Segment, segments};
use crate::desired::{Desired, Service};
use crate::secrets::{Secrets, is_secret};

/// Returns the values of every `{{env.…}}` that a spec file contains.
pub(super) fn secrets_read_by(spec: &E2eSpec, variables: &BTreeMap<String, String>) -> Secrets {
    let mut secrets = Secrets::default();
    if variables.is_empty() {
        return secrets;
    }
    let mut names = BTreeSet::new();
    // A parsed file can always be serialized.
    collect_env_names(&serde_json::to_value(spec).unwrap_or_default(), &mut names);
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

impl Desired {
    /// Returns the secrets of the environment: values of `{{env.…}}`, and values of variables with a secret name.
    ///
    /// They apply to the whole environment, because one service can log the secret of another.
    pub fn secret_values(&self) -> Secrets {
        let mut secrets = self.secrets.clone();
        for service in self.services.values() {
            secrets.join(&values_of_secret_variables(service));
        }
        // Names are not secrets: without them a message would not identify its subject.
        let names = self.services.values().flat_map(|service| {
            let aliases = service.aliases.iter().map(String::as_str);
            aliases.chain([service.name.as_str(), service.container_name.as_str()])
        });
        for name in names.chain([self.env.as_str(), self.project.as_str(), self.network.as_str()]) {
            secrets.remove(name);
        }
        secrets
    }
}

/// Returns the values of variables with a secret name.
fn values_of_secret_variables(service: &Service) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, value) in &service.env_vars {
        if is_secret(name) {
            secrets.add(value);
        }
    }
    secrets
}

/// Returns whether the value is a number or a boolean, which occurs in many unrelated places.
fn is_plain(value: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "null", "none"];
    value.parse::<f64>().is_ok() || words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Collects the names of every `{{env.NAME}}` in a document.
fn collect_env_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            for segment in segments(text) {
                if let Segment::Template(placeholder, _) = segment
                    && let Some(name) = placeholder.strip_prefix("env.")
                {
                    names.insert(name.to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_env_names(item, names)),
        Value::Object(fields) => fields.values().for_each(|field| collect_env_names(field, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
