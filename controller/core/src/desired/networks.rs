//! Networks of an environment: the default network, further ones by name, and external ones.
//!
//! A service is on the networks that it lists, otherwise on the default network. Services without a common network do not reach each
//! other. A further network `back` of the environment `shop` is `argusai-shop_back` on the engine. An external network has the name of
//! the file, and Argus neither creates nor removes it.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::suggestion::nearest;
use argus_crds::{Container, Diagnostic, E2eSpec, Network};
use serde::{Deserialize, Serialize};

use crate::desired::admit::SpecContext;
use crate::desired::aliases::check_alias;
use crate::desired::identity::{EnvIdentity, check_resource_name, shown};
use crate::desired::volumes::engine_name;
use crate::desired::{Accepted, Desired, Service};
use crate::ident::{EnvName, ResourceName, ServiceName};

/// Name in a file of the network of services that list no networks.
pub const DEFAULT: &str = "default";
/// Predefined networks of the engine, which an environment cannot use.
const RESERVED: [&str; 5] = ["host", "none", "bridge", "default", "podman"];

/// Further network of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNetwork {
    /// Name on the engine.
    pub name: ResourceName,
    /// True if its containers cannot reach other networks through it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
}

/// One network of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvNetwork<'a> {
    /// Name in the file; `None` for the default network.
    pub key: Option<&'a ResourceName>,
    /// Name on the engine.
    pub name: &'a ResourceName,
    /// True if its containers cannot reach other networks through it.
    pub internal: bool,
    /// True if Argus neither creates nor removes it.
    pub external: bool,
}

impl EnvNetwork<'_> {
    /// Returns the name in the file.
    pub fn written(&self) -> &str {
        self.key.map_or(DEFAULT, ResourceName::as_str)
    }

    /// Returns the path of its name in a file.
    pub fn name_path(&self) -> String {
        match self.key {
            None => "network.name".to_owned(),
            Some(key) => format!("networks.{key}.name"),
        }
    }

    /// Returns whether Argus derived its name, and can therefore replace it.
    pub fn is_derived(&self, accepted: &Accepted) -> bool {
        !self.external
            && match self.key {
                None => !accepted.lines.has_value("network.name"),
                Some(key) => engine_name(&accepted.desired.env, key.as_str()).as_ref() == Some(self.name),
            }
    }
}

impl Desired {
    /// Returns all networks of the file, the default network first.
    pub fn declared_networks(&self) -> impl Iterator<Item = EnvNetwork<'_>> {
        let default = (None, &self.network, self.internal);
        let further = self.networks.iter();
        let further = further.map(|(key, network)| (Some(key), &network.name, network.internal));
        let all = [default].into_iter().chain(further);
        all.map(move |(key, name, internal)| EnvNetwork {
            key,
            name,
            internal,
            external: self.external_networks.contains(name),
        })
    }

    /// Returns the networks of its services, the default network first.
    pub fn used_networks(&self) -> impl Iterator<Item = EnvNetwork<'_>> {
        let is_used =
            move |network: &EnvNetwork<'_>| self.services.values().any(|service| service.is_on(network));
        self.declared_networks().filter(is_used)
    }

    /// Returns the networks of a service, the default network first.
    pub fn networks_of(&self, service: &Service) -> impl Iterator<Item = EnvNetwork<'_>> {
        self.declared_networks()
            .filter(move |network| service.is_on(network))
    }

    /// Gives networks other names on the engine.
    pub fn rename_networks(&mut self, rename: impl Fn(&ResourceName) -> Option<ResourceName>) {
        let further = self.networks.values_mut().map(|network| &mut network.name);
        for name in further.chain([&mut self.network]) {
            if let Some(new) = rename(name) {
                *name = new;
            }
        }
    }
}

impl Service {
    /// Returns the service whose network it shares; `None` for a service with its own addresses.
    pub fn network_owner(&self) -> Option<&ServiceName> {
        Some(&self.process.shared_network.as_ref()?.owner)
    }

    /// Returns whether the service is on a network of its environment.
    pub fn is_on(&self, network: &EnvNetwork<'_>) -> bool {
        match network.key {
            _ if self.network_owner().is_some() => false,
            None if self.networks.is_empty() => true,
            _ => self.networks.contains_key(network.written()),
        }
    }

    /// Returns whether two services of one environment have a common network.
    pub fn shares_network(&self, other: &Self) -> bool {
        let is_on_default =
            |service: &Self| service.networks.is_empty() || service.networks.contains_key(DEFAULT);
        if self.network_owner().or(other.network_owner()).is_some() {
            return false;
        }
        (is_on_default(self) && is_on_default(other))
            || self.networks.keys().any(|key| other.networks.contains_key(key))
    }

    /// Returns its aliases on a network, without its name.
    pub fn aliases_on(&self, network: &EnvNetwork<'_>) -> impl Iterator<Item = &String> {
        let own = self.networks.get(network.written()).into_iter().flatten();
        self.aliases.iter().chain(own)
    }

    /// Returns its aliases on all networks, without its name.
    pub fn all_aliases(&self) -> impl Iterator<Item = &String> {
        self.aliases.iter().chain(self.networks.values().flatten())
    }
}

/// Networks of a file with their names on the engine.
#[derive(Debug)]
pub(super) struct Networks {
    pub(super) default: ResourceName,
    pub(super) further: BTreeMap<ResourceName, NamedNetwork>,
    pub(super) external: BTreeSet<ResourceName>,
}

/// Returns the networks of the file, and reports invalid ones. `None` without a valid name of the default network.
pub(super) fn resolve(
    spec: &E2eSpec,
    identity: &EnvIdentity,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Networks> {
    let mut external = BTreeSet::new();
    let default = resolve_one(&spec.network, "network", context, diagnostics, || {
        identity.network_name()
    });
    if spec.network.external {
        if spec.network.name.is_none() {
            let hint = "write its name under `network.name`, or omit `external`";
            diagnostics
                .push(Diagnostic::error("network.external", "an external network needs a `name`").hint(hint));
        }
        external.extend(default.clone());
    }
    let mut further = BTreeMap::new();
    for (text, network) in &spec.networks {
        let path = format!("networks.{text}");
        if text == DEFAULT {
            let message = "`default` is the network of services that list no networks";
            diagnostics.push(Diagnostic::error(path, message).hint("write its settings under `network`"));
            continue;
        }
        if !is_listed(spec, text) {
            let message = format!("no container is on the network `{}`", shown(text));
            let hint = "list it under `networks` of a container, or remove the entry";
            diagnostics.push(Diagnostic::warning(&path, message).hint(hint));
        }
        let key = check_resource_name(text, "network", &path, diagnostics);
        let derived = || {
            let own = (!network.external).then(|| engine_name(&identity.env, text));
            own.flatten()
                .map_or_else(|| text.clone(), |name| name.to_string())
        };
        let name = key
            .as_ref()
            .and_then(|_| resolve_one(network, &path, context, diagnostics, derived));
        let (Some(key), Some(name)) = (key, name) else {
            continue;
        };
        let mut names = further
            .values()
            .map(|other: &NamedNetwork| &other.name)
            .chain(&default);
        if names.any(|other| *other == name) {
            let message = format!("two networks have the name `{name}` on the engine");
            diagnostics.push(Diagnostic::error(&path, message).hint("give each network a unique `name`"));
        }
        if network.external {
            external.insert(name.clone());
        }
        let internal = network.internal && !network.external;
        further.insert(key, NamedNetwork { name, internal });
    }
    Some(Networks {
        default: default?,
        further,
        external,
    })
}

/// Returns the name of a network on the engine: the one in the file, else the derived one.
///
/// An external network can belong to another project, so a project that is not allowed cannot have one.
fn resolve_one(
    network: &Network,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
    derived: impl FnOnce() -> String,
) -> Option<ResourceName> {
    if network.external {
        if !context.host.allowed {
            let message = "the network is external to the environment";
            let hint = "POLICY_VIOLATION: run `argus allow` and restart the controller, or omit `external`";
            diagnostics.push(Diagnostic::error(format!("{path}.external"), message).hint(hint));
        }
        if network.internal {
            let message = "`internal` has no effect on an external network";
            let warning = Diagnostic::warning(format!("{path}.internal"), message);
            diagnostics.push(warning.hint("remove it, because the network exists already"));
        }
    }
    let name_path = format!("{path}.name");
    let (text, place) = match &network.name {
        Some(text) => (text.clone(), name_path.as_str()),
        None if path == "network" => (derived(), "project.name"),
        None => (derived(), path),
    };
    if RESERVED.contains(&text.as_str()) {
        let message = format!("`{text}` is a predefined network of the engine");
        let hint = match network.name {
            Some(_) => format!("POLICY_VIOLATION: choose another name, or omit `{name_path}`"),
            None => "POLICY_VIOLATION: choose another name".to_owned(),
        };
        diagnostics.push(Diagnostic::error(place, message).hint(hint));
        return None;
    }
    check_resource_name(&text, "network", place, diagnostics)
}

/// Returns whether a service or mock lists a network.
fn is_listed(spec: &E2eSpec, name: &str) -> bool {
    let services = spec.declared_services().into_iter();
    let mut containers = services.filter_map(|declared| declared.service.container.as_ref());
    let mut mocks = spec.mocks.values();
    containers.any(|container| container.networks.contains_key(name))
        || mocks.any(|mock| mock.networks.iter().any(|listed| listed == name))
}

/// Returns the networks of a container with its aliases there, and reports invalid ones.
pub(super) fn attachments(
    container: &Container,
    path: &str,
    identity: &EnvIdentity,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ResourceName, Vec<String>> {
    let listed = container.networks.iter();
    let listed = listed.map(|(name, settings)| (name.as_str(), settings.aliases.as_slice()));
    resolve_attachments(listed, path, identity, diagnostics)
}

/// Like [`attachments`], for networks with their aliases.
pub(super) fn resolve_attachments<'a>(
    listed: impl Iterator<Item = (&'a str, &'a [String])>,
    path: &str,
    identity: &EnvIdentity,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ResourceName, Vec<String>> {
    let mut found = BTreeMap::new();
    for (text, aliases) in listed {
        let known = text == DEFAULT || identity.networks.contains(text);
        let Some(name) = ResourceName::new(text).ok().filter(|_| known) else {
            let message = format!("the file declares no network `{}`", shown(text));
            let hint = match nearest(text, identity.networks.iter().map(String::as_str)) {
                Some(near) => format!("write `{near}`, or declare it under the top-level `networks`"),
                None => "declare it under the top-level `networks`".to_owned(),
            };
            diagnostics.push(Diagnostic::error(format!("{path}.{text}"), message).hint(hint));
            continue;
        };
        let mut valid = Vec::new();
        for (index, alias) in aliases.iter().enumerate() {
            let place = format!("{path}.{text}.aliases[{index}]");
            if check_alias(alias, &place, diagnostics) && !valid.contains(alias) {
                valid.push(alias.clone());
            }
        }
        found.insert(name, valid);
    }
    // The same container as without the key.
    if found.len() == 1 && found.get(DEFAULT).is_some_and(Vec::is_empty) {
        found.clear();
    }
    found
}

/// Returns the names of the further networks of a file.
pub(super) fn names(spec: &E2eSpec) -> BTreeSet<String> {
    spec.networks.keys().cloned().collect()
}

/// Returns the name of a network in a fork; `None` for an external network, which both use.
pub(super) fn forked_name(desired: &Desired, name: &ResourceName, to: &EnvName) -> Option<ResourceName> {
    let network = desired.declared_networks().find(|network| network.name == name)?;
    match network.key {
        _ if network.external => None,
        None => ResourceName::new(format!("argusai-{to}-network")).ok(),
        Some(key) => engine_name(to, key.as_str()),
    }
}

#[cfg(test)]
#[path = "networks_tests.rs"]
mod tests;
