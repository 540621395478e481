//! End of followed logs, as the status files show it.

use std::collections::BTreeSet;

use argus_crds::status::ServiceState;

use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::Failure;

/// Services to follow.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// `None` for all environments of the state directory.
    pub(super) environment: Option<String>,
    /// Names of the services; empty for all.
    pub(super) services: Vec<String>,
}

impl Scope {
    pub(super) fn has_service(&self, name: &str) -> bool {
        self.services.is_empty() || self.services.iter().any(|service| service == name)
    }
}

/// End of the command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Removed,
    Completed,
    NoController,
}

/// Facts from the status files.
#[derive(Debug, Default)]
pub(super) struct StatusFacts {
    pub(super) is_alive: bool,
    pub(super) environments: BTreeSet<String>,
    /// States of the followed services.
    pub(super) states: Vec<ServiceState>,
}

/// Decides the end of a scope without running containers, whose logs are read.
pub(super) fn find_end(facts: &StatusFacts, is_without_containers: bool, is_all: bool) -> Option<End> {
    if is_without_containers && facts.environments.is_empty() {
        return Some(End::Removed);
    }
    if !facts.is_alive {
        return Some(End::NoController);
    }
    let is_completed = |state: &ServiceState| *state == ServiceState::Completed;
    let all_completed = !facts.states.is_empty() && facts.states.iter().all(is_completed);
    // Other environments can appear.
    (all_completed && !is_all).then_some(End::Completed)
}

pub(super) fn read_facts(client: &ControllerClient, scope: &Scope) -> Result<StatusFacts, Failure> {
    let state = client.state();
    let statuses = match &scope.environment {
        Some(env) => status::read_environment(state, env)?.into_iter().collect(),
        None => status::read_environments(state)?,
    };
    let services = statuses.iter().flat_map(|status| &status.services);
    Ok(StatusFacts {
        is_alive: status::is_alive(state),
        states: services
            .filter(|row| scope.has_service(&row.name))
            .map(|row| row.state)
            .collect(),
        environments: statuses.into_iter().map(|status| status.environment).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_without_services_has_all() {
        let mut scope = Scope::default();
        assert!(scope.has_service("web"));
        scope.services = vec!["api".to_owned(), "db".to_owned()];
        assert!(scope.has_service("db") && !scope.has_service("web"));
    }

    #[test]
    fn scope_ends_when_nothing_can_follow() {
        let facts = |is_alive, known: &[&str], states: &[ServiceState]| StatusFacts {
            is_alive,
            environments: known.iter().map(|name| (*name).to_owned()).collect(),
            states: states.to_vec(),
        };
        let done = [ServiceState::Completed, ServiceState::Completed];
        let mixed = [ServiceState::Completed, ServiceState::Failed];
        for (facts, is_empty, is_all, end) in [
            (facts(true, &[], &[]), true, false, Some(End::Removed)),
            (facts(false, &[], &[]), true, true, Some(End::Removed)),
            // The containers of a removed environment still exist.
            (facts(true, &[], &[]), false, false, None),
            (facts(true, &["shop"], &done), false, false, Some(End::Completed)),
            (facts(true, &["shop"], &done), false, true, None),
            (facts(true, &["shop"], &mixed), false, false, None),
            (facts(true, &["shop"], &[]), true, false, None),
            (
                facts(false, &["shop"], &mixed),
                false,
                false,
                Some(End::NoController),
            ),
            (
                facts(false, &["shop"], &mixed),
                true,
                true,
                Some(End::NoController),
            ),
        ] {
            assert_eq!(
                find_end(&facts, is_empty, is_all),
                end,
                "{facts:?} {is_empty} {is_all}"
            );
        }
    }
}
