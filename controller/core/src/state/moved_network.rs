//! Networks whose derived name another object holds: they take the next free name, as ports do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::action::Subject;
use crate::desired::{Accepted, Desired};
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
            self.find_moved_networks(env, accepted, store);
            let Some(history) = self.history(env).filter(|it| !it.moved_networks.is_empty()) else {
                continue;
            };
            let mut accepted = Accepted::clone(accepted);
            let moved = |from: &ResourceName| Some(history.moved_networks.get(from)?.to.clone());
            accepted.desired.rename_networks(moved);
            all.get_or_insert_with(|| specs.clone())
                .insert(env.clone(), Arc::new(accepted));
        }
        all
    }

    /// Updates the moved networks of an environment.
    fn find_moved_networks(&mut self, env: &EnvName, accepted: &Accepted, store: &Store) {
        let nothing = BTreeMap::new();
        let recorded = self
            .history(env)
            .map_or(&nothing, |history| &history.moved_networks);
        let mut found = BTreeMap::new();
        let mut changed = Vec::new();
        let networks = accepted.desired.declared_networks();
        for network in networks.filter(|network| network.is_derived(accepted)) {
            let (from, subject) = (network.name, Subject::of_network(env, &network));
            let known = recorded.get(from);
            let moved = match self.holder_of_network(&subject) {
                // Without a further name, the failure stays and is reported.
                Some(holder) => next(&accepted.desired, from, known, holder).or_else(|| known.cloned()),
                None if known.is_none() => existing(env, &accepted.desired, from, store),
                None => known.cloned(),
            };
            if moved.as_ref() != known {
                changed.push(subject);
            }
            found.extend(moved.map(|moved| (from.clone(), moved)));
        }
        if found == *recorded {
            return;
        }
        for subject in changed {
            self.action_failures.remove(&subject);
        }
        let history = self.environments.entry(env.clone()).or_default();
        Arc::make_mut(history).moved_networks = found;
    }

    /// Foreign object because of which the last create of the network failed.
    fn holder_of_network(&self, network: &Subject) -> Option<&str> {
        match &self.action_failures.get(network)?.error {
            ActionError::NameTaken { holder } if holder.ends_with(FOREIGN_NETWORK) => Some(holder),
            _ => None,
        }
    }
}

/// Moves a network to the next name, after the name in use is taken. Names of other networks of the file are not free.
fn next(
    desired: &Desired,
    from: &ResourceName,
    known: Option<&MovedNetwork>,
    holder: &str,
) -> Option<MovedNetwork> {
    let number = known.and_then(|moved| number_of(from, &moved.to)).unwrap_or(1) + 1;
    let free = (number..=LAST).find_map(|number| {
        let to = ResourceName::new(format!("{from}-{number}")).ok()?;
        (!is_declared(desired, &to)).then_some(to)
    });
    Some(MovedNetwork {
        from: from.clone(),
        to: free?,
        holder: known.map_or(holder, |moved| &moved.holder).to_owned(),
    })
}

/// Returns the network of an environment that has a moved name, in the state of an engine whose controller lost its own.
fn existing(env: &EnvName, desired: &Desired, from: &ResourceName, store: &Store) -> Option<MovedNetwork> {
    let networks = &store.of(env)?.networks;
    let names = || networks.values().map(|network| network.name.as_str());
    if names().any(|name| name == from.as_str()) {
        return None;
    }
    let to = names().find_map(|name| {
        let name = ResourceName::new(name).ok()?;
        let is_moved = number_of(from, &name).is_some() && !is_declared(desired, &name);
        is_moved.then_some(name)
    })?;
    Some(MovedNetwork {
        from: from.clone(),
        to,
        holder: String::new(),
    })
}

fn is_declared(desired: &Desired, name: &ResourceName) -> bool {
    let mut declared = desired.declared_networks();
    declared.any(|network| network.name == name)
}

fn number_of(from: &ResourceName, name: &ResourceName) -> Option<u32> {
    let number = name.as_str().strip_prefix(from.as_str())?.strip_prefix('-')?;
    number.parse().ok().filter(|number| (2..=LAST).contains(number))
}
