//! Foreign objects on the engine: Argus must never touch them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::FaultProfile;
use argus_core::desired::{Image, Service, substitute_tag};
use argus_core::ident::{ContainerId, NetworkId};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, MANAGED, SERVICE};
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, InspectInfo, Network, Object, Volume,
};

use crate::fixture::{START, SimFixture};
use crate::specs::{build, desired, plain};

/// Creates objects without labels, of another controller in another environment, and with partial labels.
pub(crate) fn plant(fixture: &mut SimFixture) {
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let all = [
        ("f0", "postgres", pairs(&[])),
        (
            "f1",
            "other-app0",
            pairs(&[
                (MANAGED, "true"),
                (ENVIRONMENT, "other"),
                (SERVICE, "app0"),
                (CONTROLLER, "other"),
            ]),
        ),
        (
            "f2",
            "half",
            pairs(&[(ENVIRONMENT, "one"), (SERVICE, "app0"), (CONTROLLER, "me")]),
        ),
        (
            "f3",
            "quarter",
            pairs(&[(MANAGED, "true"), (SERVICE, "app0"), (CONTROLLER, "me")]),
        ),
    ];
    for (id, name, labels) in all {
        for state in [ContainerState::Running, ContainerState::Exited] {
            let id = ContainerId::new(format!("{id}{state:?}")).unwrap();
            let name = format!("{name}{state:?}");
            let object = Object::Container(Arc::new(container(id, name, labels.clone(), state)));
            fixture.engine.change(START, |model| model.add_foreign(object));
        }
        let id = NetworkId::new(id).unwrap();
        let network = Network {
            id,
            name: format!("{name}-net"),
            labels: labels.clone(),
            created_at: START,
            is_broken: false,
        };
        let volume = Volume {
            name: format!("{name}-data"),
            labels,
        };
        fixture.engine.change(START, |model| {
            model.add_foreign(Object::Network(Arc::new(network)));
            model.add_foreign(Object::Volume(Arc::new(volume)));
        });
    }
}

pub(crate) fn container(
    id: ContainerId,
    name: String,
    labels: BTreeMap<String, String>,
    state: ContainerState,
) -> Container {
    let at = Attachment {
        network: None,
        aliases: vec![],
        address: None,
    };
    Container {
        id,
        name,
        labels,
        image: "theirs:1".to_owned(),
        state,
        created_at: START,
        networks: BTreeMap::from([("bridge".to_owned(), at)]),
        inspect: Some(InspectInfo {
            started_at: Some(START),
            finished_at: None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            image_id: None,
            health: None,
            config: Config::default(),
        }),
        stopped_by_other: None,
        oom_at: None,
    }
}

#[test]
fn build_leaves_the_tag_of_a_foreign_image() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture.engine.change(START, |model| model.add_image("built:1"));
    let wants = |fixture: &mut SimFixture, version| {
        let service = Service {
            image: Image::Built(build(version)),
            ..plain("one", "a")
        };
        fixture.wants(desired("one", [service]));
        assert!(
            fixture.run_to_rest(Duration::from_secs(60)),
            "{:?}",
            fixture.stuck()
        );
        let mut containers = fixture.engine.model.containers();
        let container = containers.next().expect("it runs");
        assert_eq!(container.image, substitute_tag("built:1"));
        container.id.clone()
    };
    let first = wants(&mut fixture, 1);
    let calls = fixture.engine.model.calls().len();
    fixture.kill_controller(Duration::from_secs(1), true);
    assert!(fixture.run_to_rest(Duration::from_secs(60)));
    assert_eq!(
        fixture.engine.model.calls().len(),
        calls,
        "the container is up to date"
    );
    assert_ne!(wants(&mut fixture, 2), first, "another build replaces it");
}
