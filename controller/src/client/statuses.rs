//! Statuses as the caller may see them: of the controller in this process, or from the files of another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::status::public_view;
use argus_crds::status::EnvironmentStatus;

use super::{ControllerClient, Transport};
use crate::local_state::status;
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::view::Statuses;

impl ControllerClient {
    /// Returns all statuses: of the controller in this process, or from its files.
    pub(crate) async fn statuses(&self) -> Result<Arc<Statuses>, Failure> {
        if self.in_process_parts().is_some() {
            return self.read_statuses();
        }
        self.run_blocking(Self::read_statuses).await
    }

    /// Returns the statuses of the given environments, or of all. An environment without a status has `None`.
    pub(crate) async fn select_statuses(
        &self,
        names: Option<&[String]>,
    ) -> Result<Vec<(String, Option<EnvironmentStatus>)>, Failure> {
        let Some(names) = names else {
            let statuses = self.statuses().await?;
            let all = statuses.environments.iter();
            return Ok(all
                .map(|(name, status)| (name.clone(), Some(EnvironmentStatus::clone(status))))
                .collect());
        };
        if let Some(parts) = self.in_process_parts() {
            let statuses = parts.statuses.borrow();
            let find = |name: &String| (name.clone(), self.find_shown(&statuses, name));
            return Ok(names.iter().map(find).collect());
        }
        let names = names.to_vec();
        self.run_blocking(move |client| {
            let liveness = client.liveness();
            let read = |name: String| {
                let found = status::read_environment(client.state(), &name)?;
                Ok((name, found.map(|status| client.shown(liveness.mark(status)))))
            };
            names.into_iter().map(read).collect()
        })
        .await
    }

    /// Returns all statuses. For a controller in another process, it reads files. Unless the running controller wrote them,
    /// they are marked as the last known state.
    pub(crate) fn read_statuses(&self) -> Result<Arc<Statuses>, Failure> {
        let all = match &self.transport {
            Transport::InProcess(parts) => parts.statuses.borrow().clone(),
            Transport::Remote => {
                // Before the files: they are at least as new.
                let liveness = self.liveness();
                let all = status::read_environments(&self.state)?.into_iter();
                let all = all.map(|status| liveness.mark(status));
                let controller = status::read_controller(&self.state)?;
                Arc::new(Statuses {
                    environments: all
                        .map(|status| (status.environment.clone(), Arc::new(status)))
                        .collect(),
                    // The errors contain them.
                    calls: BTreeMap::new(),
                    controller: controller.unwrap_or_default(),
                })
            }
        };
        Ok(if !self.is_trusted {
            Arc::new(all.public())
        } else if correlation::shows_calls() {
            Arc::new(all.with_calls())
        } else {
            all
        })
    }

    /// Returns the status of an environment as the caller may see it.
    fn shown(&self, status: EnvironmentStatus) -> EnvironmentStatus {
        if self.is_trusted {
            status
        } else {
            public_view::environment(&status)
        }
    }

    /// Returns the status of an existing environment. Reads files on the pool, for callers that also serve other requests.
    pub(crate) async fn find_environment(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.read_status(env) {
            return Ok(status);
        }
        let env = env.to_owned();
        self.run_blocking(move |client| client.read_environment(&env))
            .await
    }

    /// Returns the status of an existing environment. It can read files.
    pub(crate) fn read_environment(&self, env: &str) -> Result<EnvironmentStatus, Failure> {
        if let Some(status) = self.read_status(env) {
            return Ok(status);
        }
        let liveness = self.liveness();
        // Use the same error message for a missing environment everywhere.
        status::find_environment(&self.state, env).map(|status| self.shown(liveness.mark(status)))
    }

    /// Returns the last status that the controller in this process published.
    fn read_status(&self, env: &str) -> Option<EnvironmentStatus> {
        self.find_shown(&self.in_process_parts()?.statuses.borrow(), env)
    }

    /// Returns the status of an environment as the caller may see it, with the calls behind its errors if the request shows them.
    fn find_shown(&self, statuses: &Statuses, env: &str) -> Option<EnvironmentStatus> {
        let mut status = EnvironmentStatus::clone(statuses.environments.get(env)?);
        if let Some(calls) = statuses.calls.get(env).filter(|_| correlation::shows_calls()) {
            status.put_calls(calls);
        }
        Some(self.shown(status))
    }
}
