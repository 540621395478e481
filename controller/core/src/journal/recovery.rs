//! Recovery of open intents: finds out from the engine's state if an action of a dead controller took effect.

use serde::{Deserialize, Serialize};

use super::Intent;
use crate::action::{ActionKind, Subject};
use crate::effect::{NewerThan, ObservableEffect, Observation};
use crate::ident::{ContainerId, NetworkId};
use crate::observed::Store;
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
    let Some(effect) = effect_of(intent, at) else {
        return (
            IntentResolution::Repeat,
            "its effect is not observable, and a repetition is harmless".to_owned(),
        );
    };
    let observation = effect.observe(store);
    let resolution = match observation {
        Observation::Observed => IntentResolution::Done,
        Observation::NotObserved | Observation::ContainerGone => IntentResolution::NotApplied,
    };
    (resolution, describe(&effect, observation))
}

/// Effect of an intent; `None` if its action has no observable effect or is of another version.
fn effect_of(intent: &Intent, at: Timestamp) -> Option<ObservableEffect> {
    let action = &intent.action;
    let name = || action.name.clone().unwrap_or_default();
    let network = || action.network.clone().unwrap_or_default();
    let container = || ContainerId::new(action.id.clone()?).ok();
    Some(match action.verb {
        ActionKind::CreateNetwork => ObservableEffect::EnvironmentNetworkPresent {
            environment: intent.environment.clone()?,
            name: name(),
        },
        ActionKind::RemoveNetwork => {
            ObservableEffect::NetworkAbsent(NetworkId::new(action.id.clone()?).ok()?)
        }
        ActionKind::CreateVolume => ObservableEffect::VolumePresent(name()),
        ActionKind::RemoveVolume => ObservableEffect::VolumeAbsent(name()),
        ActionKind::CreateContainer => {
            let Subject::Service { environment, service } = &intent.subject else {
                return None;
            };
            ObservableEffect::ServiceContainerPresent {
                environment: environment.clone(),
                service: service.clone(),
                name: name(),
            }
        }
        ActionKind::StartContainer => ObservableEffect::Started(container()?, NewerThan::Intent(at)),
        ActionKind::StopContainer => ObservableEffect::Stopped(container()?),
        ActionKind::UnpauseContainer => ObservableEffect::Unpaused(container()?),
        ActionKind::RenameContainer => ObservableEffect::Named(container()?, name()),
        ActionKind::RemoveContainer => ObservableEffect::ContainerAbsent(container()?),
        ActionKind::ConnectNetwork => ObservableEffect::Attached(container()?, network()),
        ActionKind::DisconnectNetwork => ObservableEffect::Detached {
            container: action.id.clone()?,
            network: network(),
        },
        ActionKind::PullImage
        | ActionKind::BuildImage
        | ActionKind::CollectEvidence
        | ActionKind::CopyFile
        | ActionKind::Other => return None,
    })
}

fn describe(effect: &ObservableEffect, observation: Observation) -> String {
    let observed = observation == Observation::Observed;
    let message =
        |object: String, yes: &str, no: &str| format!("{object} {}", if observed { yes } else { no });
    let container = |id: &str| format!("container `{id}`");
    let (exists, absent) = ("exists", "does not exist");
    match effect {
        _ if observation == Observation::ContainerGone => "the container is gone".to_owned(),
        ObservableEffect::ContainerPresent(id) => message(container(id.as_str()), exists, absent),
        ObservableEffect::ServiceContainerPresent { name, .. } => message(container(name), exists, absent),
        ObservableEffect::Started(id, _) => message(container(id.as_str()), "ran since", "has not run since"),
        ObservableEffect::Stopped(id) => message(container(id.as_str()), "does not run", "still runs"),
        ObservableEffect::Unpaused(id) => message(container(id.as_str()), "is not paused", "is still paused"),
        ObservableEffect::Named(id, _) => {
            message(container(id.as_str()), "has its new name", "has its old name")
        }
        ObservableEffect::ContainerAbsent(id) => message(container(id.as_str()), absent, "still exists"),
        ObservableEffect::Attached(id, _) => {
            message(container(id.as_str()), "is attached", "is not attached")
        }
        ObservableEffect::Detached { container: id, .. } => {
            message(container(id), "is not attached", "is still attached")
        }
        ObservableEffect::NetworkPresent(id) => message(format!("network `{id}`"), exists, absent),
        ObservableEffect::EnvironmentNetworkPresent { name, .. } => {
            message(format!("network `{name}`"), exists, absent)
        }
        ObservableEffect::NetworkAbsent(id) => message(format!("network `{id}`"), absent, "still exists"),
        ObservableEffect::VolumePresent(name) => message(format!("volume `{name}`"), exists, absent),
        ObservableEffect::VolumeAbsent(name) => message(format!("volume `{name}`"), absent, "still exists"),
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
    use crate::observed::{Container, ContainerState, Object, WatchEvent};

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
                verb: serde_json::from_value(verb.into()).unwrap(),
                id: Some(id.to_owned()),
                name: Some(name.to_owned()),
                ..ActionRecord::default()
            },
            cause: "missing".to_owned(),
            correlation_id: None,
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
