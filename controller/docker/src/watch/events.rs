//! What an engine's event says about objects of ours. Events are hints: they are lost, repeated and replayed.

use std::collections::HashMap;

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::labels::MANAGED;
use argus_core::observed::ObjectId;
use argus_core::time::Timestamp;
use bollard::errors::Error;
use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptionsBuilder;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::lease;

/// The stream of an engine's events.
pub(super) type Events = BoxStream<'static, Result<EventMessage, Error>>;

/// The subscription is sent a moment before it is known to be there; what happened meanwhile is replayed.
const OVERLAP_MS: i64 = 3_000;

/// Without `exec_*`: every probe would make three events, which carry its command line.
const WANTED: [&str; 16] = [
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
    /// This object was made.
    Created(ObjectId),
    /// Something happened to this object.
    Changed(ObjectId),
    /// Something happened to this container, which may be anybody's.
    ChangedIfKnown(ContainerId),
    /// The kernel told of want of memory in it.
    OutOfMemory(ContainerId, Timestamp),
    /// Somebody asked for its stop or its kill.
    Stopped(ContainerId, Timestamp),
}

/// Subscribes. Nothing is sent before the stream is polled.
///
/// There is no label filter: events of networks and volumes carry no labels of theirs, so it would hide them.
pub(super) fn subscribe(client: &bollard::Docker, now: Timestamp) -> Events {
    let filters = HashMap::from([
        ("type", vec!["container", "network", "volume"]),
        ("event", WANTED.to_vec()),
    ]);
    let since = now.0.saturating_sub(OVERLAP_MS).max(0);
    let since = format!("{}.{:09}", since / 1000, since % 1000 * 1_000_000);
    let options = EventsOptionsBuilder::default()
        .since(&since)
        .filters(&filters)
        .build();
    client.events(Some(options)).into_stream().boxed()
}

/// Reads one event.
pub(super) fn effects(event: &EventMessage) -> Vec<EventEffect> {
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
            let mut notes = vec![EventEffect::Changed(ObjectId::Container(id.clone()))];
            if action == "oom" {
                notes.push(EventEffect::OutOfMemory(id.clone(), at(event)));
            }
            if action == "stop" || (action == "kill" && ends_a_process(attribute("signal"))) {
                notes.push(EventEffect::Stopped(id, at(event)));
            }
            notes
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
        Some(EventMessageTypeEnum::VOLUME) if !id.is_empty() && !id.starts_with(lease::PREFIX) => {
            // A name of somebody else's may hold anything, and would go into a URL.
            let named = argus_core::ident::ResourceName::new(id);
            named
                .map(|name| EventEffect::Changed(ObjectId::Volume(name.into())))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Signals that are meant to end a process; others, such as a HUP, are talk.
fn ends_a_process(signal: &str) -> bool {
    matches!(
        signal.trim_start_matches("SIG"),
        "2" | "3" | "9" | "15" | "INT" | "QUIT" | "KILL" | "TERM"
    )
}

fn at(event: &EventMessage) -> Timestamp {
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
    fn events_mark_objects_of_ours() {
        let ours = json!({"argusai.managed": "true", "signal": "15"});
        let id = ContainerId::new("abc").unwrap();
        let changed = EventEffect::Changed(ObjectId::Container(id.clone()));
        let stopped = EventEffect::Stopped(id.clone(), Timestamp(5000));
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
        let talk = json!({"argusai.managed": "true", "signal": "1"});
        assert_eq!(read("container", "kill", "abc", &talk), [changed]);
        assert_eq!(read("container", "start", "abc", &json!({"name": "foreign"})), []);
        let network = EventEffect::Changed(ObjectId::Network(NetworkId::new("n1").unwrap()));
        assert_eq!(read("network", "destroy", "n1", &json!({"name": "x"})), [network]);
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
