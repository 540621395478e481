//! Connectivity checks by a helper container in the network namespace of another container, or on its network.

use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::ident::NetworkId;
use argus_core::outcome::ActionError;
use bollard::models::NetworkInspect;

use crate::Shared;
use crate::helper::{self, HelperNetwork};
use crate::ownership;

/// Maximum number of reported members.
const MAX_MEMBERS: usize = 50;

/// Checks all targets from `source`; one result per target, in the order of `targets`.
pub(crate) async fn check(
    shared: &Shared,
    source: &LinkSource,
    targets: &[Target],
) -> Result<Vec<TargetResult>, ActionError> {
    let argument = |target: &Target| match target.port {
        Some(port) => format!("{}:{port}", target.host),
        None => target.host.clone(),
    };
    let command = ["probe", "links"].map(str::to_owned);
    let command = command.into_iter().chain(targets.iter().map(argument)).collect();
    let network = match source {
        LinkSource::Container(id) => HelperNetwork::Container(id),
        LinkSource::Network { network, extra_hosts } => HelperNetwork::Endpoint { network, extra_hosts },
    };
    let output = helper::run(shared, network, command).await?;
    match serde_json::from_str::<Vec<TargetResult>>(&output) {
        Ok(mut results) if results.len() == targets.len() => {
            if results.iter().any(|result| result.error.is_some()) {
                let members = members(shared, source).await;
                let failed = results.iter_mut().filter(|result| result.error.is_some());
                failed.for_each(|result| result.members.clone_from(&members));
            }
            Ok(results)
        }
        Ok(_) | Err(_) => Err(ActionError::Unknown(format!(
            "the output of the helper container is not valid: `{}`",
            output.chars().take(200).collect::<String>()
        ))),
    }
}

/// Names of all containers on the networks of a source. Parts that the engine does not report are left out: the link failed either way.
async fn members(shared: &Shared, source: &LinkSource) -> Vec<String> {
    let networks: Vec<NetworkId> = match source {
        LinkSource::Network { network, .. } => vec![network.clone()],
        LinkSource::Container(id) => match ownership::inspect_container(shared, id.as_str()).await {
            Ok(Some(found)) => found
                .container
                .networks
                .into_values()
                .filter_map(|at| at.network)
                .collect(),
            Ok(None) | Err(_) => Vec::new(),
        },
    };
    let mut names = Vec::new();
    for network in networks {
        if let Ok(Some(found)) = ownership::inspect_network(shared, network.as_str()).await {
            names.extend(names_of(found));
        }
    }
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_MEMBERS);
    names
}

/// Names of the containers on a network.
fn names_of(network: NetworkInspect) -> impl Iterator<Item = String> {
    let members = network.containers.unwrap_or_default();
    members
        .into_values()
        .filter_map(|member| member.name)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_network_have_any_owner() {
        let found = serde_json::json!({
            "Name": "net", "Id": "n1",
            "Containers": { "c1": { "Name": "shop-web" }, "c2": { "Name": "stranger" }, "c3": { "Name": "" }, "c4": {} },
        });
        let mut names: Vec<_> = names_of(serde_json::from_value(found).unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["shop-web", "stranger"]);
        assert_eq!(names_of(NetworkInspect::default()).count(), 0);
    }
}
