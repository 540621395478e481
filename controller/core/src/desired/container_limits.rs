//! Limits and privileges of the containers of an environment, with their defaults.

use argus_crds::{Diagnostic, Policy};
use serde::{Deserialize, Serialize};

use super::ProcessOptions;

/// Minimum size of a log file in bytes; engines reject 0.
const MIN_LOG_SIZE: u64 = 1_000;
/// Maximum size of a log file in bytes; a larger limit does not protect a disk.
const MAX_LOG_SIZE: u64 = 1_000_000_000;

/// Limits and privileges of a container. The default values apply to settings that a file omits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerLimits {
    /// True if an init process reaps child processes and forwards signals.
    pub init: bool,
    /// True if the kernel prevents its processes from gaining privileges.
    pub no_new_privileges: bool,
    /// Maximum number of processes.
    pub pids_limit: u32,
    /// Maximum size of one log file in bytes, 1 kB to 1 GB.
    pub log_max_size: u64,
    /// Maximum number of log files.
    pub log_max_files: u32,
}

impl Default for ContainerLimits {
    fn default() -> Self {
        Self::from(&Policy::default())
    }
}

impl From<&Policy> for ContainerLimits {
    fn from(policy: &Policy) -> Self {
        Self {
            init: policy.init,
            no_new_privileges: policy.no_new_privileges,
            pids_limit: policy.pids_limit,
            log_max_size: policy.log_max_size.bytes(),
            log_max_files: policy.log_max_files,
        }
    }
}

impl ContainerLimits {
    /// Returns the limits of a container, whose own settings replace those of the environment.
    pub(crate) fn of_container(&self, process: &ProcessOptions) -> Self {
        Self {
            init: process.init.unwrap_or(self.init),
            no_new_privileges: process.no_new_privileges.unwrap_or(self.no_new_privileges),
            ..self.clone()
        }
    }
}

/// Reads `argus.policy` and reports a log size outside of its bounds. The parser has checked the other numbers.
pub(super) fn resolve_container_limits(
    policy: &Policy,
    diagnostics: &mut Vec<Diagnostic>,
) -> ContainerLimits {
    let container_limits = ContainerLimits::from(policy);
    if !(MIN_LOG_SIZE..=MAX_LOG_SIZE).contains(&container_limits.log_max_size) {
        let message = format!("`logMaxSize` is {}, outside of 1KB to 1GB", policy.log_max_size);
        let hint = "write a size from `1KB` to `1GB`";
        diagnostics.push(Diagnostic::error("argus.policy.logMaxSize", message).hint(hint));
    }
    container_limits
}
