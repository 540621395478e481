//! Order of events: the watch can report a start before the executor returns its result.
#![allow(clippy::unwrap_used, reason = "all names in these tests are valid")]

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::action::{Action, Cause, Deadlines, Step, Subject};
use argus_core::ident::{ContainerId, EnvName, ServiceName};
use argus_core::labels;
use argus_core::observed::{Container, ContainerState, InspectInfo, Object, Store, WatchEvent};
use argus_core::outcome::Done;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

fn container(state: ContainerState, started_at: Option<i64>) -> WatchEvent {
    let labels = [
        (labels::MANAGED, "true"),
        (labels::ENVIRONMENT, "shop"),
        (labels::SERVICE, "web"),
    ];
    WatchEvent::Apply(Object::Container(Arc::new(Container {
        id: ContainerId::new("c1").unwrap(),
        name: "shop-web".to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        image: "web:1".to_owned(),
        state,
        created_at: Timestamp(1),
        networks: BTreeMap::new(),
        inspect: Some(InspectInfo {
            started_at: started_at.map(Timestamp),
            ..InspectInfo::default()
        }),
        stopped_by_other: None,
        oom_at: None,
    })))
}

#[test]
fn start_observed_before_its_result_is_not_awaited() {
    let env = EnvName::new("shop").unwrap();
    let step = Step {
        subject: Subject::Service {
            environment: env.clone(),
            service: ServiceName::new("web").unwrap(),
        },
        action: Action::StartContainer {
            id: ContainerId::new("c1").unwrap(),
        },
        cause: Cause::Ready,
    };
    for started_before in [None, Some(5)] {
        let (mut state, mut store) = (PlannerState::default(), Store::default());
        store.apply(container(ContainerState::Created, started_before));
        state.on_started(&env, &step, store.of(&env).unwrap(), Timestamp(10));
        let mut state_without_event = state.clone();
        state_without_event.on_finished(
            &step,
            &Ok(Done::Applied),
            &Deadlines::default(),
            &store,
            Timestamp(30),
        );
        assert_eq!(
            state_without_event.expectations.len(),
            1,
            "not observed yet, so awaited"
        );
        store.apply(container(ContainerState::Running, Some(20)));
        state.on_finished(
            &step,
            &Ok(Done::Applied),
            &Deadlines::default(),
            &store,
            Timestamp(30),
        );
        assert!(
            state.expectations.is_empty(),
            "observed already: {:?}",
            state.expectations
        );
    }
}
