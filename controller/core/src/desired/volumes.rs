//! Names of volumes on the engine.
//!
//! Each environment has its own volumes: `data` of the environment `shop` is `argusai-shop_data`. Compose would use `shop_data`, which
//! belongs to Compose if the project ran with it. Earlier versions used `data`, with a namespace as a suffix. An engine cannot rename a
//! volume, so a volume of the environment with such a name stays in use, see [`Accepted::with_present_volumes`]. A volume with
//! `external: true` has the name of the file.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::{Diagnostic, E2eSpec};

use crate::desired::admit::SpecContext;
use crate::desired::hash::hash_of;
use crate::desired::host::is_bind;
use crate::desired::identity::{EnvIdentity, check_resource_name, shown};
use crate::desired::{Accepted, Desired, Mount};
use crate::ident::{EnvName, ResourceName};

/// Names of external volumes on the engine, by their name in the file.
pub(super) type ExternalVolumes = BTreeMap<String, ResourceName>;

/// Returns the common prefix of the volumes of an environment. Its name contains no `_`, so two environments share no volume.
pub(super) fn prefix(env: &EnvName) -> String {
    format!("argusai-{env}_")
}

/// Returns the name of a volume on the engine. A name that is too long for an engine is replaced with its hash.
pub(super) fn engine_name(env: &EnvName, text: &str) -> Option<ResourceName> {
    let prefix = prefix(env);
    ResourceName::new(format!("{prefix}{text}"))
        .or_else(|_| ResourceName::new(format!("{prefix}{}", hash_of(text))))
        .ok()
}

/// Returns the external volumes of the file, and reports invalid ones.
///
/// An external volume can belong to another project, so a project that is not allowed can have only those that the operator names.
pub(super) fn external(
    spec: &E2eSpec,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> ExternalVolumes {
    let mounted: BTreeSet<&str> = mounted_volumes(spec).collect();
    let mut found = ExternalVolumes::new();
    for (text, volume) in &spec.volumes {
        let path = format!("volumes.{text}");
        if !mounted.contains(text.as_str()) {
            let message = format!("no container mounts the volume `{}`", shown(text));
            diagnostics.push(Diagnostic::warning(&path, message).hint("mount it, or remove the entry"));
        }
        let name = volume.name.as_deref();
        if !volume.external {
            if name.is_some() {
                let message = "only an external volume can have a `name`";
                let hint = "add `external: true`, or omit `name`";
                diagnostics.push(Diagnostic::error(format!("{path}.name"), message).hint(hint));
            }
            continue;
        }
        if !context.host.allowed && !context.host.external_volumes.contains(name.unwrap_or(text)) {
            let message = format!("the volume `{}` is external to the environment", shown(text));
            let hint = "POLICY_VIOLATION: run `argus allow` and restart the controller, start it with `--allow-external NAME`, or omit `external`";
            diagnostics.push(Diagnostic::error(format!("{path}.external"), message).hint(hint));
        }
        let path = if name.is_some() {
            format!("{path}.name")
        } else {
            path
        };
        if let Some(name) = check_resource_name(name.unwrap_or(text), "volume", &path, diagnostics) {
            found.insert(text.clone(), name);
        }
    }
    found
}

/// Returns the names of volumes in earlier versions, by their name on the engine.
pub(super) fn former_names(spec: &E2eSpec, identity: &EnvIdentity) -> BTreeMap<ResourceName, ResourceName> {
    let own = mounted_volumes(spec).filter(|text| !identity.external_volumes.contains_key(*text));
    let names = own.filter_map(|text| {
        let former = match &identity.namespace {
            Some(namespace) => format!("{text}-{namespace}"),
            None => text.to_owned(),
        };
        Some((engine_name(&identity.env, text)?, ResourceName::new(former).ok()?))
    });
    names.collect()
}

/// Returns the names of the volumes that containers mount, as in the file.
fn mounted_volumes(spec: &E2eSpec) -> impl Iterator<Item = &str> {
    let services = spec.declared_services().into_iter();
    let containers = services.filter_map(|declared| declared.service.container.as_ref());
    let texts = containers
        .flat_map(|container| &container.volumes)
        .chain(spec.mocks.values().flat_map(|mock| &mock.volumes));
    let sources = texts.filter_map(|text| text.trim().split(':').next());
    sources.filter(|source| !source.is_empty() && !is_bind(source))
}

impl Desired {
    /// Returns a copy whose volumes have other names on the engine.
    pub(super) fn with_volumes(&self, rename: impl Fn(&ResourceName) -> ResourceName) -> Self {
        let mut renamed = self.clone();
        let volumes: BTreeSet<ResourceName> = self.volumes.iter().map(&rename).collect();
        renamed.volumes = volumes.into_iter().collect();
        for service in renamed.services.values_mut() {
            for mount in &mut service.mounts {
                if let Mount::Volume { name, .. } = mount {
                    *name = rename(name);
                }
            }
        }
        renamed
    }

    /// Returns a copy with the names of earlier versions, for hashes that an upgrade must not change.
    pub(super) fn with_former_volumes(&self) -> Self {
        let former = |name: &ResourceName| self.former_volumes.get(name).unwrap_or(name).clone();
        Self {
            former_volumes: BTreeMap::new(),
            ..self.with_volumes(former)
        }
    }

    /// Returns the name of a volume in the file. That of a long name is a hash.
    pub(crate) fn volume_key<'a>(&self, name: &'a ResourceName) -> Option<&'a str> {
        name.as_str().strip_prefix(prefix(&self.env).as_str())
    }

    /// Returns the name of a volume in use: the former one if the environment has only the volume with that name.
    pub(crate) fn present_volume<'a>(
        &'a self,
        name: &'a ResourceName,
        exists: impl Fn(&ResourceName) -> bool,
    ) -> &'a ResourceName {
        let former = self.former_volumes.get(name);
        former
            .filter(|former| exists(former) && !exists(name) && !self.volumes.contains(former))
            .unwrap_or(name)
    }
}

impl Accepted {
    /// Returns a copy that uses the volumes of an earlier version, or those of the Compose project of the environment; `None` without any.
    ///
    /// `of_compose` returns the name on the engine of a volume of that project, by its name in the file. The file of any repository can
    /// have the name of the project, so only an allowed project receives the data.
    pub(crate) fn with_present_volumes<'a>(
        &self,
        exists: impl Fn(&ResourceName) -> bool,
        of_compose: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Self> {
        let desired = &self.desired;
        let compose = |name: &ResourceName| {
            let is_free = self.allowed && !exists(name) && !desired.external_volumes.contains(name);
            let key = desired.volume_key(name).filter(|_| is_free)?;
            ResourceName::new(of_compose(key)?).ok()
        };
        let present = |name: &ResourceName| {
            let known = desired.present_volume(name, &exists);
            let other = (known == name).then(|| compose(name)).flatten();
            other.unwrap_or_else(|| known.clone())
        };
        let volumes = desired.volumes.iter();
        let others: Vec<(&ResourceName, ResourceName)> = volumes
            .map(|name| (name, present(name)))
            .filter(|(name, other)| *name != other)
            .collect();
        if others.is_empty() {
            return None;
        }
        let mut renamed = desired.with_volumes(present);
        let external = others
            .into_iter()
            .filter(|(name, other)| compose(name).as_ref() == Some(other));
        // Argus neither labels nor removes the volumes of Compose.
        renamed.external_volumes.extend(external.map(|(_, other)| other));
        Some(Self {
            desired: renamed,
            ..self.clone()
        })
    }
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
