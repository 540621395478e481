//! Conflicts between spec files: names that another accepted file already uses, and mounts that it can replace.

use argus_crds::{Diagnostic, OtherFile, SpecEdit};

use crate::desired::nested_mounts::{self, MountPlaces, WritableMounts};
use crate::desired::networks::EnvNetwork;
use crate::desired::{Accepted, Desired};
use crate::ident::{EnvName, ResourceName};

/// Admitted environment that is compared with accepted ones.
pub struct Candidate<'a> {
    pub(super) desired: &'a Desired,
    path: &'a str,
    pub(super) mounts: &'a MountPlaces,
    pub(super) allowed: bool,
    pub(super) writable: WritableMounts<'a>,
    is_compose: bool,
}

impl<'a> Candidate<'a> {
    /// Creates a candidate of the file at `path`, of an `allowed` project if a person trusts it.
    pub fn new(desired: &'a Desired, path: &'a str, mounts: &'a MountPlaces, allowed: bool) -> Self {
        Self {
            writable: WritableMounts::of(desired.services.values()),
            desired,
            path,
            mounts,
            allowed,
            is_compose: false,
        }
    }

    /// Returns the candidate with the kind of its file. The keys of a Compose file have other names.
    #[must_use]
    pub fn of_compose(self, is_compose: bool) -> Self {
        Self { is_compose, ..self }
    }
}

/// Returns a diagnostic for every environment, container or network name that an accepted file uses, and for each mount
/// that a container of one of the two files can replace.
///
/// The file that was accepted first keeps its names, and the candidate is rejected (`SPEC_CONFLICT`). An earlier
/// revision of the same file does not conflict. Equal host ports conflict only if neither file allows another port,
/// which the planner detects later. Without a conflict, the cost is small, because a folder can contain thousands of files.
pub fn conflicts(existing: &Accepted, candidate: &Candidate<'_>) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let (file, other, desired) = (&existing.spec_path, &existing.desired, candidate.desired);
    if file == candidate.path {
        return diagnostics;
    }
    let env = &other.env;
    let lines = &existing.lines;
    let mut reject = |path: &str, message: String, fix: &str, holder: SpecEdit| {
        let hint = format!("SPEC_CONFLICT: {fix}, or remove `{file}`");
        let diagnostic = Diagnostic::error(path, message).hint(hint);
        diagnostics.push(diagnostic.conflicts_with(OtherFile {
            file: file.clone(),
            path: holder.key,
            line: holder.line.or(lines.project()),
        }));
    };
    if *env == desired.env {
        let message = format!("environment `{env}` is already defined by `{file}`");
        let fix = if candidate.is_compose {
            "set a different `name` at the top of the file, pass `--project-name`"
        } else {
            "set a different `isolation.namespace`"
        };
        reject(
            identity_path(desired),
            message,
            fix,
            lines.edit(file, identity_path(other), ""),
        );
        // All other names would conflict as well, and the same fix resolves that.
        return diagnostics;
    }
    let holder_of = |name: &ResourceName| other.services.values().find(|it| it.container_name == *name);
    for service in desired.services.values() {
        let Some(holder) = holder_of(&service.container_name) else {
            continue;
        };
        let message = format!(
            "the container name `{}` of service `{}` is in use by environment `{env}` in `{file}`",
            service.container_name, service.name
        );
        reject(
            &format!("services.{}.container.name", service.name),
            message,
            "rename the container",
            lines.edit_service(file, holder.name.as_str(), "container.name", ""),
        );
    }
    let own = |network: &EnvNetwork<'_>| !network.external;
    for network in desired.declared_networks().filter(own) {
        let mut others = other.declared_networks().filter(own);
        if let Some(other) = others.find(|other| other.name == network.name) {
            let message = format!(
                "the network `{}` is in use by environment `{env}` in `{file}`",
                network.name
            );
            let path = network.name_path();
            let holder = lines.edit(file, &other.name_path(), "");
            reject(&path, message, &format!("choose another `{path}`"), holder);
        }
    }
    if let Some(path) = &desired.env_file
        && other.env_file.as_ref() == Some(path)
    {
        let message = format!("the file `{path}` is in use by environment `{env}` in `{file}`");
        let holder = lines.edit(file, "argus.envFile", "");
        reject("argus.envFile", message, "choose another `argus.envFile`", holder);
    }
    diagnostics.extend(nested_mounts::conflicts(existing, candidate));
    diagnostics
}

fn identity_path(candidate: &Desired) -> &'static str {
    match EnvName::slug(&candidate.project) {
        Ok(slug) if slug == candidate.env => "project.name",
        _ => "isolation.namespace",
    }
}
