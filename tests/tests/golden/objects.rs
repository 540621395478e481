//! Parser of engine objects: each from one line of a world.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::action::ContainerSpec;
use argus_core::desired::Desired;
use argus_core::ident::{ContainerId, ContainerSpecHash, Protocol, ProtocolPort, ServiceName};
use argus_core::ident::{PortKey, PortMap};
use argus_core::labels;
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, EngineHealth, EngineHealthStatus, InspectInfo,
};
use argus_core::plan::ControllerIdentity;
use argus_core::plan::render;
use argus_core::time::Timestamp;

use crate::fixture::moment;

/// The options of a line: `word` or `key=value`.
pub(crate) struct Options<'a>(pub(crate) Vec<&'a str>);

impl<'a> Options<'a> {
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn time(&self, key: &str, now: Timestamp) -> Option<Timestamp> {
        self.get(key).map(|span| moment(now, span))
    }
}

/// Template of a container: spec and hash under these ports, or almost nothing for an unknown service.
pub(crate) fn spec_of(
    desired: &Desired,
    service: &ServiceName,
    ports: &PortMap,
    site: &ControllerIdentity,
    now: Timestamp,
) -> Option<(ContainerSpec, ContainerSpecHash)> {
    let (spec, hash) = render::render_all(desired, ports, site).remove(service)?;
    Some((render::stamped(&spec, &hash, desired, site, now), hash))
}

/// `80:20000` as an entry of a port map.
pub(crate) fn pair(service: &ServiceName, text: &str) -> Option<(PortKey, u16)> {
    let (container, host) = text.split_once(':')?;
    let (container, protocol) = match container.strip_suffix("/udp") {
        Some(number) => (number, Protocol::Udp),
        None => (container, Protocol::Tcp),
    };
    let container = ProtocolPort {
        number: container.parse().ok()?,
        protocol,
    };
    let service = service.clone();
    Some((PortKey { service, container }, host.parse().ok()?))
}

/// Labels of an object that the spec does not (or no longer) name.
pub(crate) fn plain_labels(
    desired: &Desired,
    role: &str,
    site: &ControllerIdentity,
    options: &Options<'_>,
) -> BTreeMap<String, String> {
    let mut all = render::labels_of(desired, role, site, Timestamp(0));
    if role == "network" && desired.internal {
        all.insert(labels::INTERNAL.to_owned(), "true".to_owned());
    }
    if let Some(other) = options.get("controller") {
        all.insert(labels::CONTROLLER.into(), other.to_owned());
    }
    if options.has("open") {
        all.remove(labels::INTERNAL);
    }
    if options.has("delete") {
        all.insert(labels::DELETION.into(), "Delete".into());
    }
    all
}

/// A container `ID SERVICE STATE` with its options.
#[allow(
    clippy::too_many_arguments,
    reason = "one call, with everything that a line and its fixture contain"
)]
pub(crate) fn container(
    id: &str,
    state: &str,
    service: &ServiceName,
    desired: &Desired,
    spec: Option<&ContainerSpec>,
    site: &ControllerIdentity,
    options: &Options<'_>,
    now: Timestamp,
) -> Result<Container, String> {
    let mut all = plain_labels(desired, "service", site, options);
    all.insert(labels::SERVICE.into(), service.to_string());
    if let Some(spec) = spec {
        let controller = all.remove(labels::CONTROLLER);
        all.extend(spec.labels.clone());
        all.extend(controller.map(|it| (labels::CONTROLLER.to_owned(), it)));
    }
    if options.has("old") || spec.is_none() {
        all.insert(labels::SPEC_HASH.into(), "0dd".into());
    }
    let known = desired.services.get(service);
    let name = match options.get("name") {
        Some(name) => name.to_owned(),
        None => known.map_or_else(
            || format!("{}-{service}", desired.env),
            |it| it.container_name.to_string(),
        ),
    };
    let state = state_of(state)?;
    let started = options.time("started", now);
    let default_start = (state != ContainerState::Created).then(|| moment(now, "-60s"));
    let facts = InspectInfo {
        started_at: started.or(default_start),
        finished_at: options.time("finished", now),
        exit_code: options
            .get("exit")
            .and_then(|code| code.parse().ok())
            .unwrap_or(0),
        oom_killed: options.has("oom"),
        error: String::new(),
        image_id: None,
        health: options.get("health").map(|text| health(text, now)).transpose()?,
        config: config(spec, options),
    };
    Ok(Container {
        id: ContainerId::new(id).map_err(|why| why.to_string())?,
        name,
        labels: all,
        image: spec.map(|spec| spec.image.clone()).unwrap_or_default(),
        state,
        created_at: options
            .time("created", now)
            .unwrap_or_else(|| moment(now, "-90s")),
        networks: networks(desired, spec, options, state)?,
        inspect: (!options.has("bare")).then_some(facts),
        stopped_by_other: options.time("stopped", now),
        oom_at: options.time("oom-event", now),
    })
}

fn networks(
    desired: &Desired,
    spec: Option<&ContainerSpec>,
    options: &Options<'_>,
    state: ContainerState,
) -> Result<BTreeMap<String, Attachment>, String> {
    let id = options.get("network").unwrap_or("n1");
    if id == "none" {
        return Ok(BTreeMap::new());
    }
    let aliases = match options.get("aliases") {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => spec.map(|spec| spec.aliases.clone()).unwrap_or_default(),
    };
    let id = argus_core::ident::NetworkId::new(id).map_err(|why| why.to_string())?;
    let attachment = Attachment {
        network: (state != ContainerState::Created).then_some(id),
        aliases,
        address: None,
    };
    Ok(BTreeMap::from([(desired.network.to_string(), attachment)]))
}

fn config(spec: Option<&ContainerSpec>, options: &Options<'_>) -> Config {
    let number = |key: &str| options.get(key).and_then(|text| text.parse().ok());
    let grace = number("grace").map(Duration::from_secs);
    let Some(spec) = spec else {
        return Config {
            stop_grace: grace,
            ..Config::default()
        };
    };
    let mut config = spec.configuration();
    if let Some((key, value)) = options.get("env").and_then(|text| text.split_once('=')) {
        config
            .environment
            .retain(|line| !line.starts_with(&format!("{key}=")));
        config.environment.push(format!("{key}={value}"));
    }
    config.memory = number("memory").unwrap_or(config.memory);
    config.pids_limit = number("pids").or(config.pids_limit);
    config.privileged = options.has("privileged");
    if let Some(image) = options.get("image-of") {
        image.clone_into(&mut config.image);
    }
    if let Some(command) = options.get("command") {
        config.command = vec![command.to_owned()];
    }
    if options.has("unmounted") {
        config.mounts.clear();
    }
    config.stop_grace = grace.or(config.stop_grace);
    if let Some(address) = options.get("published").and_then(|text| text.parse().ok()) {
        config.addresses.iter_mut().for_each(|(_, at)| *at = address);
    }
    if let Some(policy) = options.get("restart") {
        policy.clone_into(&mut config.restart_policy);
    }
    config
}

fn state_of(text: &str) -> Result<ContainerState, String> {
    Ok(match text {
        "created" => ContainerState::Created,
        "running" => ContainerState::Running,
        "paused" => ContainerState::Paused,
        "restarting" => ContainerState::Restarting,
        "removing" => ContainerState::Removing,
        "exited" => ContainerState::Exited,
        "dead" => ContainerState::Dead,
        other => return Err(format!("`{other}` is not a state")),
    })
}

/// `healthy` or `healthy@-70s`.
fn health(text: &str, now: Timestamp) -> Result<EngineHealth, String> {
    let (word, at) = text.split_once('@').unwrap_or((text, "-1s"));
    let status = match word {
        "starting" => EngineHealthStatus::Starting,
        "healthy" => EngineHealthStatus::Healthy,
        "unhealthy" => EngineHealthStatus::Unhealthy,
        other => return Err(format!("`{other}` is not a health")),
    };
    Ok(EngineHealth {
        status,
        failing_streak: 0,
        output: String::new(),
        recent: Vec::new(),
        checked_at: Some(moment(now, at)),
    })
}
