//! Target of a command: an environment, or one of its services.

use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::api::target::resolve_target;
use crate::process::exit::Failure;

/// Arguments `ENV`, `ENV SERVICE` or `ENV/SERVICE`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Environment, or ENVIRONMENT/SERVICE [default: the only environment]
    target: Option<String>,
    /// Service name [default: all services]
    service: Option<String>,
}

impl Target {
    /// Returns validated names of the environment and the service. They are safe as parts of a path.
    pub(crate) fn resolve(&self, state: &StateDir) -> Result<(String, Option<String>), Failure> {
        resolve_target(state, self.target.as_deref(), self.service.as_deref())
    }
}
