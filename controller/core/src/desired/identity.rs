//! Name of an environment, and the names of its objects on the engine.

use std::collections::BTreeSet;

use argus_crds::{Diagnostic, E2eSpec};

use crate::desired::admit::SpecContext;
use crate::desired::effective::{MAX_FILLED, unresolved_hint};
use crate::desired::namespace::{AUTO, NamespaceFrom};
use crate::desired::volumes::{self, ExternalVolumes};
use crate::ident::{EnvName, ResourceName, ServiceName};
use crate::quoting::is_deceptive;

/// Maximum length of `project.name` in characters.
const MAX_PROJECT_NAME: usize = 200;

/// Identity of an environment.
#[derive(Debug, Clone)]
pub(super) struct EnvIdentity {
    /// Name of the environment.
    pub(super) env: EnvName,
    /// Namespace: the value of `isolation.namespace`, or the name for which it stands.
    pub(super) namespace: Option<String>,
    /// Volumes that Argus does not create.
    pub(super) external_volumes: ExternalVolumes,
    /// Names in the file of the further networks.
    pub(super) networks: BTreeSet<String>,
}

impl EnvIdentity {
    /// Returns the identity: the namespace, else the slug of the project name.
    pub(super) fn from_spec(
        spec: &E2eSpec,
        context: &SpecContext,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let project = project_env(&spec.project.name, diagnostics);
        let written = spec.isolation.namespace.as_deref();
        let is_empty = written.is_some_and(|text| text.trim().is_empty());
        if is_empty {
            let message = "`namespace` is empty, so Argus uses the project name";
            let hint = "write a name, or omit `namespace`";
            diagnostics.push(Diagnostic::warning("isolation.namespace", message).hint(hint));
        }
        let namespace = match (written.filter(|_| !is_empty), &context.namespace_from) {
            (None, NamespaceFrom::File) => None,
            (None | Some(AUTO), from) => {
                let env = from.resolve(context, diagnostics)?;
                let text = env.to_string();
                Some((env, text))
            }
            (Some(text), _) => Some(check_namespace(text, diagnostics)?),
        };
        match namespace {
            Some((env, text)) => project.map(|_| Self {
                env,
                namespace: Some(text),
                external_volumes: ExternalVolumes::new(),
                networks: BTreeSet::new(),
            }),
            None => project.map(Self::of),
        }
    }

    /// Identity without a namespace.
    pub(super) fn of(env: EnvName) -> Self {
        Self {
            env,
            namespace: None,
            external_volumes: ExternalVolumes::new(),
            networks: BTreeSet::new(),
        }
    }

    /// Returns the name of a container on the engine: its name in the file, with the namespace as a prefix.
    pub(super) fn format_container_name(&self, text: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}-{text}"),
            None => text.to_owned(),
        }
    }

    /// Returns the name on the engine of a volume with a valid name in the file.
    pub(super) fn volume_name(&self, text: &str) -> Option<ResourceName> {
        let external = self.external_volumes.get(text).cloned();
        external.or_else(|| volumes::engine_name(&self.env, text))
    }

    /// Returns the derived name of the default network.
    pub(super) fn network_name(&self) -> String {
        let own = self.namespace.as_deref().unwrap_or(self.env.as_str());
        format!("argusai-{own}-network")
    }
}

fn project_env(name: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<EnvName> {
    let path = "project.name";
    if name.chars().count() > MAX_PROJECT_NAME {
        let message = format!("`project.name` has more than {MAX_PROJECT_NAME} characters");
        diagnostics.push(Diagnostic::error(path, message).hint("shorten it"));
        return None;
    }
    let slug = EnvName::slug(name).ok();
    if slug.is_none() {
        let message = format!(
            "`project.name` `{}` contains no letter from a to z and no digit",
            shown(name)
        );
        diagnostics
            .push(Diagnostic::error(path, message).hint("write a name such as `shop` or `my-project`"));
    }
    slug
}

fn check_namespace(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<(EnvName, String)> {
    let path = "isolation.namespace";
    let checked = check_resource_name(text, "namespace", path, diagnostics)?;
    let exact = EnvName::new(text).ok();
    let slug = exact.is_none();
    let Some(env) = exact.or_else(|| EnvName::slug(text).ok()) else {
        diagnostics.push(Diagnostic::error(
            path,
            format!("namespace `{checked}` contains no letter and no digit"),
        ));
        return None;
    };
    if slug {
        let message = format!(
            "namespace `{checked}` is not a valid environment name, so the environment is called `{env}`"
        );
        diagnostics.push(Diagnostic::warning(path, message).hint(format!("write `namespace: {env}`")));
    }
    Some((env, text.to_owned()))
}

/// Checks the name of an object on the engine.
pub(super) fn check_resource_name(
    text: &str,
    what: &str,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ResourceName> {
    ResourceName::new(text)
        .map_err(|_| diagnostics.push(bad_name(text, what, 128, path)))
        .ok()
}

/// Checks the name of a service or mock.
pub(super) fn check_service_name(
    text: &str,
    what: &str,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServiceName> {
    ServiceName::new(text)
        .map_err(|_| diagnostics.push(bad_name(text, what, 63, path)))
        .ok()
}

fn bad_name(text: &str, what: &str, longest: usize, path: &str) -> Diagnostic {
    if text.is_empty() {
        return Diagnostic::error(path, format!("the name of the {what} is empty")).hint("write a name");
    }
    let message = format!("`{}` is not a valid {what} name", shown(text));
    let hint = if let Some(hint) = unresolved_hint(text) {
        hint
    } else if text.len() > MAX_FILLED {
        format!("shorten it to at most {longest} bytes")
    } else if text.len() > longest {
        format!("shorten it from {} to at most {longest} bytes", text.len())
    } else {
        "use letters, digits, `-`, `_` and `.`, with a letter or digit first".to_owned()
    };
    Diagnostic::error(path, message).hint(hint)
}

/// Returns a text of the file for a message: at most 60 characters, without control characters.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(60)
        .map(|c| if is_deceptive(c) { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}
