//! Redaction of the secrets of a suite: those of its environment, and the values of `{{env.NAME}}`.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::desired::template::{Segment, segments};
use argus_core::secrets::{Secrets, is_secret};
use argus_suite::{CaseResult, Failure, Note, RunReport};

use super::YamlSuite;

/// Minimum length of a secret in bytes. A shorter value occurs in unrelated words.
const MIN_LENGTH: usize = 4;

impl YamlSuite {
    /// Returns all secrets of the suite: those of the environment, and the values of its `{{env.NAME}}`.
    pub(super) fn secrets(&self, env: &BTreeMap<String, String>) -> Secrets {
        let spec = &self.owner.spec;
        let services = spec.service.iter().chain(&spec.services);
        // The `vars` of services are the values of `{{config.NAME}}`.
        let vars = services.flat_map(|service| service.vars.values());
        let names = vars
            .flat_map(|text| env_names(text))
            .chain(self.env_names.iter().cloned());
        let mut secrets = self.owner.secrets.clone();
        secrets.join(&env_secrets(names, env));
        secrets
    }
}

/// Returns the names of all `{{env.NAME}}` in a text.
pub(in crate::test_runner) fn env_names(text: &str) -> BTreeSet<String> {
    let name = |segment: Segment<'_>| match segment {
        Segment::Template(name, _) => name.strip_prefix("env.").map(str::to_owned),
        Segment::Text(_) => None,
    };
    segments(text).into_iter().filter_map(name).collect()
}

/// Returns the values of variables, without booleans and numbers, which occur in many unrelated places.
fn env_secrets(names: impl IntoIterator<Item = String>, env: &BTreeMap<String, String>) -> Secrets {
    let mut secrets = BTreeSet::new();
    for name in names {
        let Some(value) = env.get(&name) else { continue };
        let is_number = !is_secret(&name) && value.trim().parse::<f64>().is_ok();
        let is_boolean = value.trim().parse::<bool>().is_ok();
        if is_number || is_boolean {
            continue;
        }
        let parts = value.lines().chain([value.as_str()]).map(str::trim);
        secrets.extend(parts.filter(|part| part.len() >= MIN_LENGTH).map(str::to_owned));
    }
    Secrets::from(secrets)
}

/// Report without secrets.
pub(super) fn redact(report: &RunReport, secrets: &Secrets) -> RunReport {
    RunReport {
        cases: report
            .cases
            .iter()
            .map(|case| redact_case(case, secrets))
            .collect(),
        notes: report
            .notes
            .iter()
            .map(|note| redact_note(note, secrets))
            .collect(),
    }
}

/// Result without secrets.
pub(super) fn redact_case(case: &CaseResult, secrets: &Secrets) -> CaseResult {
    let mut case = case.clone();
    for failure in &mut case.failures {
        redact_failure(failure, secrets);
    }
    if let Some(exchange) = &mut case.exchange {
        exchange.sent = secrets.redacted_json(exchange.sent.take(), &[]);
        exchange.received = exchange
            .received
            .take()
            .map(|received| secrets.redacted_json(received, &[]));
    }
    case
}

/// Note without secrets.
pub(super) fn redact_note(note: &Note, secrets: &Secrets) -> Note {
    let mut note = note.clone();
    for failure in &mut note.failures {
        redact_failure(failure, secrets);
    }
    note
}

fn redact_failure(failure: &mut Failure, secrets: &Secrets) {
    failure.message = redact_cut(&failure.message, secrets);
    failure.at = secrets.redacted(&failure.at);
    failure.address = failure.address.take().map(|address| secrets.redacted(&address));
}

/// Message without secrets. Values in it are cut before `…`, so the beginning of a secret can be there.
fn redact_cut(message: &str, secrets: &Secrets) -> String {
    if !message.contains('…') {
        return secrets.redacted(message);
    }
    let parts = message.split('…').map(|part| secrets.redacted_fragment(part));
    parts.collect::<Vec<_>>().join("…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_env_templates_are_secrets() {
        let names =
            env_names("url: '{{ env.HOST_PART }}/{{env.PLAIN}}/{{id}}', on: '{{env.ON}}{{env.COUNT}}'");
        assert_eq!(names.len(), 4);
        let env = [
            ("HOST_PART", "swordfish"),
            ("PLAIN", "mackerel"),
            ("ON", "true"),
            ("COUNT", "8080"),
            ("UNUSED", "herring"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = env_secrets(names, &env.into());
        assert_eq!(
            secrets.redacted("swordfish mackerel true 8080 herring"),
            "[redacted] [redacted] true 8080 herring"
        );
    }

    #[test]
    fn failure_without_secrets_also_at_a_cut() {
        let secrets: Secrets = serde_json::from_str(r#"["swordfish"]"#).unwrap();
        let mut failure = Failure::new("/run/swordfish", "expected `x` to be `1`, got `a sword…`");
        redact_failure(&mut failure, &secrets);
        assert_eq!(failure.at, "/run/[redacted]");
        assert_eq!(failure.message, "expected `x` to be `1`, got `a [redacted]…`");
    }
}
