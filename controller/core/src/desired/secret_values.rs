//! Secret values of an environment.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::{Diagnostic, E2eSpec};
use serde_json::Value;

use crate::desired::admit::SpecContext;
use crate::desired::referenced_services::ReferencedServices;
use crate::desired::template::{Segment, fill_vars, has_placeholders, segments};
use crate::desired::{Desired, Image, ProbeHandler, Service};
use crate::ident::ResourceName;
use crate::secrets::{Secrets, find_tokens, is_secret};

/// Returns the values of every `{{env.…}}` that a spec file contains, the values under secret names, and tokens.
pub(super) fn secrets_of(spec: &E2eSpec, context: &SpecContext, peers: &ReferencedServices) -> Secrets {
    let mut secrets = Secrets::default();
    let mut names = BTreeSet::new();
    // A parsed file can always be serialized.
    visit_texts(
        &serde_json::to_value(spec).unwrap_or_default(),
        "",
        &mut |_, text| {
            collect_env_names(text, &mut names);
        },
    );
    let is_inner = |(name, inner): &(&String, &String)| is_secret(name) && !is_plain(inner.trim(), true);
    let inner: Vec<&String> = context
        .env_vars
        .iter()
        .filter(is_inner)
        .map(|(_, inner)| inner)
        .collect();
    for name in names {
        let Some(value) = context.env_vars.get(&name) else {
            continue;
        };
        if !is_plain(value.trim(), is_secret(&name)) {
            secrets.add(value);
        }
        // A value in a `.env` can contain others.
        let contained = inner.iter().filter(|inner| value.contains(inner.as_str()));
        contained.for_each(|inner| secrets.add(inner));
    }
    for declared in spec.declared_services() {
        let service = declared.service;
        let path = format!("{}.vars", declared.path);
        let vars = fill_vars(&service.vars, context, peers, &path, &mut Vec::new());
        let container = service
            .container
            .iter()
            .flat_map(|container| container.environment.iter().chain(&container.labels));
        let args = service
            .build
            .iter()
            .flat_map(|build| build.args.iter().chain(&build.labels));
        let headers = service
            .container
            .iter()
            .filter_map(|container| container.healthcheck.as_ref())
            .flat_map(|healthcheck| header_values(&healthcheck.headers));
        let files = service.container.iter().flat_map(|container| &container.files);
        let files = files.map(|file| (file.path.as_str(), file.content.as_str()));
        let texts = vars.iter().chain(container).chain(args);
        let texts = texts.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in texts.chain(headers).chain(files) {
            if is_secret(name) && !has_placeholders(value) && !is_plain(value.trim(), true) {
                secrets.add(value);
            }
        }
    }
    for (_, token, _) in tokens_of(spec) {
        secrets.add(&token);
    }
    secrets
}

/// Warns about credentials in the file, which every reader of the repository could use.
pub(super) fn report_tokens(spec: &E2eSpec, context: &SpecContext, diagnostics: &mut Vec<Diagnostic>) {
    let hint = if context.is_compose {
        "write `${NAME}`, and the value in the `.env` next to the file"
    } else {
        "write `{{env.NAME}}`, and the value in the `.env` next to the file"
    };
    // The values of an `env_file` of Compose stand there, and not in the file.
    let is_inlined = |path: &str| context.is_compose && path.contains(".environment.");
    for (path, _, form) in tokens_of(spec).into_iter().filter(|(path, ..)| !is_inlined(path)) {
        let message = format!("the value has the form of {form}");
        diagnostics.push(Diagnostic::warning(path, message).hint(hint));
    }
}

/// Credentials in the texts of services, each with the path of its key and its form.
fn tokens_of(spec: &E2eSpec) -> Vec<(String, String, &'static str)> {
    let mut tokens = Vec::new();
    for declared in spec.declared_services() {
        let service = serde_json::to_value(declared.service).unwrap_or_default();
        visit_texts(&service, &declared.path, &mut |path, text| {
            let found = find_tokens(text).into_iter();
            tokens.extend(found.map(|(range, form)| (path.to_owned(), text[range].to_owned(), form)));
        });
    }
    tokens
}

/// Calls `visit` with the path and the content of every text of a document.
fn visit_texts(value: &Value, path: &str, visit: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit_texts(item, &format!("{path}[{index}]"), visit);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                visit_texts(field, &path, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Desired {
    /// Returns the secrets of the environment: values of `{{env.…}}`, and values of variables, labels and build arguments with
    /// a secret name.
    ///
    /// They apply to the whole environment, because one service can log the secret of another.
    pub fn secret_values(&self) -> Secrets {
        let mut secrets = self.secrets.clone();
        for service in self.services.values() {
            secrets.join(&values_of_secret_variables(service));
        }
        // Names are not secrets: without them a message would not identify its subject.
        let names = self.services.values().flat_map(|service| {
            let aliases = service.all_aliases().map(String::as_str);
            aliases.chain([service.name.as_str(), service.container_name.as_str()])
        });
        let networks = self.declared_networks();
        let networks: Vec<&str> = networks
            .flat_map(|network| [Some(network.name), network.key])
            .flatten()
            .map(ResourceName::as_str)
            .collect();
        let names: Vec<&str> = names
            .chain([self.env.as_str(), self.project.as_str()])
            .chain(networks)
            .collect();
        for name in &names {
            secrets.remove(name);
        }
        // So are the names of images, such as that of `postgres` in the path of its data.
        let images = self.services.values().map(|service| service.image.reference());
        let parts = names.into_iter().chain(images);
        for part in parts.flat_map(|name| name.split(['-', '_', '.', '/', ':'])) {
            secrets.limit_to_words(part);
        }
        secrets
    }
}

/// Returns the values of environment variables, labels and build arguments with a secret name, and files with a secret path, such as
/// those in `/run/secrets`.
fn values_of_secret_variables(service: &Service) -> Secrets {
    let args = match &service.image {
        Image::Built(build) => Some(build.args.iter().chain(&build.options.labels)),
        Image::Named(_) => None,
    };
    let mut secrets = Secrets::default();
    let headers = match service.probe.as_ref().map(|probe| &probe.kind) {
        Some(ProbeHandler::Http { options, .. }) => Some(header_values(&options.headers)),
        Some(_) | None => None,
    };
    let texts = service.env_vars.iter().chain(&service.labels);
    let texts = texts.chain(args.into_iter().flatten());
    let texts = texts.map(|(name, value)| (name.as_str(), value.as_str()));
    let files = service.process.files.iter();
    let files = files.map(|file| (file.path.as_str(), file.text.as_str()));
    for (name, value) in texts.chain(headers.into_iter().flatten()).chain(files) {
        // Messages about an unresolved template must contain it.
        if is_secret(name) && !is_harmless(value) {
            secrets.add(value);
        }
    }
    secrets
}

/// Names of headers with their values, and with the credentials after a scheme such as `Bearer`.
fn header_values(headers: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().flat_map(|(name, value)| {
        // A short word occurs in many unrelated places.
        let credentials = value.split_once(' ').map(|(_, credentials)| credentials);
        let credentials = credentials.filter(|credentials| credentials.len() >= 8);
        [Some(value.as_str()), credentials]
            .into_iter()
            .flatten()
            .map(move |value| (name.as_str(), value))
    })
}

/// Returns whether the value consists of one template, which the renderer could not resolve.
fn is_unresolved(value: &str) -> bool {
    let inner = value
        .trim()
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"));
    inner.is_some_and(|inner| !inner.contains(['{', '}']))
}

/// Returns whether a value under a secret name is no secret: a boolean, or a template.
pub(crate) fn is_harmless(value: &str) -> bool {
    is_plain(value.trim(), true) || is_unresolved(value)
}

/// Returns whether the value is a boolean, or a number without a secret name, which occurs in many unrelated places.
fn is_plain(value: &str, has_secret_name: bool) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "null", "none"];
    let is_number = || !has_secret_name && value.parse::<f64>().is_ok();
    is_number() || words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Collects the names of every `{{env.NAME}}` in a text.
fn collect_env_names(text: &str, names: &mut BTreeSet<String>) {
    for segment in segments(text) {
        if let Segment::Template(placeholder, _) = segment
            && let Some(name) = placeholder.strip_prefix("env.")
        {
            names.insert(name.to_owned());
        }
    }
}
