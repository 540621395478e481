//! The read calls of the watch: the list of all labelled objects, the inspect of one object, and the connection test.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use argus_core::labels::{COMPOSE_VOLUME, MANAGED};
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
use crate::call::{self, CallError, CallTimes};
use crate::error::Op;
use crate::inspect::{self, Listed};
use crate::ownership;

/// All objects with our label, and the volumes of Compose.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) containers: Vec<Listed>,
    pub(super) networks: Vec<Network>,
    pub(super) volumes: Vec<Volume>,
}

/// Lists containers (also stopped ones), networks and volumes in parallel.
pub(super) async fn list(client: bollard::Docker, times: CallTimes) -> Result<Listing, ListError> {
    let ours = format!("{MANAGED}=true");
    let filters = HashMap::from([("label", vec![ours.as_str()])]);
    let containers = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let networks = ListNetworksOptionsBuilder::default().filters(&filters).build();
    // The engine combines filters with `and`, and a host can have thousands of other volumes.
    let volumes_with = |label: &str| {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
        let list = client.list_volumes(Some(options));
        list_of(&client, times, "the list of volumes", list)
    };
    let (containers, networks, volumes, of_compose) = futures::try_join!(
        list_of(
            &client,
            times,
            "the list of containers",
            client.list_containers(Some(containers))
        ),
        list_of(
            &client,
            times,
            "the list of networks",
            client.list_networks(Some(networks))
        ),
        volumes_with(&ours),
        volumes_with(COMPOSE_VOLUME),
    )?;
    let ours = volumes.volumes.unwrap_or_default().into_iter();
    let of_compose = of_compose.volumes.unwrap_or_default().into_iter();
    let volumes = ours.chain(of_compose).map(inspect::convert_volume);
    // A volume can have both labels.
    let volumes: BTreeMap<String, Volume> = volumes.map(|volume| (volume.name.clone(), volume)).collect();
    Ok(Listing {
        containers: containers
            .into_iter()
            .filter_map(inspect::convert_summary)
            .collect(),
        networks: networks
            .into_iter()
            .filter_map(inspect::convert_network)
            .collect(),
        volumes: volumes.into_values().collect(),
    })
}

/// Waits for one list, and describes a response that Argus cannot read.
async fn list_of<T>(
    client: &bollard::Docker,
    times: CallTimes,
    what: &str,
    list: impl Future<Output = Result<T, Error>>,
) -> Result<T, ListError> {
    let read = list.map(|result| match result {
        Ok(list) => Ok(Ok(list)),
        Err(error) => Unreadable::from_error(&error).map_or(Err(error), |unreadable| Ok(Err(unreadable))),
    });
    match call::run(Op::List, times.read, read).await {
        Ok(Ok(list)) => Ok(list),
        Ok(Err(unreadable)) => Err(ListError::Unreadable(
            unreadable.describe(what, client, times).await,
        )),
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
        call::run(Op::List, shared.times.read, client.list_containers(Some(one))).await?;
    }
    Ok(engine_started_at(shared, &client).await)
}

/// Start time of the engine. No call reports it, but the engine creates its default network at each start that ends the
/// containers. With live restore, the network and the containers remain.
async fn engine_started_at(shared: &Shared, client: &bollard::Docker) -> Option<Timestamp> {
    let bridge = client.inspect_network("bridge", None);
    let found = call::run(Op::Inspect, shared.times.read, bridge).await.ok()?;
    Some(inspect::convert_network_inspect(found)?.created_at)
}

/// Inspects one object; `None` when it does not exist or does not carry our label.
pub(super) async fn inspect(
    client: bollard::Docker,
    shared: Arc<Shared>,
    id: ObjectId,
) -> (ObjectId, Result<Option<Object>, ActionError>) {
    let found = find(&client, &shared, &id).await;
    (id, found.map(|found| found.filter(is_watched)))
}

async fn find(
    client: &bollard::Docker,
    shared: &Shared,
    id: &ObjectId,
) -> Result<Option<Object>, ActionError> {
    let is_absent = |error: &CallError| error.has_status(404);
    Ok(match id {
        ObjectId::Container(id) => {
            let call = client.inspect_container(id.as_str(), None);
            let found = call::run_accepting(Op::Inspect, shared.times.read, call, is_absent).await?;
            let Some(found) = found else { return Ok(None) };
            let pid = found.state.as_ref().and_then(|state| state.pid);
            let image = found.image.clone().unwrap_or_default();
            let Some(mut container) = inspect::convert_inspect(found) else {
                return Ok(None);
            };
            if ownership::has_inherited_labels(shared, &container, &image).await {
                return Ok(None);
            }
            shared.limits.complete(&mut container);
            ownership::read_build(shared, &mut container, &image).await;
            track_memory(shared, &container, pid);
            Some(Object::Container(Arc::new(container)))
        }
        ObjectId::Network(id) => {
            let call = client.inspect_network(id.as_str(), None);
            let found = call::run_accepting(Op::Inspect, shared.times.read, call, is_absent).await?;
            found
                .and_then(inspect::convert_network_inspect)
                .map(|mut network| {
                    network.is_broken = shared.bridges.is_any_missing([&network.id]);
                    Object::Network(Arc::new(network))
                })
        }
        ObjectId::Volume(name) => {
            let call = client.inspect_volume(name);
            let found = call::run_accepting(Op::Inspect, shared.times.read, call, is_absent).await?;
            found.map(|found| Object::Volume(Arc::new(inspect::convert_volume(found))))
        }
    })
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

fn is_watched(object: &Object) -> bool {
    match object {
        Object::Container(container) => has_our_label(&container.labels),
        Object::Network(network) => has_our_label(&network.labels),
        Object::Volume(volume) => is_watched_volume(&volume.labels),
    }
}

fn has_our_label(labels: &BTreeMap<String, String>) -> bool {
    labels.get(MANAGED).is_some_and(|value| value == "true")
}

fn is_watched_volume(labels: &BTreeMap<String, String>) -> bool {
    has_our_label(labels) || labels.contains_key(COMPOSE_VOLUME)
}
