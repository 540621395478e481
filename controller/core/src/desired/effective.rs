//! Effective content of a spec file: with resolved templates in names and ports, without the parts that its runtime omits; and
//! the settings that Argus accepts and ignores.

use argus_crds::{E2eSpec, PortText, Runner, RuntimeKind};

use crate::desired::admit::SpecContext;
use crate::desired::identity::shown;
use crate::desired::referenced_services::{ReferencedServices, TEMPLATES};
use crate::desired::template::{Segment, segments};
use crate::quoting::shell_path;

/// Maximum length of a name or port after the resolution of its templates, in bytes. Valid ones are shorter.
pub(super) const MAX_FILLED: usize = 1024;

/// Returns the content that admission checks. Texts other than names and ports keep their templates, which admission
/// resolves with their other values. Unresolved templates stay, and make the name invalid. The values count in `resolved`.
pub(super) fn effective(spec: &E2eSpec, context: &SpecContext, resolved: &ReferencedServices) -> E2eSpec {
    let mut spec = spec.clone();
    let fill = |text: &mut String| *text = filled(text, context, resolved);
    fill(&mut spec.project.name);
    let names = [&mut spec.isolation.namespace, &mut spec.network.name];
    names.into_iter().flatten().for_each(fill);
    let networks = spec.networks.values_mut();
    networks
        .filter_map(|network| network.name.as_mut())
        .for_each(fill);
    let volumes = spec.volumes.values_mut();
    volumes.filter_map(|volume| volume.name.as_mut()).for_each(fill);
    for service in spec.service.iter_mut().chain(&mut spec.services) {
        service.name.iter_mut().for_each(fill);
        if let Some(container) = &mut service.container {
            fill(&mut container.name);
            let networks = container.networks.values_mut();
            let aliases = networks.flat_map(|network| &mut network.aliases);
            container.aliases.iter_mut().chain(aliases).for_each(fill);
            for port in &mut container.ports {
                *port = PortText(filled(port.as_str(), context, resolved));
            }
        }
    }
    if spec
        .runtime
        .is_some_and(|runtime| runtime.kind == RuntimeKind::Host)
    {
        spec.service = None;
        spec.services.clear();
        spec.mocks.clear();
    }
    spec
}

/// Resolves the `{{env.NAME}}` of a text. A text that becomes too long is cut, and ends with a character that no name and no port has.
fn filled(text: &str, context: &SpecContext, resolved: &ReferencedServices) -> String {
    let mut result = String::new();
    for segment in segments(text) {
        let value = match segment {
            Segment::Text(text) => text,
            Segment::Template(placeholder, raw) => {
                let name = placeholder.strip_prefix("env.");
                let value = name.and_then(|name| context.env_vars.get(name));
                let value = value.map_or(raw, String::as_str);
                let fits = resolved.add_resolved(value.len().min(MAX_FILLED), "services", TEMPLATES);
                if !fits || result.len() + value.len() > MAX_FILLED {
                    let kept = if fits { MAX_FILLED } else { 0 };
                    result.extend(value.chars().take(kept).chain(['…']));
                    return result;
                }
                value
            }
        };
        result.push_str(value);
    }
    result
}

/// Returns the hint for a name or port with a template that does not resolve.
pub(super) fn unresolved_hint(text: &str) -> Option<String> {
    segments(text).into_iter().find_map(|segment| match segment {
        Segment::Text(_) => None,
        Segment::Template(placeholder, _) => Some(match placeholder.strip_prefix("env.") {
            Some(name) => env_hint(name),
            None => "write it without a template, or with `{{env.NAME}}`".to_owned(),
        }),
    })
}

/// Returns the hint for a variable that is not set.
pub(super) fn env_hint(name: &str) -> String {
    format!(
        "add `{name}` to the `.env` file next to this file, or start the controller with `--env-allow {}`",
        shell_path(name)
    )
}

/// Returns a note for the status about each ignored setting, in the order of the format.
pub(super) fn ignored_settings(spec: &E2eSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(tests) = &spec.tests {
        for suite in tests.suites.iter().filter(|suite| suite.runner == Runner::Yaml) {
            notes.push(format!(
                "the suite `{}` uses the runner `yaml` of the Node tool, which Argus does not run",
                shown(&suite.name)
            ));
        }
    }
    match spec.runtime.map(|runtime| runtime.kind) {
        None | Some(RuntimeKind::Docker) => {}
        Some(RuntimeKind::Kubernetes) => {
            notes.push("`runtime.type` is `kubernetes`; Argus runs the services on Docker".to_owned());
        }
        Some(RuntimeKind::Host) => {
            notes.push("`runtime.type` is `host`; Argus runs no services and no mocks".to_owned());
        }
    }
    for block in spec.ignored_blocks() {
        notes.push(format!(
            "`{block}` is a setting of the Node tool, which Argus ignores"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::desired::admit::admit;

    fn context(name: &str, bytes: usize) -> SpecContext {
        SpecContext {
            env_vars: BTreeMap::from([(name.to_owned(), "v".repeat(bytes))]),
            ..SpecContext::default()
        }
    }

    #[test]
    fn names_and_ports_have_a_bounded_size() {
        let text = "project: { name: T }\nisolation: { namespace: T }\nnetwork: { name: T }\nnetworks: { n: { name: T } }\n\
                    volumes: { v: { name: T } }\nservices:\n  - name: T\n    image: x\n    \
                    container: { name: T, aliases: [T], networks: { n: { aliases: [T] } }, ports: [T] }\n";
        let text = text.replace(" T", &format!(" \"{}\"", "{{env.BIG}}".repeat(10)));
        let text = text.replace("[T]", &format!("[\"{}\"]", "{{env.BIG}}".repeat(10)));
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let context = context("BIG", 100_000);
        let found = effective(&spec, &context, &ReferencedServices::default());
        let size = serde_json::to_vec(&found).unwrap().len();
        assert!(size < 50_000, "{size}");
        let found = admit(&spec, &context).diagnostics;
        for path in [
            "network.name",
            "container.name",
            "container.aliases[0]",
            "container.ports[0]",
        ] {
            let mut errors = found.iter().filter(|found| found.is_error());
            assert!(
                errors.any(|error| error.path.ends_with(path)),
                "{path}: {found:#?}"
            );
        }
        let hints: Vec<_> = found.iter().filter_map(|found| found.hint.as_deref()).collect();
        assert!(hints.contains(&"shorten it to at most 128 bytes"), "{hints:?}");
    }

    #[test]
    fn all_names_have_a_bounded_size() {
        let text = "project: { name: shop }\nservice: { image: x, container: { name: a } }\n";
        let mut spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let container = spec.service.as_mut().unwrap().container.as_mut().unwrap();
        container.aliases = vec!["{{env.NAME}}".to_owned(); 20_000];
        let context = context("NAME", 1_000);
        let found = effective(&spec, &context, &ReferencedServices::default());
        let size = serde_json::to_vec(&found).unwrap().len();
        assert!(size < 17 << 20, "{size}");
        let found = admit(&spec, &context);
        let mut messages = found.diagnostics.iter().map(|found| found.message.as_str());
        assert!(messages.any(|message| message.contains("16 MiB")));
        assert_eq!(found.desired, None);
    }
}
