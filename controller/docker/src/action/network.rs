//! Actions on networks and on their attachments.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use argus_core::ident::{ContainerId, NetworkId, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, FOLDER, INTERNAL, ObjectLabels};
use argus_core::observed::{ContainerState, Network, Object};
use argus_core::outcome::{ActionError, Done, FOREIGN_NETWORK};
use bollard::models;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};

use crate::Shared;
use crate::call::{self, CallError};
use crate::create::to_hash_map;
use crate::error::Op;
use crate::inspect;
use crate::ownership;

/// Creates a network, or adopts the one that an earlier attempt of the same action created.
pub(super) async fn create(
    shared: &Shared,
    name: &ResourceName,
    labels: &BTreeMap<String, String>,
) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    let request = models::NetworkCreateRequest {
        name: name.as_str().to_owned(),
        driver: Some("bridge".to_owned()),
        internal: Some(labels.contains_key(INTERNAL)),
        labels: Some(to_hash_map(labels)),
        ..Default::default()
    };
    match call::run(
        Op::CreateNetwork,
        shared.times.write,
        client.create_network(request),
    )
    .await
    {
        Ok(made) => match NetworkId::new(made.id) {
            Ok(id) => {
                let network = Network {
                    id: id.clone(),
                    name: name.to_string(),
                    labels: labels.clone(),
                    created_at: (shared.now)(),
                    // Also records that the bridge exists.
                    is_broken: shared.bridges.is_any_missing([&id]),
                };
                shared.in_flight.on_created(Object::Network(Arc::new(network)));
                Ok(Done::Network(id))
            }
            Err(bad) => Err(ActionError::Unknown(bad.to_string())),
        },
        Err(ActionError::NameTaken { .. }) => adopt(shared, name, labels).await,
        Err(other) => Err(other),
    }
}

/// Checks that an external network exists.
pub(super) async fn check_external(shared: &Shared, name: &ResourceName) -> Result<Done, ActionError> {
    let found = ownership::inspect_network(shared, name.as_str()).await?;
    // The engine also finds networks by a part of their ids.
    let is_named = |found: &models::NetworkInspect| found.name.as_deref() == Some(name.as_str());
    let missing = || ActionError::NetworkNotFound(name.to_string());
    found.filter(is_named).map(|_| Done::Applied).ok_or_else(missing)
}

async fn adopt(
    shared: &Shared,
    name: &ResourceName,
    labels: &BTreeMap<String, String>,
) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    // The engine's filter matches substrings, so the name is compared again.
    let filters = HashMap::from([("name", vec![name.as_str()])]);
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let found = call::run(
        Op::Inspect,
        shared.times.read,
        client.list_networks(Some(options)),
    )
    .await?;
    let named = found
        .into_iter()
        .filter_map(inspect::convert_network)
        .filter(|network| network.name == name.as_str());
    let (ours, others): (Vec<_>, Vec<_>) = named.partition(|network| {
        let same = |key: &str| network.labels.get(key) == labels.get(key);
        network.owner().is_some() && [ENVIRONMENT, CONTROLLER].into_iter().all(same)
    });
    match (
        ours.into_iter().min_by_key(|network| network.created_at),
        others.first(),
    ) {
        (Some(network), _) => Ok(Done::Network(network.id)),
        (None, Some(other)) => Err(ActionError::NameTaken {
            holder: match other.owner() {
                Some(owner) => {
                    let own_folder = labels.get(FOLDER).map(String::as_str);
                    format!("`{name}`: {}", owner.describe_holder(own_folder))
                }
                None => format!("`{name}`: {FOREIGN_NETWORK}"),
            },
        }),
        (None, None) => Err(ActionError::Busy(format!(
            "the name `{name}` was in use a moment ago"
        ))),
    }
}

/// Removes a network. Endpoints that containers of Argus left behind are freed first.
pub(super) async fn remove(shared: &Shared, id: &NetworkId) -> Result<Done, ActionError> {
    if ownership::inspect_owned_network(shared, id).await?.is_none() {
        return Ok(Done::Applied);
    }
    match delete(shared, id).await {
        Err(ActionError::NetworkInUse(message)) => {
            let Some(network) = ownership::inspect_owned_network(shared, id).await? else {
                return Ok(Done::Applied);
            };
            free_stuck_endpoints(shared, id, &network, message).await?;
            delete(shared, id).await
        }
        other => other,
    }
}

async fn delete(shared: &Shared, id: &NetworkId) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    let call = client.remove_network(id.as_str());
    call::run_accepting(Op::RemoveNetwork, shared.times.write, call, CallError::is_gone).await?;
    Ok(Done::Applied)
}

/// Frees the endpoints that no running container uses. Fails at the first endpoint of a running or foreign container.
async fn free_stuck_endpoints(
    shared: &Shared,
    id: &NetworkId,
    network: &models::NetworkInspect,
    message: String,
) -> Result<(), ActionError> {
    let endpoints = network.containers.clone().unwrap_or_default();
    if endpoints.is_empty() {
        return free_unlisted_endpoints(shared, id, network, message).await;
    }
    for (key, endpoint) in endpoints {
        let name = endpoint.name.unwrap_or_else(|| key.clone());
        let holder = match ContainerId::new(key) {
            Ok(container) => ownership::inspect_container(shared, container.as_str()).await?,
            Err(_) => None,
        };
        if let Some(inspected) = holder {
            let container = &inspected.container;
            let ended = matches!(
                container.state,
                ContainerState::Exited | ContainerState::Dead | ContainerState::Created
            );
            // An engine that fails halfway through a detachment keeps the endpoint, but not the attachment.
            let mut attachments = container.networks.values();
            let is_detached = attachments.all(|at| at.network.as_ref() != Some(id));
            if !(ended || is_detached) || ownership::find_owner(shared, &inspected).await?.is_none() {
                return Err(ActionError::NetworkInUse(format!(
                    "container `{}` is attached",
                    container.name
                )));
            }
        }
        // By name: an id does not free the endpoint of a removed container.
        force_disconnect(shared, id.as_str(), &name).await?;
    }
    Ok(())
}

/// Frees endpoints that the engine counts but does not list: it finds them by the names of the containers that had them.
///
/// # Errors
/// [`ActionError::NetworkInUse`] when no container of the environment can have such an endpoint.
async fn free_unlisted_endpoints(
    shared: &Shared,
    id: &NetworkId,
    network: &models::NetworkInspect,
    message: String,
) -> Result<(), ActionError> {
    let labels = inspect::to_btree_map(network.labels.clone());
    let Some(owner) = ObjectLabels::read(&labels) else {
        return Err(ActionError::NetworkInUse(message));
    };
    let client = shared.connection.client()?;
    let ours = HashMap::from([("label", vec![format!("{ENVIRONMENT}={}", owner.environment)])]);
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&ours)
        .build();
    let containers = call::run(Op::List, shared.times.read, client.list_containers(Some(options))).await?;
    let detached = detached_names(&containers, id);
    if detached.is_empty() {
        return Err(ActionError::NetworkInUse(message));
    }
    for name in detached {
        force_disconnect(shared, id.as_str(), name).await?;
    }
    Ok(())
}

/// The names of the containers whose settings do not have the network.
fn detached_names<'a>(containers: &'a [models::ContainerSummary], id: &NetworkId) -> Vec<&'a str> {
    let is_attached = |container: &models::ContainerSummary| {
        let settings = container.network_settings.as_ref();
        let networks = settings.and_then(|settings| settings.networks.as_ref());
        networks.is_some_and(|networks| {
            networks
                .values()
                .any(|at| at.network_id.as_deref() == Some(id.as_str()))
        })
    };
    let detached = containers.iter().filter(|container| !is_attached(container));
    let names = detached.filter_map(|container| container.names.as_ref()?.first());
    names.map(|name| name.trim_start_matches('/')).collect()
}

/// Attaches a container to a network under its aliases. The network is one of Argus, or `external`.
pub(super) async fn connect(
    shared: &Shared,
    network: &str,
    container: &ContainerId,
    aliases: &[String],
    external: bool,
) -> Result<Done, ActionError> {
    let network = check_name(network)?;
    let network = network.as_str();
    let gone = || ActionError::NetworkGone(format!("network {network} not found"));
    let found = ownership::inspect_network(shared, network)
        .await?
        .ok_or_else(gone)?;
    if !external && ObjectLabels::read(&inspect::to_btree_map(found.labels)).is_none() {
        return Err(ActionError::NotOwned(format!("network `{network}`")));
    }
    ownership::ensure_owned(shared, container).await?;
    let client = shared.connection.client()?;
    // The engine reports no event for a container that does not run.
    let _call = shared.in_flight.start(container);
    let endpoint = models::EndpointSettings {
        aliases: Some(aliases.to_vec()),
        ..Default::default()
    };
    let request = models::NetworkConnectRequest {
        container: container.as_str().to_owned(),
        endpoint_config: Some(endpoint),
    };
    let call = client.connect_network(network, request);
    let is_attached = |error: &CallError| error.lowercase_message().contains("already exists in network");
    match call::run_accepting(Op::ConnectNetwork, shared.times.write, call, is_attached).await? {
        Some(()) => Ok(Done::Applied),
        None => check_attachment(shared, network, container, aliases).await,
    }
}

/// Accepts an existing attachment only with the desired aliases: without its alias the container cannot be found.
async fn check_attachment(
    shared: &Shared,
    network: &str,
    container: &ContainerId,
    aliases: &[String],
) -> Result<Done, ActionError> {
    let inspected = ownership::inspect_container(shared, container.as_str())
        .await?
        .ok_or(ActionError::Gone)?;
    let networks = &inspected.container.networks;
    let by_id = || {
        let is_it = |id: &NetworkId| id.as_str() == network;
        let mut all = networks.values();
        all.find(|attachment| attachment.network.as_ref().is_some_and(is_it))
    };
    match networks.get(network).or_else(by_id) {
        Some(found) if aliases.iter().all(|alias| found.aliases.contains(alias)) => Ok(Done::Applied),
        Some(_) => Err(ActionError::Rejected(
            "the container is already attached with other aliases".to_owned(),
        )),
        None => Err(ActionError::Rejected(
            "an endpoint with the container's name is already on the network".to_owned(),
        )),
    }
}

/// Disconnects a container by force. Both are given by name or id, because an endpoint may outlive its container.
pub(super) async fn disconnect(shared: &Shared, network: &str, container: &str) -> Result<Done, ActionError> {
    let network = check_name(network)?;
    let container = check_name(container)?;
    let Some(found) = ownership::inspect_network(shared, network.as_str()).await? else {
        return Ok(Done::Applied);
    };
    match ownership::inspect_container(shared, container.as_str()).await? {
        Some(inspected) if ownership::find_owner(shared, &inspected).await?.is_none() => {
            return Err(ActionError::NotOwned(format!(
                "container `{}`",
                inspected.container.name
            )));
        }
        None if ObjectLabels::read(&inspect::to_btree_map(found.labels)).is_none() => {
            return Err(ActionError::NotOwned(format!("network `{network}`")));
        }
        _ => {}
    }
    force_disconnect(shared, network.as_str(), container.as_str())
        .await
        .map(|()| Done::Applied)
}

/// Checks a name before it becomes part of a URL.
fn check_name(name: &str) -> Result<ResourceName, ActionError> {
    ResourceName::new(name).map_err(|bad| ActionError::Rejected(bad.to_string()))
}

async fn force_disconnect(shared: &Shared, network: &str, container: &str) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let request = models::NetworkDisconnectRequest {
        container: container.to_owned(),
        force: Some(true),
    };
    let call = client.disconnect_network(network, request);
    let is_done = |error: &CallError| error.is_gone() || is_disconnected(&error.lowercase_message());
    let disconnected = call::run_accepting(Op::DisconnectNetwork, shared.times.write, call, is_done).await;
    disconnected.map(drop)
}

/// Returns true for the refusal of an engine whose container, or whose endpoint, is no longer on the network.
fn is_disconnected(message: &str) -> bool {
    message.contains("is not connected") || message.contains("endpoint") && message.contains("not found")
}
