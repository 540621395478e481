//! Tests of the merge of watch events.

use super::*;
use crate::labels;

fn volume(name: &str) -> WatchEvent {
    let labels = [(labels::MANAGED, "true"), (labels::ENVIRONMENT, "shop")];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let name = name.to_owned();
    WatchEvent::Apply(Object::Volume(Arc::new(Volume { name, labels })))
}

#[test]
fn recreated_environment_gets_a_new_version() {
    let mut store = Store::default();
    let shop = EnvName::new("shop").unwrap();
    store.apply(volume("a"));
    let before = store.of(&shop).unwrap().version;
    store.apply(WatchEvent::Delete(ObjectId::Volume("a".to_owned())));
    assert_eq!(store.of(&shop), None);
    store.apply(volume("b"));
    assert_ne!(store.of(&shop).unwrap().version, before);
}
#[test]
fn engine_start_is_an_outage_unless_one_was_observed() {
    let mut store = Store::default();
    let start = Timestamp(100_000);
    store.apply(WatchEvent::Connected(Timestamp(160_000)));
    store.apply(WatchEvent::EngineStarted(start));
    store.apply(WatchEvent::EngineStarted(start));
    let margin = Delays::default().outage_margin;
    let outage = |from: i64, until: i64| Outage::starting_at(Timestamp(from)).ended(Timestamp(until), margin);
    assert_eq!(store.outages(), [outage(100_000, 100_000)]);
    store.apply(WatchEvent::Disconnected(Timestamp(200_000), String::new()));
    store.apply(WatchEvent::Connected(Timestamp(210_000)));
    store.apply(WatchEvent::EngineStarted(Timestamp(209_000)));
    assert_eq!(
        store.outages(),
        [outage(100_000, 100_000), outage(200_000, 210_000)]
    );
    store.apply(WatchEvent::Disconnected(Timestamp(300_000), String::new()));
    store.apply(WatchEvent::Connected(Timestamp(301_000)));
    store.apply(WatchEvent::EngineStarted(Timestamp(209_000)));
    let may_stop = |outage: &Outage| outage.may_stop_containers(outage.from);
    let may_stop: Vec<bool> = store.outages().iter().map(may_stop).collect();
    assert_eq!(may_stop, [true, true, false], "only the connection was lost");
}

#[test]
fn volume_of_compose_is_known_until_a_list_misses_it() {
    let labels = [
        (labels::COMPOSE_PROJECT, "My_Shop"),
        (labels::COMPOSE_VOLUME, "data"),
    ];
    let volume = Volume {
        name: "my_shop_data".to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let env = EnvName::new("my-shop").unwrap();
    let mut store = Store::default();
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::Apply(Object::Volume(Arc::new(volume))));
    store.apply(WatchEvent::InitDone);
    let found = store.compose_volume(&env, "data");
    assert_eq!(found, Some(("my_shop_data", "My_Shop")));
    assert_eq!(store.compose_volume(&env, "other"), None);
    assert!(store.environments().is_empty(), "it belongs to no environment");
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::InitDone);
    assert_eq!(store.compose_volume(&env, "data"), None);
}
