//! References to host ports: rewrites them in variables, commands and files after a port moved.

use std::borrow::Cow;

use argus_crds::mock::config::MockConfig;

use crate::desired::{Desired, InjectedFile, Service};
use crate::ident::PortMap;

/// Name of the engine's host inside a container.
const HOST: &str = "host.docker.internal:";
/// Names of a container's own host. Spec files often use them for the engine's host.
const LOCAL: [&str; 3] = ["localhost:", "127.0.0.1:", ANY];

/// Wildcard address of a listener.
const ANY: &str = "0.0.0.0:";

/// Rewrites a variable. A client may read it, so only a listen address refers to the container's own ports.
pub(super) fn rewrite_variable(text: &str, desired: &Desired, service: &Service, ports: &PortMap) -> String {
    rewrite(text, |host, requested| {
        (host != ANY || !is_container_port(service, requested))
            .then(|| substitute(requested, desired, service, ports))?
    })
}

/// Rewrites a word of a command. It runs inside the container, so the container's own ports stay unchanged.
pub(super) fn rewrite_word(text: &str, desired: &Desired, service: &Service, ports: &PortMap) -> String {
    rewrite(text, |host, requested| {
        (host == HOST || !is_container_port(service, requested))
            .then(|| substitute(requested, desired, service, ports))?
    })
}

/// Rewrites the command of an `exec` probe.
pub fn rewrite_probe_command(
    command: &[String],
    desired: &Desired,
    service: &Service,
    ports: &PortMap,
) -> Vec<String> {
    let words = command.iter();
    words
        .map(|text| rewrite_word(text, desired, service, ports))
        .collect()
}

fn is_container_port(service: &Service, number: u16) -> bool {
    service.ports.iter().any(|port| port.container == number)
}

/// Rewrites the file of a mock, whose target may be the host port of a service in the environment.
pub(super) fn rewrite_file<'a>(
    file: &'a InjectedFile,
    desired: &Desired,
    service: &Service,
    ports: &PortMap,
) -> Cow<'a, InjectedFile> {
    let moved = file.target.as_ref().and_then(|target| {
        let now = rewrite_variable(target, desired, service, ports);
        (now != *target).then_some(now)
    });
    let config = moved.and_then(|target| {
        let mut config = MockConfig::parse(file.text.as_bytes()).ok()?;
        config.mock.target = Some(target);
        Some(config)
    });
    match config {
        None => Cow::Borrowed(file),
        Some(config) => Cow::Owned(InjectedFile {
            text: config.to_json(),
            ..file.clone()
        }),
    }
}

/// Rewrites `localhost:PORT` and similar addresses whose port has a replacement.
fn rewrite(text: &str, replacement: impl Fn(&str, u16) -> Option<u16>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, host)) = LOCAL
        .iter()
        .chain([&HOST])
        .filter_map(|host| rest.find(host).map(|at| (at, *host)))
        .min()
    {
        let after = at + host.len();
        out.push_str(&rest[..after]);
        rest = &rest[after..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits].parse::<u16>().ok();
        match number.and_then(|requested| replacement(host, requested)) {
            Some(actual) => out.push_str(&actual.to_string()),
            None => out.push_str(&rest[..digits]),
        }
        rest = &rest[digits..];
    }
    out.push_str(rest);
    out
}

/// Assigned port for a requested one, first of the service itself; `None` while a service here still holds that port.
fn substitute(requested: u16, desired: &Desired, service: &Service, ports: &PortMap) -> Option<u16> {
    let assigned = |of: &Service| {
        of.ports
            .iter()
            .find(|port| port.requested == Some(requested))
            .and_then(|port| ports.get(&port.key(&of.name)).copied())
    };
    if let Some(own) = assigned(service) {
        return Some(own);
    }
    if ports.values().any(|host| *host == requested) {
        return None;
    }
    desired.services.values().find_map(assigned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::ident::{PortKey, Protocol, ProtocolPort, ServiceName};

    fn shop() -> (Desired, PortMap) {
        let text = r#"
project: {name: shop}
services:
  api: {image: "api:1", container: {name: shop-api, ports: ["8081:80"]}}
  web:
    image: "web:1"
    container:
      name: shop-web
      ports: ["8080:8080"]
      healthcheck:
        type: exec
        command: ["probe", "http://localhost:8080/", "http://127.0.0.1:8081/", "host.docker.internal:8080", "localhost:5432"]
mocks:
  away: {port: 9100, mode: record, openapi: ./a.yaml, target: "http://host.docker.internal:8081/v1"}
  far: {port: 9101, mode: record, openapi: ./a.yaml, target: "http://example.org:8081/"}
"#;
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let identity = SpecContext {
            directory: "/specs".to_owned(),
            ..SpecContext::default()
        };
        let admission = admit(&written, &identity);
        let desired = admission
            .desired
            .unwrap_or_else(|| panic!("{:?}", admission.diagnostics));
        let ports = [("api", 80, 20_081), ("web", 8080, 20_080)].map(|(service, number, host)| {
            let container = ProtocolPort::new(number, Protocol::Tcp);
            let service = ServiceName::new(service).unwrap();
            (PortKey { service, container }, host)
        });
        (desired, ports.into())
    }

    fn of<'a>(desired: &'a Desired, name: &str) -> &'a Service {
        &desired.services[&ServiceName::new(name).unwrap()]
    }

    #[test]
    fn exec_probe_follows_moved_host_ports_only() {
        let (desired, ports) = shop();
        let web = of(&desired, "web");
        let Some(crate::desired::ProbeHandler::Exec { command }) =
            web.probe.as_ref().map(|probe| &probe.kind)
        else {
            panic!("{:?}", web.probe)
        };
        assert_eq!(
            rewrite_probe_command(command, &desired, web, &ports)[1..],
            [
                "http://localhost:8080/",
                "http://127.0.0.1:20081/",
                "host.docker.internal:20080",
                "localhost:5432"
            ]
        );
    }

    #[test]
    fn listen_addresses_and_commands_keep_container_ports() {
        let (desired, ports) = shop();
        let web = of(&desired, "web");
        let cases = [
            ("0.0.0.0:8080", "0.0.0.0:8080", "0.0.0.0:8080"),
            ("0.0.0.0:8081", "0.0.0.0:20081", "0.0.0.0:20081"),
            (
                "http://localhost:8080",
                "http://localhost:20080",
                "http://localhost:8080",
            ),
            (
                "http://localhost:8081",
                "http://localhost:20081",
                "http://localhost:20081",
            ),
            (
                "host.docker.internal:8080",
                "host.docker.internal:20080",
                "host.docker.internal:20080",
            ),
        ];
        for (written, as_variable, as_word) in cases {
            assert_eq!(rewrite_variable(written, &desired, web, &ports), as_variable);
            assert_eq!(rewrite_word(written, &desired, web, &ports), as_word);
        }
    }

    #[test]
    fn mock_target_follows_a_moved_port() {
        let (desired, ports) = shop();
        let target = |name: &str, ports: &PortMap| {
            let mock = of(&desired, name);
            let file = rewrite_file(mock.injected_file.as_ref().unwrap(), &desired, mock, ports);
            let served = MockConfig::parse(file.text.as_bytes()).unwrap();
            (served.mock.target.unwrap(), file.into_owned())
        };
        let (unmoved, before) = target("away", &PortMap::new());
        let (moved, after) = target("away", &ports);
        assert_eq!(unmoved, "http://host.docker.internal:8081/v1");
        assert_eq!(moved, "http://host.docker.internal:20081/v1");
        assert_ne!(before, after, "it is copied into its container again");
        assert_eq!(target("far", &ports), target("far", &PortMap::new()));
        assert_eq!(target("far", &ports).0, "http://example.org:8081/");
    }
}
