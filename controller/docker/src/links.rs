//! Connectivity checks by a helper container in the network namespace of another container, or on its network.

use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::helper::{self, HelperNetwork};

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
        Ok(results) if results.len() == targets.len() => Ok(results),
        Ok(_) | Err(_) => Err(ActionError::Unknown(format!(
            "the output of the helper container is not valid: `{}`",
            output.chars().take(200).collect::<String>()
        ))),
    }
}
