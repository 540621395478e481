//! Environments for the simulation, written by hand or by seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::{ExitScript, Model, Rng};
use argus_core::backoff::Growth;
use argus_core::desired::hash::revision_of;
use argus_core::desired::{
    Accepted, Build, Condition, Criticality, Dependency, Desired, Image, Mount, NamedNetwork, Port,
    PortPolicy, PortStrategy, Probe, ProbeHandler, PullPolicy, RestartMode, RestartPolicy, Role, Service,
};
use argus_core::ident::{EnvName, Hash, Protocol, ResourceName, ServiceName};
use argus_core::plan::ControllerIdentity;
use argus_core::time::Timestamp;

pub(crate) const PRESENT: &str = "app:1";
pub(crate) const PULLED: &str = "app:2";

pub(crate) fn site() -> ControllerIdentity {
    let publish_address = "127.0.0.1".parse().unwrap();
    ControllerIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        publish_address,
    }
}

pub(crate) fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

pub(crate) fn service_name(name: &str) -> ServiceName {
    ServiceName::new(name).unwrap()
}

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

/// An engine with everything that the environments need. Services whose name begins with `job` exit with 0 after half a
/// second.
pub(crate) fn furnish(model: &mut Model) {
    model.add_image(PRESENT);
    model.add_to_registry(PULLED);
    let life = ExitScript {
        after: Duration::from_millis(500),
        code: 0,
        times: u32::MAX,
    };
    for env in ["one", "two", "three"] {
        for number in 0..5 {
            model.set_script(&format!("{env}/job{number}"), life);
        }
    }
}

/// A service with an image and nothing else.
pub(crate) fn plain(env: &str, name: &str) -> Service {
    Service {
        injected_file: None,
        name: service_name(name),
        role: Role::Service,
        container_name: resource(&format!("{env}-{name}")),
        aliases: vec![],
        networks: BTreeMap::new(),
        image: Image::Named(PRESENT.to_owned()),
        pull_policy: PullPolicy::Missing,
        entrypoint: None,
        command: None,
        labels: BTreeMap::new(),
        env_vars: BTreeMap::new(),
        ports: vec![],
        mounts: vec![],
        covers: vec![],
        tmpfs: vec![],
        extra_hosts: vec![],
        user: None,
        working_dir: None,
        process: Box::default(),
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(10),
        probe: None,
        depends_on: vec![],
        one_shot: name.starts_with("job"),
        can_complete: false,
        criticality: Criticality::Critical,
    }
}

pub(crate) fn published(container: u16, wanted: Option<u16>) -> Port {
    Port {
        container,
        protocol: Protocol::Tcp,
        requested: wanted,
        address: None,
    }
}

pub(crate) fn depends(on: &str, condition: Condition) -> Dependency {
    Dependency {
        service: service_name(on),
        condition,
        optional: false,
        restart: false,
    }
}

pub(crate) fn probe() -> Probe {
    Probe {
        kind: ProbeHandler::Tcp { port: 80 },
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(1),
        retries: 3,
        success_threshold: 1,
        start_period: Duration::ZERO,
    }
}

pub(crate) fn restart_policy() -> RestartPolicy {
    RestartPolicy {
        enabled: true,
        max_restarts: 3,
        delay: Duration::from_secs(2),
        growth: Growth::Exponential,
        max_delay: Duration::from_secs(60),
        window: Duration::from_secs(300),
        reset_after: Duration::from_secs(60),
        halt_after_same: Some(3),
        mode: RestartMode::GiveUp,
        never: BTreeSet::new(),
        memory_above: None,
    }
}

/// An environment of these services.
pub(crate) fn desired(name: &str, services: impl IntoIterator<Item = Service>) -> Desired {
    let services: BTreeMap<_, _> = services
        .into_iter()
        .map(|service| (service.name.clone(), service))
        .collect();
    let volumes = services
        .values()
        .flat_map(|service| &service.mounts)
        .filter_map(|mount| match mount {
            Mount::Volume { name, .. } => Some(name.clone()),
            Mount::Bind { .. } => None,
        });
    let mut desired = Desired {
        env: env(name),
        project: name.to_owned(),
        revision: Hash::new("0").unwrap(),
        internal: false,
        networks: BTreeMap::new(),
        external_networks: std::collections::BTreeSet::new(),
        network: resource(&format!("argus-{name}")),
        volumes: volumes.collect(),
        external_volumes: std::collections::BTreeSet::new(),
        former_volumes: std::collections::BTreeMap::new(),
        services,
        ports: PortPolicy {
            low: 9_000,
            high: 9_029,
            strategy: PortStrategy::Auto,
        },
        restart: restart_policy(),
        preflight: argus_core::desired::PreflightSettings::default(),
        delete_volumes: false,
        container_limits: argus_core::desired::ContainerLimits::default(),
        clean_orphans: true,
        verify_connectivity: true,
        ttl: None,
        env_file: None,
        folder: None,
        worktree: None,
        hold: false,
        rollback: None,
        breaker: Some(argus_core::desired::BreakerSettings::default()),
        secrets: argus_core::secrets::Secrets::default(),
        notes: vec![],
    };
    desired.revision = revision_of(&desired);
    desired
}

pub(crate) fn accept(mut desired: Desired, now: Timestamp) -> Arc<Accepted> {
    desired.revision = revision_of(&desired);
    let written = serde_json::json!({ "spec_path": "e2e.yaml", "desired": desired, "accepted_at": now });
    Arc::new(serde_json::from_value(written).unwrap())
}

/// Attachment to a network of the file, with aliases.
fn on(network: &str, aliases: &[&str]) -> (ResourceName, Vec<String>) {
    let aliases = aliases.iter().map(|alias| (*alias).to_owned());
    (resource(network), aliases.collect())
}

/// A random environment.
pub(crate) fn any(name: &str, chance: &mut Rng) -> Desired {
    let mut services: Vec<Service> = Vec::new();
    for number in 0..=chance.below(4) {
        let kind = if chance.percent(20) { "job" } else { "app" };
        let mut service = plain(name, &format!("{kind}{number}"));
        service.image = match chance.below(6) {
            0 => Image::Named(PULLED.to_owned()),
            1 => Image::Built(build(chance.below(2))),
            _ => Image::Named(PRESENT.to_owned()),
        };
        service
            .env_vars
            .insert("VERSION".to_owned(), chance.below(3).to_string());
        if !service.one_shot {
            for port in 0..chance.below(3) {
                let wanted = chance
                    .percent(70)
                    .then(|| 8_080 + u16::try_from(chance.below(3)).unwrap());
                service
                    .ports
                    .push(published(80 + u16::try_from(port).unwrap(), wanted));
            }
            if chance.percent(40) {
                service.probe = Some(probe());
            }
        }
        if chance.percent(20) {
            let name = resource(&format!("argus-{name}-data{number}"));
            service.mounts.push(Mount::Volume {
                name,
                target: "/data".to_owned(),
                read_only: false,
            });
        }
        if let Some(other) = chance.pick(&services)
            && chance.percent(60)
        {
            let condition = match (other.one_shot, chance.below(2)) {
                (true, _) => Condition::Completed,
                (false, 0) => Condition::Started,
                (false, _) => Condition::Healthy,
            };
            service.depends_on.push(depends(other.name.as_str(), condition));
        }
        services.push(service);
    }
    let is_wide = services.len() > 2;
    if is_wide {
        // The last service is only on the second network, and the one before it on both.
        let (back, default) = (on("back", &["db"]), on("default", &[]));
        let networks = [vec![back.clone()], vec![back, default]];
        for (service, networks) in services.iter_mut().rev().zip(networks) {
            service.networks.extend(networks);
        }
    }
    let mut all = desired(name, services);
    if is_wide {
        let network = NamedNetwork {
            name: resource(&format!("argus-{name}_back")),
            internal: false,
        };
        all.networks.insert(resource("back"), network);
    }
    // Random runs kill more often than a budget allows; budgets have tests of their own.
    all.restart.max_restarts = 50;
    all.delete_volumes = chance.percent(30);
    all
}

pub(crate) fn build(version: u64) -> Build {
    Build {
        tag: "built:1".to_owned(),
        context: "/work".to_owned(),
        dockerfile: "Dockerfile".to_owned(),
        target: None,
        args: BTreeMap::new(),
        digest: Hash::new(format!("b{version}")).unwrap(),
        options: Box::default(),
        excluded: argus_core::desired::excluded::Excluded::default(),
        allowed: false,
    }
}
