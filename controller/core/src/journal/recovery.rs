//! Recovery of open intents: finds out from the engine's state if an action of a dead controller took effect.

use serde::{Deserialize, Serialize};

use super::Intent;
use crate::action::Subject;
use crate::ident::{ContainerId, NetworkId};
use crate::observed::{Container, ContainerState, Store};
use crate::time::Timestamp;

/// Outcome of an open intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IntentResolution {
    /// The effect exists.
    Done,
    /// The effect does not exist; the reconciler repeats the action if it is still needed.
    NotApplied,
    /// The effect is not observable, and a repetition is harmless; the reconciler repeats the action if it is still needed.
    Repeat,
}

/// Resolves an intent from a completely listed store. Returns the outcome and the observation that shows it.
pub fn resolve_intent(intent: &Intent, at: Timestamp, store: &Store) -> (IntentResolution, String) {
    let action = &intent.action;
    let name = action.name.as_deref().unwrap_or_default();
    let container = action.id.as_deref().and_then(|id| find_container(store, id));
    match action.verb.as_str() {
        "create-network" => expect_present(network(store, intent, name).map(str::to_owned), "network", name),
        "create-volume" => expect_present(
            store.volume(name).map(|volume| volume.name.clone()),
            "volume",
            name,
        ),
        "create-container" => expect_present(created_container(store, intent, name), "container", name),
        "remove-network" => {
            let id = action.id.as_deref().and_then(|id| NetworkId::new(id).ok());
            expect_absent(id.is_some_and(|id| store.network(&id).is_some()), "network", name)
        }
        "remove-volume" => expect_absent(store.volume(name).is_some(), "volume", name),
        "remove-container" => expect_absent(container.is_some(), "container", name),
        "start-container" => check_container(
            container,
            |container| has_run_since(container, at),
            "ran since",
            "has not run since",
        ),
        "stop-container" => match container {
            None => (IntentResolution::Done, "the container is gone".to_owned()),
            container => check_container(
                container,
                |container| !container.state.is_up(),
                "is stopped",
                "still runs",
            ),
        },
        "unpause-container" => check_container(
            container,
            |container| container.state != ContainerState::Paused,
            "is not paused",
            "is still paused",
        ),
        "rename-container" => check_container(
            container,
            |container| container.name == name,
            "has its new name",
            "has its old name",
        ),
        "connect-network" => check_container(
            container,
            |container| is_attached(container, action.network.as_deref()),
            "is attached",
            "is not attached",
        ),
        "disconnect-network" => match container {
            None => (IntentResolution::Done, "the container is gone".to_owned()),
            container => check_container(
                container,
                |container| !is_attached(container, action.network.as_deref()),
                "is detached",
                "is still attached",
            ),
        },
        // These are pulls, builds, and verbs of another version.
        _ => (
            IntentResolution::Repeat,
            "its effect is not observable, and a repetition is harmless".to_owned(),
        ),
    }
}

fn find_container<'w>(store: &'w Store, id: &str) -> Option<&'w Container> {
    let by_id = ContainerId::new(id).ok().and_then(|id| store.container(&id));
    by_id
        .or_else(|| store.containers().find(|container| container.name == id))
        .map(AsRef::as_ref)
}

/// Id of this service's container with this name, regardless of its creator: the planner adopts it.
fn created_container(store: &Store, intent: &Intent, name: &str) -> Option<String> {
    let Subject::Service { environment, service } = &intent.subject else {
        return None;
    };
    let seen = store.of(environment)?;
    let mut mine = seen
        .containers
        .values()
        .filter(|container| container.is_of(service));
    mine.find(|container| container.name == name)
        .map(|container| container.id.to_string())
}

fn network<'w>(store: &'w Store, intent: &Intent, name: &str) -> Option<&'w str> {
    let seen = store.of(intent.environment.as_ref()?)?;
    let mut networks = seen.networks.values();
    networks
        .find(|network| network.name == name)
        .map(|network| network.id.as_str())
}

fn has_run_since(container: &Container, at: Timestamp) -> bool {
    let started = container.inspect.as_ref().and_then(|info| info.started_at);
    container.state.is_up() || started.is_some_and(|started| started >= at)
}

fn is_attached(container: &Container, network: Option<&str>) -> bool {
    let network = network.unwrap_or_default();
    container
        .networks
        .iter()
        .any(|(name, at)| name == network || at.network.as_ref().is_some_and(|id| id.as_str() == network))
}

fn expect_present(found: Option<String>, kind: &str, name: &str) -> (IntentResolution, String) {
    match found {
        Some(id) => (IntentResolution::Done, format!("{kind} `{name}` exists as {id}")),
        None => (
            IntentResolution::NotApplied,
            format!("{kind} `{name}` does not exist"),
        ),
    }
}

fn expect_absent(is_present: bool, kind: &str, name: &str) -> (IntentResolution, String) {
    if is_present {
        (
            IntentResolution::NotApplied,
            format!("{kind} `{name}` still exists"),
        )
    } else {
        (IntentResolution::Done, format!("{kind} `{name}` does not exist"))
    }
}

fn check_container(
    container: Option<&Container>,
    is_done: impl Fn(&Container) -> bool,
    done: &str,
    not_done: &str,
) -> (IntentResolution, String) {
    match container {
        None => (IntentResolution::NotApplied, "the container is gone".to_owned()),
        Some(container) if is_done(container) => (
            IntentResolution::Done,
            format!("container `{}` {done}", container.name),
        ),
        Some(container) => (
            IntentResolution::NotApplied,
            format!("container `{}` {not_done}", container.name),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::ident::{EnvName, ServiceName};
    use crate::journal::ActionRecord;
    use crate::labels;
    use crate::observed::{Object, WatchEvent};

    fn store(state: ContainerState) -> Store {
        let labels = [
            (labels::MANAGED, "true"),
            (labels::ENVIRONMENT, "shop"),
            (labels::SERVICE, "api"),
        ];
        let labels: BTreeMap<String, String> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let container = Container {
            id: ContainerId::new("c1").unwrap(),
            name: "shop-api".to_owned(),
            labels,
            image: "nginx:1".to_owned(),
            state,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: None,
            stopped_by_other: None,
            oom_at: None,
        };
        let mut store = Store::default();
        store.apply(WatchEvent::Init);
        store.apply(WatchEvent::Apply(Object::Container(Arc::new(container))));
        store.apply(WatchEvent::InitDone);
        store
    }

    fn intent(verb: &str, id: &str, name: &str) -> Intent {
        let environment = EnvName::new("shop").unwrap();
        Intent {
            environment: Some(environment.clone()),
            subject: Subject::Service {
                environment,
                service: ServiceName::new("api").unwrap(),
            },
            action: ActionRecord {
                verb: verb.to_owned(),
                id: Some(id.to_owned()),
                name: Some(name.to_owned()),
                ..ActionRecord::default()
            },
            cause: "missing".to_owned(),
        }
    }

    #[test]
    fn open_intent_is_resolved_from_the_engine_state() {
        use ContainerState::{Created, Exited, Paused, Running};
        use IntentResolution::{Done, NotApplied, Repeat};
        for (verb, id, name, state, expected) in [
            ("create-container", "", "shop-api", Created, Done),
            ("create-container", "", "shop-api-next", Running, NotApplied),
            ("start-container", "c1", "", Running, Done),
            ("start-container", "c1", "", Created, NotApplied),
            ("start-container", "c2", "", Running, NotApplied),
            ("stop-container", "c1", "", Running, NotApplied),
            ("stop-container", "c1", "", Exited, Done),
            ("stop-container", "c2", "", Running, Done),
            ("unpause-container", "c1", "", Paused, NotApplied),
            ("unpause-container", "c1", "", Running, Done),
            ("rename-container", "c1", "shop-api", Running, Done),
            ("rename-container", "c1", "other", Running, NotApplied),
            ("remove-container", "c1", "shop-api", Exited, NotApplied),
            ("remove-container", "c2", "shop-api", Exited, Done),
            ("connect-network", "c1", "", Running, NotApplied),
            ("disconnect-network", "shop-api", "", Running, Done),
            ("create-network", "", "argus-shop", Running, NotApplied),
            ("create-volume", "", "data", Running, NotApplied),
            ("remove-volume", "", "data", Running, Done),
            ("pull-image", "", "", Running, Repeat),
            ("a verb of tomorrow", "", "", Running, Repeat),
        ] {
            let (resolution, how) = resolve_intent(&intent(verb, id, name), Timestamp(5), &store(state));
            assert_eq!(resolution, expected, "{verb} {id} {name} {state:?}: {how}");
            assert!(!how.is_empty());
        }
    }
}
