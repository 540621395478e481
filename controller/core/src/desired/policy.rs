//! Policy: settings that no spec file can use, because they give access to the host.

use argus_crds::{Diagnostic, Service};

use crate::desired::identity::shown;

/// Reports all forbidden settings of a service.
pub(super) fn check(service: &Service, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    let mut reject = |key: &str, message: String| {
        let hint = format!(
            "POLICY_VIOLATION: remove `{key}`, because containers are isolated from the host and from each other"
        );
        diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
    };
    if service.privileged {
        reject("privileged", "`privileged` is not allowed".to_owned());
    }
    if !service.cap_add.is_empty() {
        let requested: Vec<String> = service
            .cap_add
            .iter()
            .map(|cap| format!("`{}`", shown(cap)))
            .collect();
        reject(
            "capAdd",
            format!(
                "additional capabilities are not allowed: {}",
                requested.join(", ")
            ),
        );
    }
    if !service.devices.is_empty() {
        let requested: Vec<String> = service
            .devices
            .iter()
            .map(|device| format!("`{}`", shown(device)))
            .collect();
        reject(
            "devices",
            format!("host devices are not allowed: {}", requested.join(", ")),
        );
    }
    let modes = [
        ("networkMode", &service.network_mode, "network"),
        ("pid", &service.pid, "process namespace"),
        ("ipc", &service.ipc, "IPC namespace"),
    ];
    for (key, mode, what) in modes {
        match mode.as_deref() {
            None | Some("" | "private" | "default" | "bridge") => {}
            Some(mode) => reject(
                key,
                format!(
                    "`{}` is not an allowed {what}, because each service has a private one",
                    shown(mode)
                ),
            ),
        }
    }
}
