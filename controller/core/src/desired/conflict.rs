//! Conflicts between spec files: names that another accepted file already uses.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::Diagnostic;

use crate::desired::{Accepted, Desired};
use crate::ident::{EnvName, ResourceName};

/// Returns a diagnostic for every environment, container, network or volume name that another accepted file uses.
///
/// The file that was accepted first keeps its names, and the candidate is rejected (`SPEC_CONFLICT`). An earlier
/// revision of the same file does not conflict. Equal host ports conflict only if neither file allows another port,
/// which the planner detects later.
pub fn conflicts(
    accepted: &BTreeMap<EnvName, Accepted>,
    candidate: &Desired,
    candidate_path: &str,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (env, accepted_file) in accepted
        .iter()
        .filter(|(_, accepted)| accepted.spec_path != candidate_path)
    {
        let file = &accepted_file.spec_path;
        let mut reject = |path: &str, message: String, fix: &str| {
            let hint = format!("SPEC_CONFLICT: {fix}, or remove `{file}`");
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
        };
        if *env == candidate.env {
            let message = format!("environment `{env}` is already defined by `{file}`");
            reject(
                identity_path(candidate),
                message,
                "set a different `isolation.namespace`",
            );
            // All other names would conflict as well, and the same fix resolves that.
            continue;
        }
        let other = &accepted_file.desired;
        let containers: BTreeSet<&ResourceName> = other
            .services
            .values()
            .map(|service| &service.container_name)
            .collect();
        for service in candidate
            .services
            .values()
            .filter(|service| containers.contains(&service.container_name))
        {
            let message = format!(
                "the container name `{}` of service `{}` is in use by environment `{env}` in `{file}`",
                service.container_name, service.name
            );
            reject(
                &format!("services.{}.container.name", service.name),
                message,
                "rename the container",
            );
        }
        if other.network == candidate.network {
            let message = format!(
                "the network `{}` is in use by environment `{env}` in `{file}`",
                other.network
            );
            reject("network.name", message, "choose another `network.name`");
        }
        if let Some(path) = &candidate.env_file
            && other.env_file.as_ref() == Some(path)
        {
            let message = format!("the file `{path}` is in use by environment `{env}` in `{file}`");
            reject("argus.envFile", message, "choose another `argus.envFile`");
        }
        for volume in candidate
            .volumes
            .iter()
            .filter(|volume| other.volumes.contains(volume))
        {
            let message = format!("the volume `{volume}` is in use by environment `{env}` in `{file}`");
            reject("", message, "rename the volume");
        }
    }
    diagnostics
}

fn identity_path(candidate: &Desired) -> &'static str {
    match EnvName::slug(&candidate.project) {
        Ok(slug) if slug == candidate.env => "project.name",
        _ => "isolation.namespace",
    }
}
