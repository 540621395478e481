//! How tightly the containers of an environment are confined, unless its file says otherwise.

use argus_crds::{Diagnostic, Policy};
use serde::{Deserialize, Serialize};

/// The smallest log file, in bytes: engines do not take none.
const SMALLEST_LOG: u64 = 1_000;
/// The largest log file, in bytes: beyond, a log is not bounded in any sense that helps a disk.
const LARGEST_LOG: u64 = 1_000_000_000;

/// How tightly a container is confined. What a file leaves out is as it is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Confinement {
    /// An init process reaps its children, and takes signals for a main process that does not.
    pub init: bool,
    /// No process of it gains privileges.
    pub no_new_privileges: bool,
    /// The most processes of it.
    pub pids_limit: u32,
    /// The largest size of one file of its log, in bytes.
    pub log_max_size: u64,
    /// The most files of its log.
    pub log_max_files: u32,
}

impl Default for Confinement {
    fn default() -> Self {
        Self::from(&Policy::default())
    }
}

impl From<&Policy> for Confinement {
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

impl Confinement {
    /// Left out of what is written and hashed: a file that says nothing of it has the hash that it always had.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What `argus.policy` asks for; complains about a log without a bound. Its numbers were looked at when the file was read.
pub(super) fn of(policy: &Policy, to: &mut Vec<Diagnostic>) -> Confinement {
    let wanted = Confinement::from(policy);
    if !(SMALLEST_LOG..=LARGEST_LOG).contains(&wanted.log_max_size) {
        let message = format!("`logMaxSize` is {}", policy.log_max_size);
        let hint = "write a size from `1KB` to `1GB`";
        to.push(Diagnostic::error("argus.policy.logMaxSize", message).hint(hint));
    }
    wanted
}
