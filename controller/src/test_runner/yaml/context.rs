//! Names and addresses that a suite can use: variables, base URL, host ports and containers.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::ident::{ContainerId, ResourceName};
use argus_core::status::{client_address, host_address};
use argus_crds::error::Code;
use argus_crds::status::{EnvironmentStatus, PortMapping, ServiceState, ServiceStatus};
use argus_crds::{DeclaredService, E2eSpec, Service};
use argus_suite::{Failure, Moment, PublishedPort, Scope};

/// Base URL of a file without services and without `vars.base_url`.
const NO_SERVICE: &str = "http://localhost:3000";
/// Maximum depth of `vars` that refer to other ones.
const MAX_DEPTH: usize = 8;
/// Maximum number of services in a message.
const MAX_SHOWN: usize = 5;

/// Names and addresses for the steps of a suite.
pub(super) struct Context {
    pub(super) environment: String,
    pub(super) scope: Scope,
    /// Beginning of requests with a `path`.
    pub(super) base_url: String,
    pub(super) ports: Vec<PublishedPort>,
    /// Service whose container is used by steps without one.
    pub(super) default_service: Option<String>,
    /// Services by their name and by the name of their container.
    services: BTreeMap<String, String>,
}

impl Context {
    /// Creates the context of a suite. `service` replaces the first service of the file.
    pub(super) fn new(
        spec: &E2eSpec,
        service: Option<&str>,
        status: &EnvironmentStatus,
        env: &BTreeMap<String, String>,
        moment: &mut Moment<'_>,
    ) -> Self {
        let declared = spec.declared_services();
        let chosen = match service {
            Some(name) => find_service(spec, name),
            None => declared.first().cloned(),
        };
        let mut config = BTreeMap::new();
        let first = spec.service.as_ref();
        for one in first.into_iter().chain(&spec.services) {
            config.extend(one.vars.clone());
        }
        let mut scope = resolve_config(env, config, status, moment);
        let base_url = chosen.as_ref().and_then(|one| {
            let own = one.service.vars.get("base_url");
            let resolved = own.map(|text| scope.resolve_text(text, moment));
            resolved.or_else(|| published_url(one.name, one.service, &status.port_mappings))
        });
        scope.save(port_variables(&status.port_mappings));
        // The name of a container is more specific than that of another service.
        let by_name = declared
            .iter()
            .map(|one| (one.name.to_owned(), one.name.to_owned()));
        let rows = status
            .services
            .iter()
            .map(|row| (row.name.clone(), row.name.clone()));
        let by_container = declared
            .iter()
            .filter_map(|one| Some((container_name(one.service)?.to_owned(), one.name.to_owned())));
        let services = rows.chain(by_name).chain(by_container).collect();
        Self {
            environment: status.environment.clone(),
            scope,
            base_url: base_url.unwrap_or_else(|| NO_SERVICE.to_owned()),
            ports: published_ports(status).collect(),
            default_service: chosen.map(|one| one.name.to_owned()),
            services,
        }
    }

    /// Failure of a step in a container that is not of the environment, unless it is one of the `allowed` ones. `None` for these are
    /// those of a client that can allow none.
    pub(super) fn refuse_container(&self, name: &str, allowed: Option<&[String]>) -> Option<Failure> {
        if self.services.contains_key(name) || allowed.is_some_and(|all| all.iter().any(|it| it == name)) {
            return None;
        }
        let own: BTreeSet<&String> = self.services.values().collect();
        let own: Vec<String> = own
            .into_iter()
            .take(MAX_SHOWN)
            .map(|it| format!("`{it}`"))
            .collect();
        let mut remedies = Vec::new();
        if !own.is_empty() {
            remedies.push(format!(
                "use a service of the environment, such as {}",
                own.join(", ")
            ));
        }
        if allowed.is_some() && ResourceName::new(name).is_ok() {
            remedies.push(format!("allow it with `--allow-test-containers {name}`"));
        }
        let mut message = format!("`{name}` is no container of the environment");
        if !remedies.is_empty() {
            message = format!("{message}: {}", remedies.join(", or "));
        }
        Some(Failure {
            code: Some(Code::PolicyViolation),
            ..Failure::new("container", message)
        })
    }

    /// Id of the container with a name of the file. Another name is that of an allowed container. `None` without a container.
    pub(super) fn container_id(&self, name: &str, status: &EnvironmentStatus) -> Option<ContainerId> {
        let Some(service) = self.services.get(name) else {
            return ContainerId::new(name).ok();
        };
        let row = status.services.iter().find(|row| row.name == *service)?;
        ContainerId::new(row.container_id.clone()?).ok()
    }
}

/// Returns all published TCP ports of the environment that clients can reach.
fn published_ports(status: &EnvironmentStatus) -> impl Iterator<Item = PublishedPort> {
    let mappings = status.port_mappings.iter();
    let tcp = mappings.filter(|mapping| mapping.protocol == "tcp");
    tcp.filter_map(|mapping| {
        Some(PublishedPort {
            service: mapping.service.clone(),
            address: host_address(mapping)?,
            requested: mapping.original_port,
            actual: mapping.actual_port,
        })
    })
}

/// Returns the published TCP ports of running containers. Before its container runs, another program can have the port of a service.
pub(super) fn running_ports(status: &EnvironmentStatus) -> Vec<PublishedPort> {
    let runs = |row: &&ServiceStatus| {
        matches!(
            row.state,
            ServiceState::Ready | ServiceState::Running | ServiceState::Paused
        )
    };
    let running: BTreeSet<&String> = status.services.iter().filter(runs).map(|row| &row.name).collect();
    published_ports(status)
        .filter(|port| running.contains(&port.service))
        .collect()
}

/// Returns the service with this name, or with a container of this name.
pub(in crate::test_runner) fn find_service<'a>(spec: &'a E2eSpec, name: &str) -> Option<DeclaredService<'a>> {
    let is_named = |one: &DeclaredService<'_>| one.name == name || container_name(one.service) == Some(name);
    spec.declared_services().into_iter().find(is_named)
}

fn container_name(service: &Service) -> Option<&str> {
    service
        .container
        .as_ref()
        .map(|container| container.name.as_str())
}

/// Resolves the `vars` of the services, which can refer to each other.
fn resolve_config(
    env: &BTreeMap<String, String>,
    mut config: BTreeMap<String, String>,
    status: &EnvironmentStatus,
    moment: &mut Moment<'_>,
) -> Scope {
    for _ in 0..MAX_DEPTH {
        let mut scope = Scope::new(env.clone(), config.clone());
        scope.save(port_variables(&status.port_mappings));
        let resolved: BTreeMap<String, String> = config
            .iter()
            .map(|(name, text)| (name.clone(), scope.resolve_text(text, moment)))
            .collect();
        if resolved == config {
            break;
        }
        config = resolved;
    }
    Scope::new(env.clone(), config)
}

/// Variables `ports.SERVICE.CONTAINERPORT` and `services.SERVICE.url`, as in the spec file.
fn port_variables(mappings: &[PortMapping]) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for mapping in mappings {
        let PortMapping {
            service,
            container_port,
            actual_port,
            ..
        } = mapping;
        let port = format!("ports.{service}.{container_port}");
        variables.entry(port).or_insert_with(|| actual_port.to_string());
        let url = format!("services.{service}.url");
        variables
            .entry(url)
            .or_insert_with(|| format!("http://{service}:{container_port}"));
    }
    variables
}

/// Address of the first published port of a service.
fn published_url(name: &str, service: &Service, mappings: &[PortMapping]) -> Option<String> {
    let first = service.container.as_ref()?.ports.first()?.as_str();
    let container = first.rsplit(':').next()?.split('/').next()?;
    let of_service = || mappings.iter().filter(|mapping| mapping.service == name);
    let is_first = |mapping: &&PortMapping| mapping.container_port.to_string() == container;
    let mapping = of_service().find(is_first).or_else(|| of_service().next())?;
    // The suite may not reach the loopback of this host, so its requests fail with the remedy.
    let address = client_address(mapping).unwrap_or_else(|| format!("localhost:{}", mapping.actual_port));
    Some(format!("http://{address}"))
}

#[cfg(test)]
mod tests {
    use argus_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn status() -> EnvironmentStatus {
        let mapping = |service: &str, container: u16, original: u16, actual: u16| {
            json!({
                "service": service, "containerPort": container, "protocol": "tcp", "originalPort": original,
                "actualPort": actual, "reassigned": original != actual, "host": "0.0.0.0",
            })
        };
        let row = |name: &str, id: &str| {
            json!({
                "name": name, "role": "service", "state": "Running", "health": "Healthy", "restarts": 0,
                "containerId": id, "ports": [],
            })
        };
        serde_json::from_value(json!({
            "schemaVersion": 1, "environment": "shop", "project": "shop", "specPath": "e2e.yaml", "phase": "Ready",
            "conditions": [], "services": [row("web", "a1"), row("db", "b2"), row("mail", "c3")],
            "portMappings": [mapping("web", 9000, 9000, 9000), mapping("web", 8080, 8080, 20001)],
            "diagnostics": [], "errors": [], "orphans": [], "notes": [], "tests": [], "holds": [],
            "disruptionCount": 0, "mode": "Full", "stale": false, "asOf": "",
        }))
        .unwrap()
    }

    fn context(text: &str, service: Option<&str>) -> Context {
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let spec = read.spec.unwrap_or_else(|| panic!("{:?}", read.diagnostics));
        let env = BTreeMap::from([("KEY".to_owned(), "k1".to_owned())]);
        let mut moment = Moment {
            now: Timestamp(0),
            random: &mut || 0,
        };
        Context::new(&spec, service, &status(), &env, &mut moment)
    }

    fn resolve(context: &Context, text: &str) -> String {
        let mut moment = Moment {
            now: Timestamp(0),
            random: &mut || 0,
        };
        context.scope.resolve_text(text, &mut moment)
    }

    const SPEC: &str = "project: { name: shop }
services:
  - name: web
    image: a
    container: { name: shop-web, ports: ['8080:8080', '9000:9000'] }
    vars: { key: '{{env.KEY}}', auth: 'Bearer {{config.key}}', port: '{{ports.web.8080}}' }
  - name: db
    image: a
    container: { name: web-db }
    vars: { base_url: 'http://localhost:8080/{{config.key}}', key: k2 }
";

    #[test]
    fn names_and_addresses_come_from_file_and_status() {
        let web = context(SPEC, None);
        assert_eq!(web.base_url, "http://127.0.0.1:20001");
        assert_eq!(web.default_service.as_deref(), Some("web"));
        assert_eq!(
            resolve(&web, "{{config.auth}} {{config.port}}"),
            "Bearer k2 20001"
        );
        assert_eq!(
            resolve(&web, "{{services.web.url}} {{ports.web.9000}}"),
            "http://web:9000 9000"
        );
        let id = |name: &str| web.container_id(name, &status()).map(|id| id.to_string());
        assert_eq!(id("shop-web").as_deref(), Some("a1"));
        assert_eq!(id("web-db").as_deref(), Some("b2"));
        assert_eq!(id("mail").as_deref(), Some("c3"));
        let moved = argus_suite::actual_address("localhost", 8080, &web.ports, false);
        assert_eq!(moved, Some((None, 20001)));
        let remote = argus_suite::actual_address("localhost", 20001, &web.ports, true);
        assert_eq!(remote, Some((Some([0, 0, 0, 0].into()), 20001)));

        let db = context(SPEC, Some("db"));
        assert_eq!(db.base_url, "http://localhost:8080/k2");
        assert_eq!(db.default_service.as_deref(), Some("db"));
        let none = context("project: { name: shop }\nmocks: { pay: { port: 9 } }\n", None);
        assert_eq!((none.base_url.as_str(), none.default_service), (NO_SERVICE, None));
    }

    #[test]
    fn container_of_another_environment_needs_a_permission() {
        let web = context(SPEC, None);
        let refused = |name: &str, allowed: Option<&[String]>| {
            let failure = web.refuse_container(name, allowed)?;
            assert_eq!(failure.code, Some(Code::PolicyViolation));
            Some(failure.message)
        };
        let other = ["elsewhere".to_owned()];
        for own in ["shop-web", "web", "web-db", "mail"] {
            assert_eq!(refused(own, None), None);
        }
        assert_eq!(refused("elsewhere", Some(&other)), None);
        // An engine accepts the beginning of an id as a name.
        let message = refused("else", Some(&other)).unwrap();
        assert!(
            message.ends_with("or allow it with `--allow-test-containers else`"),
            "{message}"
        );
        assert!(message.contains("`db`, `mail`, `web`"), "{message}");
        let message = refused("elsewhere", None).unwrap();
        assert!(!message.contains("--allow"), "{message}");
        let message = refused("a'; rm -rf /", Some(&[])).unwrap();
        assert!(!message.contains("--allow"), "{message}");
    }

    #[test]
    fn port_without_a_running_container_is_not_reached() {
        let mut status = status();
        let actual = |status: &EnvironmentStatus| {
            let ports = running_ports(status);
            ports.iter().map(|port| port.actual).collect::<Vec<_>>()
        };
        assert_eq!(actual(&status), [9000_u16, 20001]);
        assert_eq!(running_ports(&status)[0].address.to_string(), "0.0.0.0");
        // A program of the host can have the port of an optional service that never starts.
        for state in [
            ServiceState::Waiting,
            ServiceState::Starting,
            ServiceState::Completed,
        ] {
            status.services[0].state = state;
            assert!(actual(&status).is_empty(), "{state:?}");
        }
        status.services[0].state = ServiceState::Ready;
        status.port_mappings[0].protocol = "udp".to_owned();
        assert_eq!(actual(&status), [20001_u16]);
    }
}
