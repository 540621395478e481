//! Whom a container reaches, seen by a helper in its network.

use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::helper::{self, From};

/// One answer an aim, in their order.
pub(crate) async fn check(
    shared: &Shared,
    source: &ContainerId,
    targets: &[Target],
) -> Result<Vec<TargetResult>, ActionError> {
    let target = |aim: &Target| match aim.port {
        Some(port) => format!("{}:{port}", aim.host),
        None => aim.host.clone(),
    };
    let command = ["probe", "links"].map(str::to_owned);
    let command = command.into_iter().chain(targets.iter().map(target)).collect();
    let said = helper::run(shared, From::Container(source), command).await?;
    match serde_json::from_str::<Vec<TargetResult>>(&said) {
        Ok(seen) if seen.len() == targets.len() => Ok(seen),
        Ok(_) | Err(_) => Err(ActionError::Unknown(format!(
            "a helper said nothing of use: `{}`",
            said.chars().take(200).collect::<String>()
        ))),
    }
}
