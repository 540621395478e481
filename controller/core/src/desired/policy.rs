//! Policy: settings that give access to the host. Privileges need an operator, and no file gets a namespace of the host.

use argus_crds::compose::compose_key;
use argus_crds::{Diagnostic, Service};
use serde::{Deserialize, Serialize};

use crate::desired::admit::SpecContext;
use crate::desired::identity::shown;
use crate::desired::{paths, process, shared_network};

/// Privileges of a container, which only an operator permits. Each one can be enough to control the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// True for a container with all privileges.
    pub privileged: bool,
    /// Added capabilities, without `CAP_`.
    pub cap_add: Vec<String>,
    /// Devices of the host.
    pub devices: Vec<Device>,
}

/// Device of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Path on the host.
    pub host: String,
    /// Path in the container.
    pub container: String,
    /// Letters of `rwm`: read, write, create.
    pub permissions: String,
}

/// Reports all forbidden settings of a service, and returns the permitted ones.
pub(super) fn check(
    service: &Service,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Privileges {
    check_namespaces(service, path, diagnostics);
    if context.host.allowed && context.ceiling.allow_privileged {
        return Privileges {
            privileged: service.privileged,
            cap_add: process::resolve_capabilities(&service.cap_add, &format!("{path}.capAdd"), diagnostics),
            devices: resolve_devices(&service.devices, &format!("{path}.devices"), diagnostics),
        };
    }
    let mut reject = |key: &str, message: String| {
        let written = if context.is_compose {
            compose_key(key)
        } else {
            key.to_owned()
        };
        let hint = format!(
            "POLICY_VIOLATION: remove `{written}`, or run `argus allow` and start the controller with `--allow-privileged`"
        );
        diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
    };
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{}`", shown(name))).collect();
        names.join(", ")
    };
    if service.privileged {
        reject("privileged", "`privileged` is not allowed".to_owned());
    }
    if !service.cap_add.is_empty() {
        let message = format!(
            "additional capabilities are not allowed: {}",
            list(&service.cap_add)
        );
        reject("capAdd", message);
    }
    if !service.devices.is_empty() {
        let message = format!("host devices are not allowed: {}", list(&service.devices));
        reject("devices", message);
    }
    Privileges::default()
}

fn check_namespaces(service: &Service, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    let modes = [
        ("networkMode", &service.network_mode, "network"),
        ("pid", &service.pid, "process namespace"),
        ("ipc", &service.ipc, "IPC namespace"),
    ];
    for (key, mode, what) in modes {
        match mode.as_deref() {
            None | Some("" | "private" | "default" | "bridge") => {}
            // Admission checks the name of the service.
            Some(mode) if key == "networkMode" && mode.starts_with(shared_network::SERVICE) => {}
            Some(mode) => {
                let message = format!(
                    "`{}` is not an allowed {what}, because each service has a private one",
                    shown(mode)
                );
                let hint = format!(
                    "POLICY_VIOLATION: remove `{key}`, because containers are isolated from the host and from each other"
                );
                diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
            }
        }
    }
}

fn resolve_devices(texts: &[String], path: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<Device> {
    let mut devices = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let device = parse_device(text);
        if device.is_none() {
            let message = format!("`{}` is not a device", shown(text));
            let hint = "write `/dev/name`, `/dev/name:/dev/other` or `/dev/name:/dev/other:rw`";
            diagnostics.push(Diagnostic::error(format!("{path}[{index}]"), message).hint(hint));
        }
        devices.extend(device);
    }
    devices
}

fn parse_device(text: &str) -> Option<Device> {
    let mut parts = text.split(':');
    let host = parts.next()?;
    let container = parts.next().unwrap_or(host);
    let permissions = parts.next().unwrap_or("rwm");
    let is_path = |path: &str| path.starts_with('/') && paths::is_sane(path);
    let is_permission = !permissions.is_empty() && permissions.chars().all(|c| "rwm".contains(c));
    (is_path(host) && is_path(container) && is_permission && parts.next().is_none()).then(|| Device {
        host: host.to_owned(),
        container: container.to_owned(),
        permissions: permissions.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{Admission, admit};

    fn admitted(keys: &str, is_project_allowed: bool, has_flag: bool) -> Admission {
        let text =
            format!("project: {{ name: shop }}\nservice: {{ image: x, container: {{ name: api }}, {keys} }}");
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let mut context = SpecContext::default();
        context.host.allowed = is_project_allowed;
        context.ceiling.allow_privileged = has_flag;
        admit(&spec, &context)
    }

    #[test]
    fn privileges_need_the_permission_of_an_operator() {
        let keys = "privileged: true, capAdd: [cap_net_admin], devices: [/dev/kvm, \"/dev/a:/dev/b:r\"]";
        for (is_project_allowed, has_flag) in [(false, false), (true, false), (false, true)] {
            let refused = admitted(keys, is_project_allowed, has_flag);
            assert!(refused.desired.is_none());
            assert_eq!(refused.diagnostics.len(), 3);
            for diagnostic in refused.diagnostics {
                let hint = diagnostic.hint.unwrap();
                assert!(
                    hint.starts_with("POLICY_VIOLATION: ") && hint.contains("`--allow-privileged`"),
                    "{hint}"
                );
            }
        }
        let desired = admitted(keys, true, true).desired.unwrap();
        let privileges = &desired.services["api"].process.privileges;
        assert!(privileges.privileged);
        assert_eq!(privileges.cap_add, ["NET_ADMIN"]);
        let devices: Vec<_> = privileges
            .devices
            .iter()
            .map(|device| [&device.host, &device.container, &device.permissions])
            .collect();
        assert_eq!(
            devices,
            [["/dev/kvm", "/dev/kvm", "rwm"], ["/dev/a", "/dev/b", "r"]]
        );
    }

    #[test]
    fn namespaces_of_the_host_are_always_refused() {
        for keys in [
            "networkMode: host",
            "pid: host",
            "ipc: host",
            "devices: [kvm]",
            "devices: [\"/dev/a:/dev/b:x\"]",
            "capAdd: [\"a b\"]",
        ] {
            assert!(admitted(keys, true, true).desired.is_none(), "{keys}");
        }
    }
}
