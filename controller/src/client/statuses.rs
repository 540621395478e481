//! Statuses as the caller may see them: of the controller in this process, or from the files of another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::ident::EnvName;
use argus_core::status::public_view;
use argus_crds::error::Call;
use argus_crds::status::{Calls, EnvironmentStatus};
use serde_json::Value;

use super::{ControllerClient, Transport};
use crate::local_state::call_trace;
use crate::local_state::status;
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
            let find = |name: &String| {
                let status = statuses.environments.get(name).cloned();
                let status = status.map(Arc::unwrap_or_clone);
                (name.clone(), status.map(|status| self.shown(status)))
            };
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
                    // Read on demand.
                    calls: BTreeMap::new(),
                    controller: controller.unwrap_or_default(),
                })
            }
        };
        Ok(if self.is_trusted {
            all
        } else {
            Arc::new(all.public())
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

    /// Returns the calls behind the errors of an environment, for trusted callers. It can read a file.
    pub(crate) fn read_calls(&self, env: &EnvName) -> Calls {
        if !self.is_trusted {
            return Calls::default();
        }
        match &self.transport {
            Transport::InProcess(parts) => parts
                .statuses
                .borrow()
                .calls
                .get(env.as_str())
                .cloned()
                .map(Arc::unwrap_or_clone)
                .unwrap_or_default(),
            Transport::Remote => status::read_or_default(&self.state.debug(env.as_str())),
        }
    }

    /// Adds the calls behind each error to a response, and returns them. If the files cannot be read, the response stays unchanged.
    pub(crate) async fn add_calls(&self, response: Value) -> (Value, Vec<Call>) {
        if self.in_process_parts().is_some() {
            return call_trace::add_calls(|env| self.read_calls(env), response);
        }
        let plain = response.clone();
        let traced = self
            .run_blocking(move |client| Ok(call_trace::add_calls(|env| client.read_calls(env), response)));
        traced.await.unwrap_or((plain, Vec::new()))
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
        let statuses = self.in_process_parts()?.statuses.borrow();
        let status = statuses.environments.get(env).cloned();
        status.map(|status| self.shown(Arc::unwrap_or_clone(status)))
    }
}
