//! Networks whose derived name another object holds: they take the next free name, as ports do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::action::Subject;
use crate::desired::Accepted;
use crate::ident::{EnvName, ResourceName};
use crate::observed::Store;
use crate::outcome::{ActionError, FOREIGN_NETWORK};
use crate::state::PlannerState;

/// Last number that a name gets. Beyond it, the name is reported as taken.
const LAST: u32 = 9;

/// Network that has another name than its environment derives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedNetwork {
    /// Derived name.
    pub from: ResourceName,
    /// Name in use.
    pub to: ResourceName,
    /// Object that holds the derived name; empty if this is unknown.
    pub holder: String,
}

impl PlannerState {
    /// Returns the specs with the names of moved networks. `None` if every network has its own name.
    ///
    /// A network moves after its create failed because of an object that Argus did not create, unless the file sets its name. It keeps
    /// its name until the environment is removed.
    pub fn move_networks(
        &mut self,
        specs: &BTreeMap<EnvName, Arc<Accepted>>,
        store: &Store,
    ) -> Option<BTreeMap<EnvName, Arc<Accepted>>> {
        let mut all = None;
        for (env, accepted) in specs {
            self.find_moved_network(env, accepted, store);
            let Some(moved) = self
                .history(env)
                .and_then(|history| history.moved_network.as_ref())
            else {
                continue;
            };
            let mut accepted = Accepted::clone(accepted);
            accepted.desired.network = moved.to.clone();
            all.get_or_insert_with(|| specs.clone())
                .insert(env.clone(), Arc::new(accepted));
        }
        all
    }

    /// Updates the moved network of an environment.
    fn find_moved_network(&mut self, env: &EnvName, accepted: &Accepted, store: &Store) {
        let from = &accepted.desired.network;
        let is_derived = !accepted.lines.has_value("network.name");
        let recorded = self
            .history(env)
            .and_then(|history| history.moved_network.as_ref());
        let known = recorded.filter(|moved| is_derived && moved.from == *from);
        let found = match self.holder_of_network(env).filter(|_| is_derived) {
            // Without a further name, the failure stays and is reported.
            Some(holder) => next(from, known, holder).or_else(|| known.cloned()),
            None if known.is_none() && is_derived => existing(env, from, store),
            None => known.cloned(),
        };
        if found.as_ref() == recorded {
            return;
        }
        if found.as_ref() != known {
            let environment = env.clone();
            self.action_failures.remove(&Subject::Network { environment });
        }
        let history = self.environments.entry(env.clone()).or_default();
        Arc::make_mut(history).moved_network = found;
    }

    /// Foreign object because of which the last create of the network failed.
    fn holder_of_network(&self, env: &EnvName) -> Option<&str> {
        if self.action_failures.is_empty() {
            return None;
        }
        let environment = env.clone();
        match &self.action_failures.get(&Subject::Network { environment })?.error {
            ActionError::NameTaken { holder } if holder.ends_with(FOREIGN_NETWORK) => Some(holder),
            _ => None,
        }
    }
}

/// Moves a network to the next name, after the name in use is taken.
fn next(from: &ResourceName, known: Option<&MovedNetwork>, holder: &str) -> Option<MovedNetwork> {
    let number = known.and_then(|moved| number_of(from, &moved.to)).unwrap_or(1) + 1;
    let to = ResourceName::new(format!("{from}-{number}")).ok()?;
    (number <= LAST).then(|| MovedNetwork {
        from: from.clone(),
        to,
        holder: known.map_or(holder, |moved| &moved.holder).to_owned(),
    })
}

/// Returns the network of an environment that has a moved name, in the state of an engine whose controller lost its own.
fn existing(env: &EnvName, from: &ResourceName, store: &Store) -> Option<MovedNetwork> {
    let networks = &store.of(env)?.networks;
    let names = || networks.values().map(|network| network.name.as_str());
    if names().any(|name| name == from.as_str()) {
        return None;
    }
    let to = names().find_map(|name| {
        let name = ResourceName::new(name).ok()?;
        number_of(from, &name).map(|_| name)
    })?;
    Some(MovedNetwork {
        from: from.clone(),
        to,
        holder: String::new(),
    })
}

fn number_of(from: &ResourceName, name: &ResourceName) -> Option<u32> {
    let number = name.as_str().strip_prefix(from.as_str())?.strip_prefix('-')?;
    number.parse().ok().filter(|number| (2..=LAST).contains(number))
}
