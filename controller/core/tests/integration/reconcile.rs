//! Parts of a planner without an engine: its identity, labels of objects, an empty store, and one pass without probes, requests and
//! preflight.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::labels;
use argus_core::lease::ControllerLeases;
use argus_core::observed::{Store, WatchEvent};
use argus_core::plan::ControllerIdentity;
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;

/// Identity of the controller.
pub(crate) fn identity() -> ControllerIdentity {
    ControllerIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    }
}

/// Labels of an object of the environment `shop`.
pub(crate) fn shop_labels(service: &str, controller: &str) -> BTreeMap<String, String> {
    let all = [
        (labels::MANAGED, "true"),
        (labels::PROJECT, "shop"),
        (labels::ENVIRONMENT, "shop"),
        (labels::SERVICE, service),
        (labels::CONTROLLER, controller),
    ];
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Store after the first list of an engine without objects.
pub(crate) fn listed_store(now: Timestamp) -> Store {
    let mut store = Store::default();
    for event in [WatchEvent::Connected(now), WatchEvent::Init, WatchEvent::InitDone] {
        store.apply(event);
    }
    store
}

pub(crate) fn reconcile(
    planner: &mut Planner,
    specs: &BTreeMap<EnvName, Arc<Accepted>>,
    store: &Store,
    leases: &ControllerLeases,
    now: Timestamp,
) -> ReconcileResult {
    planner.reconcile(&Inputs {
        specs,
        scanned: true,
        store,
        health: &HealthStates::new(),
        leases,
        requests: &UserRequests::default(),
        preflight: None,
        now,
    })
}
