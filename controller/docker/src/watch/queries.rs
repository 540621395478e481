//! The read calls of the watch: the list of all labelled objects, the inspect of one object, and the connection test.

use std::collections::HashMap;
use std::sync::Arc;

use argus_core::labels::MANAGED;
use argus_core::observed::{Container, ContainerState, Network, Object, ObjectId, Volume};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, ListVolumesOptionsBuilder,
};

use bollard::errors::Error;
use futures::FutureExt;

use super::unreadable::{ListError, Unreadable};
use crate::Shared;
use crate::call::{self, READ_TIMEOUT};
use crate::error::Op;
use crate::inspect::{self, Listed};
use crate::ownership;

/// All objects with our label.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) containers: Vec<Listed>,
    pub(super) networks: Vec<Network>,
    pub(super) volumes: Vec<Volume>,
}

/// Lists containers (also stopped ones), networks and volumes in parallel.
pub(super) async fn list(client: bollard::Docker) -> Result<Listing, ListError> {
    let ours = format!("{MANAGED}=true");
    let filters = HashMap::from([("label", vec![ours.as_str()])]);
    let containers = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let networks = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let volumes = ListVolumesOptionsBuilder::default().filters(&filters).build();
    let (containers, networks, volumes) = futures::try_join!(
        list_of(
            &client,
            "the list of containers",
            client.list_containers(Some(containers))
        ),
        list_of(
            &client,
            "the list of networks",
            client.list_networks(Some(networks))
        ),
        list_of(&client, "the list of volumes", client.list_volumes(Some(volumes))),
    )?;
    Ok(Listing {
        containers: containers
            .into_iter()
            .filter_map(inspect::convert_summary)
            .collect(),
        networks: networks
            .into_iter()
            .filter_map(inspect::convert_network)
            .collect(),
        volumes: volumes
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(inspect::convert_volume)
            .collect(),
    })
}

/// Waits for one list, and describes a response that Argus cannot read.
async fn list_of<T>(
    client: &bollard::Docker,
    what: &str,
    list: impl Future<Output = Result<T, Error>>,
) -> Result<T, ListError> {
    let read = list.map(|result| match result {
        Ok(list) => Ok(Ok(list)),
        Err(error) => Unreadable::of(&error).map_or(Err(error), |unreadable| Ok(Err(unreadable))),
    });
    match call::run(Op::List, READ_TIMEOUT, read).await {
        Ok(Ok(list)) => Ok(list),
        Ok(Err(unreadable)) => Err(ListError::Unreadable(unreadable.describe(what, client).await)),
        Err(error) => Err(ListError::Failed(error)),
    }
}

/// Checks that the engine responds to a ping and, if `must_list`, to a list of at most one container. Returns the start
/// time of the engine, if it is known.
pub(super) async fn test_connection(
    shared: &Shared,
    client: bollard::Docker,
    must_list: bool,
) -> Result<Option<Timestamp>, ActionError> {
    call::ping(shared).await?;
    if must_list {
        let one = ListContainersOptionsBuilder::default().limit(1).build();
        call::run(Op::List, READ_TIMEOUT, client.list_containers(Some(one))).await?;
    }
    Ok(engine_started_at(&client).await)
}

/// Start time of the engine. No call reports it, but the engine creates its default network at each start that ends the
/// containers. With live restore, the network and the containers remain.
async fn engine_started_at(client: &bollard::Docker) -> Option<Timestamp> {
    let bridge = client.inspect_network("bridge", None);
    let found = call::run(Op::Inspect, READ_TIMEOUT, bridge).await.ok()?;
    Some(inspect::convert_network_inspect(found)?.created_at)
}

/// Inspects one object; `None` when it does not exist or does not carry our label.
pub(super) async fn inspect(
    client: bollard::Docker,
    shared: Arc<Shared>,
    id: ObjectId,
) -> (ObjectId, Result<Option<Object>, ActionError>) {
    let found = match &id {
        ObjectId::Container(id) => {
            let call = call::run_raw(
                Op::Inspect,
                READ_TIMEOUT,
                client.inspect_container(id.as_str(), None),
            )
            .await;
            match call {
                Ok(found) => {
                    let pid = found.state.as_ref().and_then(|state| state.pid);
                    let image = found.image.clone().unwrap_or_default();
                    Ok(match inspect::convert_inspect(found) {
                        Some(container)
                            if ownership::has_inherited_labels(&shared, &container, &image).await =>
                        {
                            None
                        }
                        Some(mut container) => {
                            shared.limits.complete(&mut container);
                            ownership::read_build(&shared, &mut container, &image).await;
                            track_memory(&shared, &container, pid);
                            Some(Object::Container(Arc::new(container)))
                        }
                        None => None,
                    })
                }
                Err(error) => Err(error),
            }
        }
        ObjectId::Network(id) => {
            let call = call::run_raw(
                Op::Inspect,
                READ_TIMEOUT,
                client.inspect_network(id.as_str(), None),
            )
            .await;
            call.map(|found| {
                inspect::convert_network_inspect(found).map(|mut network| {
                    network.is_broken = shared.bridges.is_any_missing([&network.id]);
                    Object::Network(Arc::new(network))
                })
            })
        }
        ObjectId::Volume(name) => {
            let call = call::run_raw(Op::Inspect, READ_TIMEOUT, client.inspect_volume(name)).await;
            call.map(|found| Some(Object::Volume(Arc::new(inspect::convert_volume(found)))))
        }
    };
    let found = match found {
        Ok(found) => Ok(found.filter(is_managed)),
        Err(error) if error.has_status(404) => Ok(None),
        Err(error) => Err(error.classify(Op::Inspect)),
    };
    (id, found)
}

/// Starts to sample the memory of a running container, for later evidence and warnings.
fn track_memory(shared: &Shared, container: &Container, pid: Option<i64>) {
    let info = container
        .inspect
        .as_ref()
        .filter(|_| container.state == ContainerState::Running);
    if let (Some(info), Some(pid)) = (info, pid) {
        let limit = Some(info.config.memory).filter(|limit| *limit > 0);
        shared.peaks.track(&container.id, pid, info.started_at, limit);
    }
}

fn is_managed(object: &Object) -> bool {
    let labels = match object {
        Object::Container(container) => &container.labels,
        Object::Network(network) => &network.labels,
        Object::Volume(volume) => &volume.labels,
    };
    labels.get(MANAGED).is_some_and(|value| value == "true")
}
