//! Translation of engine events into effects on labelled objects. Events are hints: the engine may lose, repeat or
//! replay them.

use std::collections::HashMap;

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::labels::MANAGED;
use argus_core::observed::{ObjectId, Released};
use argus_core::time::Timestamp;
use bollard::errors::Error;
use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptionsBuilder;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::lease;

/// The event stream of an engine.
pub(super) type Events = BoxStream<'static, Result<EventMessage, Error>>;

/// Time before the subscription from which the engine replays events, in milliseconds. It covers the time that the
/// subscription needs to reach the engine.
const REPLAY_MS: i64 = 3_000;

/// Actions to subscribe to. `exec_*` is left out: every probe would cause three events, which contain its command line.
const SUBSCRIBED_ACTIONS: [&str; 16] = [
    "create",
    "start",
    "die",
    "oom",
    "kill",
    "stop",
    "pause",
    "unpause",
    "restart",
    "destroy",
    "rename",
    "update",
    "health_status",
    "connect",
    "disconnect",
    "remove",
];

/// One consequence of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventEffect {
    /// The object was created.
    Created(ObjectId),
    /// The object changed or was removed.
    Changed(ObjectId),
    /// The container changed; the event does not show whether it carries our label.
    ChangedIfKnown(ContainerId),
    /// A container or network of any owner no longer has its name.
    Released(Released),
    /// The run of the container ended at this time.
    Ended(ContainerId, Timestamp),
    /// The kernel reported an out-of-memory condition in the container at this time.
    OutOfMemory(ContainerId, Timestamp),
    /// A client requested a stop or a kill of the container at this time.
    StopRequested(ContainerId, Timestamp),
}

/// Subscribes to the engine's events. The request is sent at the first poll of the stream.
///
/// The subscription has no label filter: events of networks and volumes do not contain their labels, so a filter would hide them.
pub(super) fn subscribe(client: &bollard::Docker, now: Timestamp, must_replay: bool) -> Events {
    let filters = HashMap::from([
        ("type", vec!["container", "network", "volume"]),
        ("event", SUBSCRIBED_ACTIONS.to_vec()),
    ]);
    let replayed = if must_replay { REPLAY_MS } else { 0 };
    let since = now.0.saturating_sub(replayed).max(0);
    let since = format!("{}.{:09}", since / 1000, since % 1000 * 1_000_000);
    let options = EventsOptionsBuilder::default()
        .since(&since)
        .filters(&filters)
        .build();
    client.events(Some(options)).into_stream().boxed()
}

/// The effects of one event. The only effect of a foreign container is the release of its name.
pub(super) fn effects(event: &EventMessage) -> Vec<EventEffect> {
    let mut effects = effects_on_object(event);
    effects.extend(released(event).map(EventEffect::Released));
    effects
}

/// The name that the object of this event no longer has.
fn released(event: &EventMessage) -> Option<Released> {
    let attributes = event.actor.as_ref()?.attributes.as_ref()?;
    let name = |key: &str| Some(attributes.get(key)?.trim_start_matches('/').to_owned());
    match (event.typ?, event.action.as_deref()?) {
        (EventMessageTypeEnum::CONTAINER, "destroy" | "remove") => name("name").map(Released::Container),
        (EventMessageTypeEnum::CONTAINER, "rename") => name("oldName").map(Released::Container),
        (EventMessageTypeEnum::NETWORK, "destroy" | "remove") => name("name").map(Released::Network),
        _ => None,
    }
}

fn effects_on_object(event: &EventMessage) -> Vec<EventEffect> {
    let action = event.action.as_deref().unwrap_or_default();
    let Some(actor) = &event.actor else {
        return Vec::new();
    };
    let id = actor.id.as_deref().unwrap_or_default();
    let attribute = |key: &str| {
        actor
            .attributes
            .as_ref()
            .and_then(|attributes| attributes.get(key))
            .map_or("", String::as_str)
    };
    match event.typ {
        Some(EventMessageTypeEnum::CONTAINER) if attribute(MANAGED) == "true" => {
            let Ok(id) = ContainerId::new(id) else {
                return Vec::new();
            };
            if action == "create" {
                return vec![EventEffect::Created(ObjectId::Container(id))];
            }
            let mut effects = vec![EventEffect::Changed(ObjectId::Container(id.clone()))];
            if action == "die" {
                effects.push(EventEffect::Ended(id.clone(), time_of(event)));
            }
            if action == "oom" {
                effects.push(EventEffect::OutOfMemory(id.clone(), time_of(event)));
            }
            if action == "stop" || (action == "kill" && ends_process(attribute("signal"))) {
                effects.push(EventEffect::StopRequested(id, time_of(event)));
            }
            effects
        }
        Some(EventMessageTypeEnum::NETWORK) => match action {
            "connect" | "disconnect" => ContainerId::new(attribute("container"))
                .map(EventEffect::ChangedIfKnown)
                .into_iter()
                .collect(),
            "create" => NetworkId::new(id)
                .map(|id| EventEffect::Created(ObjectId::Network(id)))
                .into_iter()
                .collect(),
            _ => NetworkId::new(id)
                .map(|id| EventEffect::Changed(ObjectId::Network(id)))
                .into_iter()
                .collect(),
        },
        Some(EventMessageTypeEnum::VOLUME) if !id.is_empty() && !id.starts_with(lease::NAME_PREFIX) => {
            // A foreign name may contain any character and would become part of a URL.
            let name = argus_core::ident::ResourceName::new(id);
            name.map(|name| EventEffect::Changed(ObjectId::Volume(name.into())))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// True for a signal that is meant to end a process; others, such as HUP, only notify it.
fn ends_process(signal: &str) -> bool {
    matches!(
        signal.trim_start_matches("SIG"),
        "2" | "3" | "9" | "15" | "INT" | "QUIT" | "KILL" | "TERM"
    )
}

/// Time of an event, in milliseconds where the engine reports nanoseconds.
fn time_of(event: &EventMessage) -> Timestamp {
    let nanos = event.time_nano.map(|nanos| nanos / 1_000_000);
    Timestamp(
        nanos
            .or(event.time.map(|seconds| seconds.saturating_mul(1000)))
            .unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(kind: &str, action: &str, id: &str, attributes: &Value) -> Vec<EventEffect> {
        let event = json!({"Type": kind, "Action": action, "timeNano": 5_000_000_000_i64,
            "Actor": {"ID": id, "Attributes": attributes}});
        effects(&serde_json::from_value(event).unwrap())
    }

    #[test]
    fn events_mark_labelled_objects() {
        let ours = json!({"argusai.managed": "true", "signal": "15"});
        let id = ContainerId::new("abc").unwrap();
        let changed = EventEffect::Changed(ObjectId::Container(id.clone()));
        let stopped = EventEffect::StopRequested(id.clone(), Timestamp(5000));
        assert_eq!(
            read("container", "create", "abc", &ours),
            [EventEffect::Created(ObjectId::Container(id.clone()))]
        );
        assert_eq!(
            read("container", "start", "abc", &ours),
            *std::slice::from_ref(&changed)
        );
        assert_eq!(
            read("container", "health_status: healthy", "abc", &ours),
            *std::slice::from_ref(&changed)
        );
        assert_eq!(
            read("container", "stop", "abc", &ours),
            [changed.clone(), stopped.clone()]
        );
        assert_eq!(
            read("container", "kill", "abc", &ours),
            [changed.clone(), stopped]
        );
        let hangup = json!({"argusai.managed": "true", "signal": "1"});
        assert_eq!(
            read("container", "kill", "abc", &hangup),
            *std::slice::from_ref(&changed)
        );
        assert_eq!(read("container", "start", "abc", &json!({"name": "foreign"})), []);
        let ended = EventEffect::Ended(id.clone(), Timestamp(5000));
        assert_eq!(read("container", "die", "abc", &ours), [changed.clone(), ended]);
        let network = EventEffect::Changed(ObjectId::Network(NetworkId::new("n1").unwrap()));
        let released = |name: Released| vec![EventEffect::Released(name)];
        assert_eq!(
            read("network", "destroy", "n1", &json!({"name": "x"})),
            [vec![network], released(Released::Network("x".to_owned()))].concat()
        );
        assert_eq!(
            read("container", "destroy", "abc", &json!({"name": "foreign"})),
            released(Released::Container("foreign".to_owned()))
        );
        assert_eq!(
            read(
                "container",
                "rename",
                "abc",
                &json!({"name": "new", "oldName": "/old"})
            ),
            released(Released::Container("old".to_owned()))
        );
        let attached = json!({"name": "x", "container": "abc"});
        assert_eq!(
            read("network", "disconnect", "n1", &attached),
            [EventEffect::ChangedIfKnown(id)]
        );
        assert_eq!(
            read("volume", "destroy", "v", &json!({})),
            [EventEffect::Changed(ObjectId::Volume("v".into()))]
        );
        assert_eq!(read("volume", "destroy", "../containers/x", &json!({})), []);
        assert_eq!(read("image", "pull", "x", &json!({})), []);
    }
}
