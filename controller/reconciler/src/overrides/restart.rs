//! Conditions of a restart or a retry of services on request.

use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::ident::{EnvName, ServiceName};

use super::{OverrideInputs, Overrides, check_service};
use crate::command::CommandError;

impl Overrides {
    /// Returns the accepted spec of an environment that has the service and is not taken down.
    pub(crate) fn find_running(
        &self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Arc<Accepted>, CommandError> {
        let accepted = self.find(env, inputs)?;
        check_service(&accepted, service)?;
        if self.down.contains_key(env) {
            let message = format!("`{env}` was taken down; start it with `argus retry {env}`");
            return Err(CommandError::Refused(message));
        }
        Ok(accepted)
    }

    /// Returns the accepted spec of an environment that is neither taken down nor held.
    pub(crate) fn check_restart(
        &self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Arc<Accepted>, CommandError> {
        let accepted = self.find_running(env, service, inputs)?;
        let hold = match service {
            Some(service) => self.requests.hold(env, service, inputs.now),
            None => self.requests.environment_hold(env, inputs.now),
        };
        if hold.is_some() || accepted.desired.hold {
            let message = format!("`{env}` is held; end the hold before a restart");
            return Err(CommandError::Refused(message));
        }
        Ok(accepted)
    }
}
