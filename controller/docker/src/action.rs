//! Every action as exactly one change of the engine, with the reads that make the action idempotent.
//! Invariant 7: every action can be repeated without harm.

mod binds;
mod container;
mod container_links;
pub(crate) mod mounts;
#[cfg(test)]
mod mounts_tests;
mod network;
mod volume;

use argus_backend::Progress;
use argus_core::action::Action;
use argus_core::desired::PullPolicy;
use argus_core::failed_run::FailureCause;
use argus_core::outcome::{ActionError, Done};

use crate::Shared;
use crate::evidence;
use crate::image;

pub(crate) use container::pause;

/// Performs one action. A state that is already reached is a success.
pub(crate) async fn execute(
    shared: &Shared,
    action: &Action,
    progress: &dyn Progress,
) -> Result<Done, ActionError> {
    let result = match action {
        Action::CreateNetwork {
            name, external: true, ..
        } => network::check_external(shared, name).await,
        Action::CreateNetwork { name, labels, .. } => network::create(shared, name, labels).await,
        Action::RemoveNetwork { id, name: _ } => network::remove(shared, id).await,
        Action::ConnectNetwork {
            network,
            container,
            aliases,
            external,
        } => network::connect(shared, network, container, aliases, *external).await,
        Action::DisconnectNetwork { network, container } => {
            network::disconnect(shared, network, container).await
        }
        Action::CreateVolume {
            name, external: true, ..
        } => volume::find(shared, name).await,
        Action::CreateVolume { name, labels, .. } => volume::create(shared, name, labels).await,
        Action::RemoveVolume { name } => volume::remove(shared, name).await,
        Action::PullImage {
            reference,
            policy: PullPolicy::Never,
        } => image::pull::check_local(shared, reference).await,
        Action::PullImage { reference, .. } => image::pull::pull(shared, reference, progress).await,
        Action::BuildImage(build) => {
            let done = image::build::build(shared, build, progress).await?;
            shared.build_cleanup.request(&build.tag);
            Ok(done)
        }
        Action::CreateContainer { name, spec } => container::create(shared, name, spec).await,
        Action::CollectEvidence {
            run,
            lines_since,
            port,
            http,
            ..
        } => {
            let run = evidence::Run {
                id: &run.container,
                since: run.started_at,
                lines_since: *lines_since,
                ended_at: run.ended_at(),
                is_running: run.cause == FailureCause::Unhealthy,
                port: *port,
                http: *http,
            };
            evidence::collect(shared, run).await
        }
        Action::CopyFile { id, files } => container::copy_files(shared, id, files).await,
        Action::StartContainer { id } => container::start(shared, id).await,
        Action::StopContainer { id, grace } => container::stop(shared, id, *grace).await,
        Action::UnpauseContainer { id } => container::unpause(shared, id).await,
        Action::RenameContainer { id, to } => container::rename(shared, id, to).await,
        Action::RemoveContainer { id, name: _ } => container::remove(shared, id).await,
    };
    if let Err(ActionError::NetworkGone(message)) = &result
        && shared.bridges.on_refusal(message)
    {
        // The list reports the network as broken.
        shared.relist.notify_one();
    }
    result
}
