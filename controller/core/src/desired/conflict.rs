//! What a file wants that another accepted file already holds.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::Diagnostic;

use crate::desired::{Accepted, Desired};
use crate::ident::{EnvName, ResourceName};

/// All claims of a candidate on what other accepted files hold: its identity, container names, network and volumes.
///
/// The file accepted first keeps what it has, so the candidate is the one that is refused (`SPEC_CONFLICT`). An earlier
/// revision of the same file holds nothing against it. A host port that two files want is an error only where neither
/// of them lets it move, which shows at start and not here.
pub fn conflicts(
    accepted: &BTreeMap<EnvName, Accepted>,
    candidate: &Desired,
    candidate_path: &str,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (env, holder) in accepted
        .iter()
        .filter(|(_, other)| other.spec_path != candidate_path)
    {
        let file = &holder.spec_path;
        let mut refuse = |path: &str, message: String, remedy: &str| {
            let hint = format!("SPEC_CONFLICT: {remedy}, or remove `{file}`");
            found.push(Diagnostic::error(path, message).hint(hint));
        };
        if *env == candidate.env {
            let message = format!("environment `{env}` is already described by `{file}`");
            refuse(
                identity_path(candidate),
                message,
                "give this one an `isolation.namespace` of its own",
            );
            // Everything else would collide with it too, and goes away with the same remedy.
            continue;
        }
        let held = &holder.desired;
        let containers: BTreeSet<&ResourceName> = held
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
                "the container name `{}` of service `{}` is held by environment `{env}` in `{file}`",
                service.container_name, service.name
            );
            refuse(
                &format!("services.{}.container.name", service.name),
                message,
                "rename the container",
            );
        }
        if held.network == candidate.network {
            let message = format!(
                "the network `{}` is held by environment `{env}` in `{file}`",
                held.network
            );
            refuse("network.name", message, "choose another `network.name`");
        }
        for volume in candidate
            .volumes
            .iter()
            .filter(|volume| held.volumes.contains(volume))
        {
            let message = format!("the volume `{volume}` is held by environment `{env}` in `{file}`");
            refuse("", message, "rename the volume");
        }
    }
    found
}

fn identity_path(candidate: &Desired) -> &'static str {
    match EnvName::slug(&candidate.project) {
        Ok(slug) if slug == candidate.env => "project.name",
        _ => "isolation.namespace",
    }
}
