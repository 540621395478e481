//! Conversion of the client's models of containers, networks and volumes to those of `argus_core`.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use argus_core::desired::Mount;
use argus_core::ident::{ContainerId, NetworkId, Protocol, ProtocolPort, ResourceName};
use argus_core::labels::BUILD_DIGEST;
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, EngineHealth, EngineHealthStatus, InspectInfo, Network,
    Volume,
};
use argus_core::quoting::start_of;
use argus_core::time::Timestamp;
use bollard::models;

/// Maximum stored output of a health check, in bytes.
const MAX_OUTPUT_BYTES: usize = 4096;

/// A container as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The container, without the details of an inspect.
    pub(crate) container: Container,
    /// State of the image's health check, which a list contains only as text.
    pub(crate) health: Option<EngineHealthStatus>,
}

/// Converts a list entry; `None` without an id.
pub(crate) fn convert_summary(summary: models::ContainerSummary) -> Option<Listed> {
    let id = ContainerId::new(summary.id?).ok()?;
    let networks = summary.network_settings.and_then(|settings| settings.networks);
    Some(Listed {
        container: Container {
            id,
            name: select_name(&summary.names.unwrap_or_default()),
            labels: to_btree_map(summary.labels),
            image: summary.image.unwrap_or_default(),
            state: summary
                .state
                .map_or(ContainerState::Created, |state| parse_state(state.as_ref())),
            created_at: Timestamp(summary.created.unwrap_or(0).saturating_mul(1000)),
            networks: convert_attachments(networks),
            inspect: None,
            stopped_by_other: None,
            oom_at: None,
        },
        health: summary.status.as_deref().and_then(parse_health),
    })
}

/// Converts an inspect; `None` without an id.
pub(crate) fn convert_inspect(found: models::ContainerInspectResponse) -> Option<Container> {
    let id = ContainerId::new(found.id?).ok()?;
    let config = found.config.unwrap_or_default();
    let labels = to_btree_map(config.labels);
    let state = found.state.unwrap_or_default();
    let status = state
        .status
        .as_ref()
        .map_or(ContainerState::Created, |status| parse_state(status.as_ref()));
    // A negative timeout means that the engine waits without limit.
    let stop_grace = config
        .stop_timeout
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs);
    let info = InspectInfo {
        started_at: parse_time(state.started_at.as_deref()),
        finished_at: parse_time(state.finished_at.as_deref()),
        exit_code: state.exit_code.unwrap_or(0),
        oom_killed: state.oom_killed.unwrap_or(false),
        error: state.error.unwrap_or_default(),
        image_id: found.image.filter(|id| !id.is_empty()),
        health: state.health.and_then(convert_health),
        config: Config {
            stop_grace,
            environment: config.env.unwrap_or_default(),
            image: config.image.clone().unwrap_or_default(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            mounts: found
                .mounts
                .into_iter()
                .flatten()
                .filter_map(convert_mount)
                .collect(),
            // A container inherits the labels of its image.
            build: labels.get(BUILD_DIGEST).cloned().unwrap_or_default(),
            user: config.user.unwrap_or_default(),
            working_dir: config.working_dir.unwrap_or_default(),
            ..convert_host_config(found.host_config.unwrap_or_default())
        },
    };
    // A list has whole seconds only, and both must give the same time for the same container.
    let created = convert_time(found.created).map_or(0, |at| at.0);
    Some(Container {
        id,
        name: found.name.unwrap_or_default().trim_start_matches('/').to_owned(),
        labels,
        image: config.image.unwrap_or_default(),
        state: status,
        created_at: Timestamp(created - created.rem_euclid(1000)),
        networks: convert_attachments(found.network_settings.and_then(|settings| settings.networks)),
        inspect: Some(info),
        stopped_by_other: None,
        oom_at: None,
    })
}

/// Converts a network of a list.
pub(crate) fn convert_network(found: models::Network) -> Option<Network> {
    Some(Network {
        id: NetworkId::new(found.id?).ok()?,
        name: found.name.unwrap_or_default(),
        labels: to_btree_map(found.labels),
        created_at: convert_time(found.created).unwrap_or_default(),
        is_broken: false,
    })
}

/// Converts an inspected network.
pub(crate) fn convert_network_inspect(found: models::NetworkInspect) -> Option<Network> {
    Some(Network {
        id: NetworkId::new(found.id?).ok()?,
        name: found.name.unwrap_or_default(),
        labels: to_btree_map(found.labels),
        created_at: convert_time(found.created).unwrap_or_default(),
        is_broken: false,
    })
}

/// Converts a volume.
pub(crate) fn convert_volume(found: models::Volume) -> Volume {
    Volume {
        name: found.name,
        labels: found.labels.into_iter().collect(),
    }
}

/// Labels, sorted by key.
pub(crate) fn to_btree_map(labels: Option<HashMap<String, String>>) -> BTreeMap<String, String> {
    labels.unwrap_or_default().into_iter().collect()
}

/// The name of a container. The names of legacy links to it contain a second slash and are ignored.
fn select_name(names: &[String]) -> String {
    let bare = |name: &String| name.trim_start_matches('/').to_owned();
    let own = names.iter().map(bare).find(|name| !name.contains('/'));
    own.or_else(|| names.first().map(bare)).unwrap_or_default()
}

/// Parses the engine's state; an unknown state counts as running.
fn parse_state(word: &str) -> ContainerState {
    match word {
        "created" | "" => ContainerState::Created,
        "paused" => ContainerState::Paused,
        "restarting" => ContainerState::Restarting,
        "removing" => ContainerState::Removing,
        "exited" => ContainerState::Exited,
        "dead" => ContainerState::Dead,
        // `running`, and Podman's `stopping`, in which the process still exists.
        _ => ContainerState::Running,
    }
}

/// Parses the health in a status such as `Up 3 minutes (healthy)`.
fn parse_health(status: &str) -> Option<EngineHealthStatus> {
    if status.contains("(healthy)") {
        Some(EngineHealthStatus::Healthy)
    } else if status.contains("(unhealthy)") {
        Some(EngineHealthStatus::Unhealthy)
    } else if status.contains("(health: starting)") {
        Some(EngineHealthStatus::Starting)
    } else {
        None
    }
}

fn convert_attachments(
    networks: Option<HashMap<String, models::EndpointSettings>>,
) -> BTreeMap<String, Attachment> {
    let attach = |settings: models::EndpointSettings| Attachment {
        network: settings.network_id.and_then(|id| NetworkId::new(id).ok()),
        aliases: settings.aliases.unwrap_or_default(),
        address: settings.ip_address.filter(|address| !address.is_empty()),
    };
    networks
        .unwrap_or_default()
        .into_iter()
        .map(|(name, settings)| (name, attach(settings)))
        .collect()
}

fn convert_health(found: models::Health) -> Option<EngineHealth> {
    let status = match found.status?.as_ref() {
        "starting" => EngineHealthStatus::Starting,
        "healthy" => EngineHealthStatus::Healthy,
        "unhealthy" => EngineHealthStatus::Unhealthy,
        _ => return None,
    };
    let mut log = found.log.unwrap_or_default();
    let recent = log.iter().map(describe_check).collect();
    let last = log.pop();
    Some(EngineHealth {
        recent,
        status,
        failing_streak: u32::try_from(found.failing_streak.unwrap_or(0)).unwrap_or(0),
        output: last.as_ref().map(output_of).unwrap_or_default().to_owned(),
        checked_at: last.and_then(|check| convert_time(check.end)),
    })
}

/// Request and response of one check.
fn describe_check(check: &models::HealthcheckResult) -> String {
    let code = check.exit_code.unwrap_or(-1);
    format!(
        "HEALTHCHECK of the image: exit code {code}: {}",
        output_of(check).trim_end()
    )
}

fn output_of(check: &models::HealthcheckResult) -> &str {
    start_of(check.output.as_deref().unwrap_or_default(), MAX_OUTPUT_BYTES)
}

/// Converts a folder or a named volume. An image declares anonymous volumes, which have a digest as their name.
fn convert_mount(found: models::MountPoint) -> Option<Mount> {
    let target = found.destination?;
    let read_only = !found.rw.unwrap_or(true);
    match found.typ?.as_str() {
        "bind" => Some(Mount::Bind {
            source: found.source?,
            target,
            read_only,
        }),
        "volume" => {
            let name = found.name?;
            let is_anonymous = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            let name = ResourceName::new(name).ok().filter(|_| !is_anonymous)?;
            Some(Mount::Volume {
                name,
                target,
                read_only,
            })
        }
        _ => None,
    }
}

fn convert_host_config(host: models::HostConfig) -> Config {
    let mut bindings: Vec<(ProtocolPort, ProtocolPort)> = Vec::new();
    let mut addresses: Vec<(ProtocolPort, IpAddr)> = Vec::new();
    for (key, published) in host.port_bindings.unwrap_or_default() {
        let Some(container) = parse_port_key(&key) else {
            continue;
        };
        for binding in published.unwrap_or_default() {
            let number = binding
                .host_port
                .and_then(|port| port.parse().ok())
                .filter(|number| *number > 0);
            let Some(number) = number else { continue };
            let published = ProtocolPort::new(number, container.protocol);
            bindings.push((container, published));
            addresses.extend(parse_address(binding.host_ip.as_deref()).map(|address| (published, address)));
        }
    }
    bindings.sort_unstable();
    addresses.sort_unstable();
    let amount = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
    let policy = host
        .restart_policy
        .and_then(|policy| policy.name)
        .map(|name| name.to_string());
    Config {
        memory: amount(host.memory),
        nano_cpus: amount(host.nano_cpus),
        bindings,
        addresses,
        pids_limit: host
            .pids_limit
            .and_then(|limit| u64::try_from(limit).ok())
            .filter(|limit| *limit > 0),
        privileged: host.privileged.unwrap_or(false),
        tmpfs: sorted_keys(host.tmpfs),
        restart_policy: policy
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "no".to_owned()),
        ..Config::default()
    }
}

/// Keys of a map in a stable order.
fn sorted_keys(map: Option<HashMap<String, String>>) -> Vec<String> {
    to_btree_map(map).into_keys().collect()
}

/// Parses the host address of a published port; an empty text means all addresses.
fn parse_address(text: Option<&str>) -> Option<IpAddr> {
    match text.unwrap_or_default() {
        "" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        written => written.parse().ok(),
    }
}

/// Parses `80/tcp`, or `80` for TCP. Argus does not support SCTP.
fn parse_port_key(key: &str) -> Option<ProtocolPort> {
    let (number, protocol) = key.split_once('/').unwrap_or((key, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some(ProtocolPort::new(number.parse().ok()?, protocol))
}

/// Converts a time that the client has parsed.
pub(crate) fn convert_time(at: Option<models::BollardDate>) -> Option<Timestamp> {
    at.map(|at| Timestamp(at.timestamp_millis()))
        .filter(|at| at.0 > 0)
}

fn parse_time(text: Option<&str>) -> Option<Timestamp> {
    Timestamp::parse(text?)
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
