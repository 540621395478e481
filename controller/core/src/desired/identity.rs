//! Who an environment is, and what its things are called on the engine.

use argus_crds::{Diagnostic, E2eSpec};

use crate::desired::template::has_slots;
use crate::ident::{EnvName, ResourceName, ServiceName};

/// The longest `project.name` and namespace.
const LONGEST: usize = 200;
/// Networks that every engine has, and that nobody may be given.
const RESERVED_NETWORKS: [&str; 5] = ["host", "none", "bridge", "default", "podman"];

/// Who an environment is.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// Its name.
    pub(super) env: EnvName,
    /// `isolation.namespace` as written, when there is one.
    pub(super) namespace: Option<String>,
}

impl Identity {
    /// Who the file says that it is: its namespace, else the slug of its project's name.
    pub(super) fn of(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> Option<Self> {
        let project = project(&written.project.name, to);
        let namespace = match written.isolation.namespace.as_deref() {
            None => None,
            Some(text) if text.trim().is_empty() => {
                let message = "`namespace` is empty, so the project's name is taken";
                to.push(
                    Diagnostic::warning("isolation.namespace", message)
                        .hint("give it a name, or leave it out"),
                );
                None
            }
            Some(text) => Some(namespace(text, to)?),
        };
        match namespace {
            Some((env, text)) => project.map(|_| Self {
                env,
                namespace: Some(text),
            }),
            None => project.map(|env| Self { env, namespace: None }),
        }
    }

    /// A container or volume of the file as the engine knows it: with the namespace behind it, where there is one.
    pub(super) fn on_engine(&self, written: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{written}-{namespace}"),
            None => written.to_owned(),
        }
    }

    /// The environment's network: as the file names it, else after the identity.
    pub(super) fn network(&self, written: Option<&str>, to: &mut Vec<Diagnostic>) -> Option<ResourceName> {
        let Some(written) = written else {
            let own = self.namespace.as_deref().unwrap_or(self.env.as_str());
            return resource(&format!("argusai-{own}-network"), "network", "project.name", to);
        };
        if RESERVED_NETWORKS.contains(&written) {
            let message = format!("`{written}` is a network of the engine itself");
            let hint = "POLICY_VIOLATION: choose another name, or leave `network.name` out";
            to.push(Diagnostic::error("network.name", message).hint(hint));
            return None;
        }
        resource(written, "network", "network.name", to)
    }
}

fn project(name: &str, to: &mut Vec<Diagnostic>) -> Option<EnvName> {
    let path = "project.name";
    if name.chars().count() > LONGEST {
        let message = format!("`project.name` has more than {LONGEST} characters");
        to.push(Diagnostic::error(path, message).hint("shorten it"));
        return None;
    }
    let slug = EnvName::slug(name).ok();
    if slug.is_none() {
        let message = format!(
            "`project.name` `{}` holds no letter from a to z and no digit",
            shown(name)
        );
        to.push(
            Diagnostic::error(path, message)
                .hint("the environment is named after it, as in `shop` or `my-project`"),
        );
    }
    slug
}

fn namespace(text: &str, to: &mut Vec<Diagnostic>) -> Option<(EnvName, String)> {
    let path = "isolation.namespace";
    let checked = resource(text, "namespace", path, to)?;
    let exact = EnvName::new(text).ok();
    let slug = exact.is_none();
    let Some(env) = exact.or_else(|| EnvName::slug(text).ok()) else {
        to.push(Diagnostic::error(
            path,
            format!("namespace `{checked}` holds no letter and no digit"),
        ));
        return None;
    };
    if slug {
        let message =
            format!("namespace `{checked}` is no environment name, so the environment is called `{env}`");
        to.push(Diagnostic::warning(path, message).hint(format!("write `namespace: {env}`")));
    }
    Some((env, text.to_owned()))
}

/// The name of something on the engine, checked.
pub(super) fn resource(text: &str, what: &str, path: &str, to: &mut Vec<Diagnostic>) -> Option<ResourceName> {
    ResourceName::new(text)
        .map_err(|_| to.push(bad_name(text, what, 128, path)))
        .ok()
}

/// The name of a service or mock, checked.
pub(super) fn service(text: &str, what: &str, path: &str, to: &mut Vec<Diagnostic>) -> Option<ServiceName> {
    ServiceName::new(text)
        .map_err(|_| to.push(bad_name(text, what, 63, path)))
        .ok()
}

fn bad_name(text: &str, what: &str, longest: usize, path: &str) -> Diagnostic {
    if text.is_empty() {
        return Diagnostic::error(path, format!("the {what}'s name is empty")).hint("give it a name");
    }
    let message = format!("`{}` cannot be the name of a {what}", shown(text));
    let hint = if has_slots(text) {
        "templates are not filled in in names: write the name out".to_owned()
    } else if text.len() > longest {
        format!("it has {} bytes, and {longest} is the most", text.len())
    } else {
        "use letters, digits, `-`, `_` and `.`, and begin with a letter or a digit".to_owned()
    };
    Diagnostic::error(path, message).hint(hint)
}

/// A text of the file as a message shows it: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(60)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}
