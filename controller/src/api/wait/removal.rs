//! Removal of environments through the running controller.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};

use super::goal;
use super::goal::WaitGoal;
use crate::api::commands::Down;
use crate::api::target::Target;
use crate::api::{Context, Operation as _};
use crate::exit::Failure;
use crate::status;

/// Removes environments, with their named volumes on request, and waits until they are gone. A failure does not keep the others.
pub(crate) async fn remove_environments(
    context: &Context,
    names: &[String],
    volumes: bool,
    timeout: Duration,
) -> Result<(), Failure> {
    let mut failed = None;
    for environment in names.iter().cloned() {
        let down = Down { environment, volumes };
        let removed = down.run(context).await;
        failed = failed.or(removed.err());
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let client = &context.client;
    let known = status::read_controller(client.state())?.unwrap_or_default();
    if known.engine.is_some_and(|engine| !engine.reachable) {
        let mut errors = known.errors.into_iter();
        if let Some(refusal) = errors
            .clone()
            .find(|error| error.code == Code::DockerPermissionDenied)
        {
            return Err(Failure::new(refusal));
        }
        let outage = errors.find(|error| error.code == Code::DockerUnavailable);
        let message = "the engine does not answer; Argus removes the environments when it is back";
        // The status error contains the reconnect attempts and the time of the next one.
        return Err(Failure::new(StructuredError {
            message: message.to_owned(),
            ..outage.unwrap_or_else(|| StructuredError::new(Code::DockerUnavailable, message))
        }));
    }
    let targets: Vec<Target> = names.iter().map(Target::environment).collect();
    goal::wait_until(client, Some(&targets), WaitGoal::Gone, timeout, |_| {})
        .await
        .map(drop)
}
