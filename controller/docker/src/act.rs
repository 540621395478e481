//! Every act as exactly one change of the engine, with the looks that make it safe to repeat.

mod container;
mod network;
mod port;
mod volume;

use argus_backend::Progress;
use argus_core::outcome::{ActError, Done};
use argus_core::plan::Act;

use crate::Shared;
use crate::evidence;
use crate::image;

pub(crate) use container::pause;

/// Carries out one act. What is already so is success.
pub(crate) async fn carry_out(shared: &Shared, act: &Act, progress: &dyn Progress) -> Result<Done, ActError> {
    match act {
        Act::CreateNetwork { name, labels } => network::create(shared, name, labels).await,
        Act::RemoveNetwork { id, name: _ } => network::remove(shared, id).await,
        Act::ConnectNetwork {
            network,
            container,
            aliases,
        } => network::connect(shared, network, container, aliases).await,
        Act::DisconnectNetwork { network, container } => {
            network::disconnect(shared, network, container).await
        }
        Act::CreateVolume { name, labels } => volume::create(shared, name, labels).await,
        Act::RemoveVolume { name } => volume::remove(shared, name).await,
        Act::PullImage { reference } => image::pull::pull(shared, reference, progress).await,
        Act::BuildImage(build) => image::build::build(shared, build, progress).await,
        Act::CreateContainer { name, spec } => container::create(shared, name, spec).await,
        Act::KeepEvidence { id, since, port, .. } => {
            let run = evidence::Run {
                id,
                since: *since,
                port: *port,
            };
            evidence::take(shared, run).await
        }
        Act::PlaceFile { id, file } => container::place(shared, id, file).await,
        Act::StartContainer { id } => container::start(shared, id).await,
        Act::StopContainer { id, grace } => container::stop(shared, id, *grace).await,
        Act::UnpauseContainer { id } => container::unpause(shared, id).await,
        Act::RenameContainer { id, to } => container::rename(shared, id, to).await,
        Act::RemoveContainer { id, name: _ } => container::remove(shared, id).await,
    }
}
