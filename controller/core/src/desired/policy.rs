//! What no file may ask for: anything that hands out the host.

use argus_crds::{Diagnostic, Service};

use crate::desired::identity::shown;

/// Complains about everything that a service asks for and never gets.
pub(super) fn check(service: &Service, path: &str, to: &mut Vec<Diagnostic>) {
    let mut refuse = |key: &str, message: String| {
        let hint = format!(
            "POLICY_VIOLATION: containers are kept apart from the host and from each other; leave `{key}` out"
        );
        to.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
    };
    if service.privileged {
        refuse("privileged", "`privileged` is never granted".to_owned());
    }
    if !service.cap_add.is_empty() {
        let asked: Vec<String> = service
            .cap_add
            .iter()
            .map(|cap| format!("`{}`", shown(cap)))
            .collect();
        refuse(
            "capAdd",
            format!("further capabilities are never granted: {}", asked.join(", ")),
        );
    }
    if !service.devices.is_empty() {
        let asked: Vec<String> = service
            .devices
            .iter()
            .map(|device| format!("`{}`", shown(device)))
            .collect();
        refuse(
            "devices",
            format!("devices of the host are never granted: {}", asked.join(", ")),
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
            Some(mode) => refuse(
                key,
                format!(
                    "`{}` is no {what} that a service gets: it has its own",
                    shown(mode)
                ),
            ),
        }
    }
}
