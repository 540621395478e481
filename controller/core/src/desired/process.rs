//! Settings of a container's process that most files omit.

use std::collections::BTreeMap;

use argus_crds::{Diagnostic, Service as ServiceSpec};
use serde::{Deserialize, Serialize};

use super::identity::shown;
use super::{InjectedFile, Privileges, SharedNetwork, paths};

/// Names of signals without `SIG`, in the order of their numbers from 1.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// Number of the last real-time signal.
const LAST_SIGNAL: u8 = 64;
/// Limits of a process that cannot starve the host. Priorities are missing: with one, a process can stop all others.
const ULIMITS: [&str; 12] = [
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nofile",
    "nproc",
    "rss",
    "sigpending",
    "stack",
];
/// Settings of the kernel that belong to the namespaces of a container.
const SYSCTLS: [&str; 3] = ["net.", "fs.mqueue.", "kernel.shm"];
const OTHER_SYSCTLS: [&str; 4] = ["kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"];
/// Maximum length of a host name on Linux.
const MAX_HOSTNAME: usize = 63;

/// Settings of a container's process; the default leaves all of them to the image and the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessOptions {
    /// Signal of a stop; `None` for that of the image.
    pub stop_signal: Option<String>,
    /// Host name in the container; `None` for the container ID.
    pub hostname: Option<String>,
    /// True for a read-only root file system.
    pub read_only: bool,
    /// Presence of an init process; `None` for that of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Protection from new privileges; `None` for that of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_new_privileges: Option<bool>,
    /// True to keep the standard input open.
    pub stdin_open: bool,
    /// Soft and hard limits by name; -1 for none.
    pub ulimits: BTreeMap<String, (i64, i64)>,
    /// Removed capabilities, without `CAP_`.
    pub cap_drop: Vec<String>,
    /// Settings of the kernel in the container's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Files that the container receives before its first start. Texts can contain `{{ports…}}` and `{{services…}}`, which the
    /// renderer resolves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InjectedFile>,
    /// Privileges that an operator permits.
    #[serde(skip_serializing_if = "crate::desired::is_default")]
    pub privileges: Privileges,
    /// Network namespace of another container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_network: Option<SharedNetwork>,
}

/// Reads the settings of a service, and reports invalid values.
pub(super) fn resolve(
    spec: &ServiceSpec,
    path: &str,
    files: Vec<InjectedFile>,
    privileges: Privileges,
    diagnostics: &mut Vec<Diagnostic>,
) -> ProcessOptions {
    let mut report = |key: &str, message: String, hint: &str| {
        diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
    };
    if let Some(signal) = spec.stop_signal.as_ref().filter(|signal| !is_signal(signal)) {
        let message = format!("`{}` is not a signal", shown(signal));
        report(
            "stopSignal",
            message,
            "write a name such as `SIGINT`, or a number from 1 to 64",
        );
    }
    if let Some(name) = spec.hostname.as_ref().filter(|name| !is_hostname(name)) {
        let message = format!("`{}` is not a host name", shown(name));
        report(
            "hostname",
            message,
            "write letters, digits, `-` and `.`, at most 63 characters",
        );
    }
    let mut ulimits = BTreeMap::new();
    for (name, text) in &spec.ulimits {
        let key = format!("ulimits.{name}");
        if !ULIMITS.contains(&name.as_str()) {
            let message = format!("the limit `{}` is not permitted", shown(name));
            let hint = format!(
                "POLICY_VIOLATION: remove it; permitted are {}",
                ULIMITS.join(", ")
            );
            report(&key, message, &hint);
        } else if let Some(limits) = parse_ulimit(text) {
            ulimits.insert(name.clone(), limits);
        } else {
            let message = format!("`{}` is not a limit", shown(text));
            report(
                &key,
                message,
                "write a number, or `soft:hard` with soft at most hard; -1 is no limit",
            );
        }
    }
    for name in spec.sysctls.keys().filter(|name| !is_own_sysctl(name)) {
        let message = format!(
            "the kernel setting `{}` does not belong to a container alone",
            shown(name)
        );
        let hint = "POLICY_VIOLATION: remove it; a container has its own `net.*`, `fs.mqueue.*`, `kernel.shm*`, `kernel.msg*` and `kernel.sem`";
        report(&format!("sysctls.{name}"), message, hint);
    }
    let cap_drop = resolve_capabilities(&spec.cap_drop, &format!("{path}.capDrop"), diagnostics);
    ProcessOptions {
        stop_signal: spec.stop_signal.clone(),
        hostname: spec.hostname.clone(),
        read_only: spec.read_only,
        init: spec.init,
        no_new_privileges: spec.no_new_privileges,
        stdin_open: spec.stdin_open,
        ulimits,
        cap_drop,
        sysctls: spec.sysctls.clone(),
        files,
        privileges,
        shared_network: None,
    }
}

/// Returns the names of capabilities without `CAP_`, and reports invalid ones.
pub(super) fn resolve_capabilities(
    names: &[String],
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut all = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let short = name.to_ascii_uppercase();
        let short = short.strip_prefix("CAP_").unwrap_or(&short);
        if short.is_empty() || !short.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            let message = format!("`{}` is not a capability", shown(name));
            let diagnostic = Diagnostic::error(format!("{path}[{index}]"), message);
            diagnostics.push(diagnostic.hint("write a name such as `NET_RAW`, or `ALL`"));
        } else {
            all.push(short.to_owned());
        }
    }
    all
}

fn is_signal(text: &str) -> bool {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let is_number = text
        .parse()
        .is_ok_and(|number: u8| (1..=LAST_SIGNAL).contains(&number));
    is_number || SIGNALS.contains(&name) || matches!(name, "RTMIN" | "RTMAX")
}

fn is_hostname(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !part.is_empty() && part.chars().all(is_valid) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= MAX_HOSTNAME && text.split('.').all(is_part)
}

fn parse_ulimit(text: &str) -> Option<(i64, i64)> {
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    let (soft, hard): (i64, i64) = (soft.parse().ok()?, hard.parse().ok()?);
    let is_ordered = hard == -1 || soft != -1 && soft <= hard;
    (soft >= -1 && hard >= -1 && is_ordered).then_some((soft, hard))
}

fn is_own_sysctl(name: &str) -> bool {
    // The runtime makes a path of the name. It also separates by `/`, and can exchange both separators.
    let is_plain = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let is_own = SYSCTLS.iter().any(|prefix| name.starts_with(prefix)) || OTHER_SYSCTLS.contains(&name);
    is_own && name.split('.').all(is_plain)
}

/// Reports a working directory that is relative, or in a folder of the kernel.
pub(super) fn check_working_dir(folder: Option<&str>, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    let Some(folder) = folder else { return };
    let real = paths::to_absolute("/", folder);
    let (problem, hint) = if !folder.starts_with('/') || !paths::is_sane(folder) {
        (
            "is not an absolute path in the container",
            "write a path that begins with `/`",
        )
    } else if paths::KERNEL_FOLDERS
        .iter()
        .any(|folder| paths::is_inside(&real, folder))
    {
        // A file of the engine's process can lead out of the container.
        (
            "is in a folder of the kernel",
            "POLICY_VIOLATION: write a folder of the image",
        )
    } else {
        return;
    };
    let message = format!("`{}` {problem}", shown(folder));
    diagnostics.push(Diagnostic::error(format!("{path}.workingDir"), message).hint(hint));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for valid in ["SIGINT", "QUIT", "1", "64", "SIGRTMIN"] {
            assert!(is_signal(valid), "{valid}");
        }
        for invalid in ["", "0", "65", "SIG", "sigint", "SIGFOO", "INT;"] {
            assert!(!is_signal(invalid), "{invalid}");
        }
    }

    #[test]
    fn limits_are_ordered_pairs() {
        assert_eq!(parse_ulimit("1024"), Some((1024, 1024)));
        assert_eq!(parse_ulimit("1:2"), Some((1, 2)));
        assert_eq!(parse_ulimit("5:-1"), Some((5, -1)));
        assert_eq!(parse_ulimit("-1"), Some((-1, -1)));
        for invalid in ["", "x", "2:1", "-1:5", "-2", "1:2:3", "1:"] {
            assert_eq!(parse_ulimit(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn kernel_settings_are_those_of_namespaces() {
        for own in [
            "net.core.somaxconn",
            "net.ipv4.ip_local_port_range",
            "kernel.shmmax",
            "fs.mqueue.msg_max",
        ] {
            assert!(is_own_sysctl(own), "{own}");
        }
        for other in [
            "vm.max_map_count",
            "kernel.panic",
            "net.a b",
            "kernel.core_pattern",
            "net.ipv4.../../x",
            "net.ipv4//..//x",
            "net./etc",
            "net..x",
            "net.",
            "",
        ] {
            assert!(!is_own_sysctl(other), "{other}");
        }
    }

    #[test]
    fn working_directory_is_a_folder_of_the_image() {
        for (folder, problem) in [
            ("/app", None),
            ("/device", None),
            ("app", Some("absolute")),
            ("/proc/self/fd/8", Some("kernel")),
            ("/app/../dev/./fd", Some("kernel")),
        ] {
            let mut diagnostics = Vec::new();
            check_working_dir(Some(folder), "services.a", &mut diagnostics);
            let message = diagnostics.first().map(|it| it.message.as_str());
            assert_eq!(message.is_some(), problem.is_some(), "{folder}: {message:?}");
            assert!(
                message.is_none_or(|it| it.contains(problem.unwrap_or_default())),
                "{message:?}"
            );
        }
    }

    #[test]
    fn host_names_are_those_of_dns() {
        assert!(is_hostname("rabbit-1.local"));
        for invalid in ["", "-a", "a-", "a..b", "a_b", &"a".repeat(64)] {
            assert!(!is_hostname(invalid), "{invalid}");
        }
    }
}
