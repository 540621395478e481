//! Tests of the selection of environments.

use std::net::{IpAddr, Ipv4Addr};

use argus_core::ident::NetworkId;
use argus_core::labels;
use argus_core::observed::{Network, Object, Store, WatchEvent};
use argus_core::plan::{ControllerIdentity, Plan};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_reconciler::overrides::{Down, Overrides};

use super::*;

#[test]
fn removal_ends_with_the_last_own_object() {
    let identity = ControllerIdentity {
        controller: "me".to_owned(),
        run: "me".to_owned(),
        publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let env = EnvName::new("shop").unwrap();
    let mut snapshot = Snapshot::blank(identity, PlannerState::default(), Timestamp(0));
    let mut overrides = Overrides::default();
    overrides.down.insert(env.clone(), Down::default());
    snapshot.overrides = Arc::new(overrides);
    assert!(is_down_and_gone(&snapshot, &env));
    let labels = [
        (labels::MANAGED, "true"),
        (labels::ENVIRONMENT, "shop"),
        (labels::CONTROLLER, "them"),
    ];
    let mut store = Store::default();
    store.apply(WatchEvent::Apply(Object::Network(Arc::new(Network {
        id: NetworkId::new("n1").unwrap(),
        name: "shop".to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        created_at: Timestamp(0),
        is_broken: false,
    }))));
    assert!(store.of(&env).is_some());
    snapshot.store = Arc::new(store);
    for is_left_to_others in [true, false] {
        let plan = Plan {
            is_left_to_others,
            ..Plan::default()
        };
        snapshot.plans = Arc::new(BTreeMap::from([(env.clone(), Arc::new(plan))]));
        assert_eq!(is_down_and_gone(&snapshot, &env), is_left_to_others);
    }
}
