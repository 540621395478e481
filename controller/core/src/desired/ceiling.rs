//! Ceiling: limits of the operator for all files. A file that requests more is refused, and a lower limit replaces a default.

use argus_crds::{ByteSize, Diagnostic, PortRange};
use serde::Deserialize;

use crate::desired::{ContainerLimits, PortPolicy, Service};

/// Limits of the operator; by default, there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Ceiling {
    /// Maximum number of processes of a container.
    pub max_pids: Option<u32>,
    /// Maximum size of all log files of a container together.
    pub max_log_size: Option<ByteSize>,
    /// Lowest host port that a file may request.
    pub min_port: Option<u16>,
    /// True if a file may publish ports only on loopback addresses.
    pub local_ports: bool,
    /// True if a file may not allow processes to gain privileges.
    pub no_new_privileges: bool,
    /// True if a file of an allowed project may request privileges. Only a flag sets it, and no settings file.
    #[serde(skip)]
    pub allow_privileged: bool,
}

impl Ceiling {
    /// Combines two ceilings: the lower limit counts, so no settings file raises that of another.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            max_pids: self.max_pids.into_iter().chain(other.max_pids).min(),
            max_log_size: self.max_log_size.into_iter().chain(other.max_log_size).min(),
            min_port: self.min_port.max(other.min_port),
            local_ports: self.local_ports || other.local_ports,
            no_new_privileges: self.no_new_privileges || other.no_new_privileges,
            allow_privileged: self.allow_privileged && other.allow_privileged,
        }
    }
}

/// Reports everything above the ceiling, and lowers limits that the file leaves at their defaults.
pub(super) fn apply(
    ceiling: &Ceiling,
    limits: &mut ContainerLimits,
    ports: &mut PortPolicy,
    services: &[(String, Service)],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut refuse = |path: String, message: String, remedy: String| {
        let hint = format!("POLICY_VIOLATION: {remedy}; the ceiling is in the settings of the operator");
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
    };
    let default = ContainerLimits::default();
    if let Some(most) = ceiling.max_pids.filter(|most| limits.pids_limit > *most) {
        if limits.pids_limit == default.pids_limit {
            limits.pids_limit = most;
        } else {
            let message = format!(
                "`pidsLimit` is {}, above the ceiling `max-pids` of {most}",
                limits.pids_limit
            );
            refuse(
                "argus.policy.pidsLimit".to_owned(),
                message,
                format!("write at most {most}"),
            );
        }
    }
    let log_size = |limits: &ContainerLimits| limits.log_max_size.saturating_mul(limits.log_max_files.into());
    if let Some(most) = ceiling
        .max_log_size
        .filter(|most| log_size(limits) > most.bytes())
    {
        if log_size(limits) == log_size(&default) {
            limits.log_max_size = (most.bytes() / u64::from(limits.log_max_files)).max(1_000);
        } else {
            let all = ByteSize::from_bytes(log_size(limits));
            let message = format!(
                "`logMaxSize` times `logMaxFiles` is {all}, above the ceiling `max-log-size` of {most}"
            );
            refuse(
                "argus.policy.logMaxSize".to_owned(),
                message,
                format!("keep at most {most}"),
            );
        }
    }
    if ceiling.no_new_privileges && !limits.no_new_privileges {
        let message = "`noNewPrivileges: false` is not allowed by the ceiling `no-new-privileges`".to_owned();
        let path = "argus.policy.noNewPrivileges".to_owned();
        refuse(path, message, "leave it out".to_owned());
    }
    let gains = |service: &Service| service.process.no_new_privileges == Some(false);
    for (path, _) in services
        .iter()
        .filter(|(_, service)| ceiling.no_new_privileges && gains(service))
    {
        let message = "`noNewPrivileges: false` is not allowed by the ceiling `no-new-privileges`".to_owned();
        refuse(
            path.clone() + ".noNewPrivileges",
            message,
            "leave it out".to_owned(),
        );
    }
    if let Some(least) = ceiling.min_port.filter(|least| ports.low < *least) {
        let default = PortRange::default();
        if (ports.low, ports.high) == (default.low, default.high) {
            (ports.low, ports.high) = (
                least,
                default.high.max(least.saturating_add(default.high - default.low)),
            );
        } else {
            let message = format!(
                "`portRange` begins at {}, below the ceiling `min-port` of {least}",
                ports.low
            );
            let path = "isolation.portRange".to_owned();
            refuse(path, message, format!("begin it at {least} or above"));
        }
    }
    for (path, service) in services {
        for port in &service.ports {
            let place = || path.clone() + ".container.ports";
            if let (Some(least), Some(number)) = (ceiling.min_port, port.requested)
                && number < least
            {
                let message = format!("the host port {number} is below the ceiling `min-port` of {least}");
                refuse(place(), message, format!("publish a host port from {least}"));
            }
            if let Some(address) = port.address.filter(|it| ceiling.local_ports && !it.is_loopback()) {
                let message =
                    format!("the published address {address} is not allowed by the ceiling `local-ports`");
                refuse(place(), message, "publish on 127.0.0.1".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{Admission, SpecContext, admit};

    fn admitted(ceiling: Ceiling, policy: &str, ports: &str) -> Admission {
        let text = format!(
            "project: {{ name: shop }}\nservice: {{ image: demo, container: {{ name: api, ports: [{ports}] }} }}\n{policy}"
        );
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let context = SpecContext {
            ceiling,
            ..SpecContext::default()
        };
        admit(&spec, &context)
    }

    fn all() -> Ceiling {
        Ceiling {
            max_pids: Some(100),
            max_log_size: Some(ByteSize::from_bytes(6_000_000)),
            min_port: Some(1_025),
            local_ports: true,
            no_new_privileges: true,
            allow_privileged: false,
        }
    }

    #[test]
    fn request_above_a_ceiling_is_refused_with_its_name() {
        for (policy, ports, name) in [
            ("argus: { policy: { pidsLimit: 101 } }", "", "`max-pids`"),
            ("argus: { policy: { logMaxSize: 3MB } }", "", "`max-log-size`"),
            ("argus: { policy: { logMaxFiles: 9 } }", "", "`max-log-size`"),
            (
                "argus: { policy: { noNewPrivileges: false } }",
                "",
                "`no-new-privileges`",
            ),
            ("", "'443:443'", "`min-port`"),
            ("isolation: { portRange: [1024, 1030] }", "':80'", "`min-port`"),
            ("", "'0.0.0.0:8080:80'", "`local-ports`"),
            ("", "'[::]:8080:80'", "`local-ports`"),
        ] {
            let refused = admitted(all(), policy, ports);
            assert!(refused.desired.is_none(), "{policy} {ports}");
            let errors: Vec<_> = refused.diagnostics.iter().filter(|it| it.is_error()).collect();
            let [only] = errors.as_slice() else {
                panic!("{policy} {ports}: {errors:#?}");
            };
            assert!(only.message.contains(name), "{only:?}");
            let hint = only.hint.as_deref().unwrap_or_default();
            assert!(hint.starts_with("POLICY_VIOLATION: "), "{only:?}");
            let open = admitted(Ceiling::default(), policy, ports);
            assert!(open.desired.is_some(), "{:#?}", open.diagnostics);
        }
    }

    #[test]
    fn service_is_below_the_ceiling_too() {
        for (value, is_accepted) in [("false", false), ("true", true)] {
            let text = format!(
                "project: {{ name: shop }}\nservice: {{ image: demo, noNewPrivileges: {value}, container: {{ name: api }} }}\n"
            );
            let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
            let context = SpecContext {
                ceiling: all(),
                ..SpecContext::default()
            };
            let admission = admit(&spec, &context);
            assert_eq!(admission.desired.is_some(), is_accepted, "{value}");
            let refused = admission.diagnostics.iter().find(|it| it.is_error());
            let place = (!is_accepted).then_some("service.noNewPrivileges");
            assert_eq!(refused.map(|it| it.path.as_str()), place, "{value}");
        }
    }

    #[test]
    fn plain_file_gets_the_lower_limits() {
        let ports = "'8080:80', '127.0.0.1:8081:81', ':82'";
        let plain = admitted(all(), "", ports).desired.unwrap().container_limits;
        assert_eq!((plain.pids_limit, plain.log_max_size), (100, 2_000_000));
        let low = "argus: { policy: { pidsLimit: 7, logMaxSize: 1KB } }";
        let low = admitted(all(), low, ports).desired.unwrap().container_limits;
        assert_eq!((low.pids_limit, low.log_max_size), (7, 1_000));
        let none = admitted(Ceiling::default(), "", ports).desired.unwrap();
        assert_eq!(none.container_limits, ContainerLimits::default());
        let above = Ceiling {
            min_port: Some(20_000),
            ..Ceiling::default()
        };
        let ports = admitted(above, "", "':82'").desired.unwrap().ports;
        assert_eq!((ports.low, ports.high), (20_000, 20_999));
    }

    #[test]
    fn lowest_ceiling_of_all_settings_files_counts() {
        let wide = Ceiling {
            max_pids: Some(4_000_000),
            max_log_size: Some(ByteSize::from_bytes(u64::MAX)),
            min_port: Some(1),
            ..Ceiling::default()
        };
        assert_eq!(wide.and(all()), all());
        assert_eq!(all().and(wide), all());
        assert_eq!(all().and(Ceiling::default()), all());
    }
}
