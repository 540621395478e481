//! Target of a command: an environment, or one of its services.

use clap::Args;

use crate::api::target::parse_target;
use crate::exit::Failure;

/// Arguments `ENV`, `ENV SERVICE` or `ENV/SERVICE`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service name [default: all services]
    service: Option<String>,
}

impl Target {
    /// Returns validated names of the environment and the service. They are safe as parts of a path.
    pub(crate) fn parse(&self) -> Result<(String, Option<String>), Failure> {
        parse_target(&self.target, self.service.as_deref())
    }
}
