//! Effective content of a spec file: with resolved templates in names and ports, without the parts that its runtime omits; and
//! the settings that Argus accepts and ignores.

use argus_crds::{E2eSpec, PortText, Runner, RuntimeKind};

use crate::desired::admit::SpecContext;
use crate::desired::identity::shown;
use crate::desired::template::{Segment, segments};

/// Returns the content that admission checks. Texts other than names and ports keep their templates, which admission
/// resolves with their other values. Unresolved templates stay, and make the name invalid.
pub(super) fn effective(spec: &E2eSpec, context: &SpecContext) -> E2eSpec {
    let mut spec = spec.clone();
    let fill = |text: &mut String| *text = filled(text, context);
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
                *port = PortText(filled(port.as_str(), context));
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

/// Resolves the `{{env.NAME}}` of a text.
fn filled(text: &str, context: &SpecContext) -> String {
    let value = |segment| match segment {
        Segment::Text(text) => text.to_owned(),
        Segment::Template(placeholder, raw) => {
            let name = placeholder.strip_prefix("env.");
            let value = name.and_then(|name| context.env_vars.get(name));
            value.cloned().unwrap_or_else(|| raw.to_owned())
        }
    };
    segments(text).into_iter().map(value).collect()
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
        "add `{name}` to the `.env` file next to this file, or start the controller with `--env-allow {name}`"
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
