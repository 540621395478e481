//! Known good revisions: targets of a rollback, pinned to the images that ran.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::desired::{Accepted, Image};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::observed::Store;
use argus_core::time::Timestamp;

/// Minimum time that all containers must run before their revision counts as good.
const MIN_UPTIME: Duration = Duration::from_secs(10);

/// Time at which all running containers have run long enough. A revision that is Ready for a moment may fail in the
/// next.
pub(super) fn good_at(env: &EnvName, store: &Store) -> Timestamp {
    let containers = store
        .of(env)
        .into_iter()
        .flat_map(|seen| seen.containers.values());
    let started = containers.filter_map(|container| container.inspect.as_ref()?.started_at);
    started.max().map_or(Timestamp(0), |at| at + MIN_UPTIME)
}

/// Returns a copy with the running image ids, so that later tags and builds do not change it.
pub(super) fn pinned(accepted: &Accepted, store: &Store) -> Accepted {
    let mut pinned = accepted.clone();
    let ids = ids(accepted, store);
    for (name, service) in &mut pinned.desired.services {
        if let Some(id) = ids.get(name) {
            service.image = Image::Named(id.clone());
        }
    }
    pinned
}

/// Reports whether the running images are the pinned ones. Images can change within a revision, for example those
/// of mocks after an upgrade of Argus.
pub(super) fn runs_as_pinned(pinned: &Accepted, store: &Store) -> bool {
    let ids = ids(pinned, store);
    pinned
        .desired
        .services
        .iter()
        .all(|(name, service)| ids.get(name).is_none_or(|id| id == service.image.reference()))
}

/// Ids of the running images, by service.
fn ids(accepted: &Accepted, store: &Store) -> BTreeMap<ServiceName, String> {
    let seen = store.of(&accepted.desired.env).into_iter();
    let containers = seen.flat_map(|seen| seen.containers.values());
    let id = |container: &std::sync::Arc<argus_core::observed::Container>| {
        let service = container.owner()?.service?;
        Some((service, container.inspect.as_ref()?.image_id.clone()?))
    };
    containers.filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use argus_core::desired::admit::{SpecContext, admit};
    use argus_core::ident::ContainerId;
    use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
    use argus_core::observed::{Config, Container, ContainerState, InspectInfo, Object, WatchEvent};

    use super::*;

    fn store(image_id: &str) -> Store {
        let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop"), (SERVICE, "web")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let container = Container {
            id: ContainerId::new("c").unwrap(),
            name: "shop-web".to_owned(),
            labels: labels.into_iter().collect(),
            image: "web:1".to_owned(),
            state: ContainerState::Running,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                started_at: Some(Timestamp(1)),
                finished_at: None,
                exit_code: 0,
                oom_killed: false,
                error: String::new(),
                image_id: Some(image_id.to_owned()),
                health: None,
                config: Config::default(),
            }),
            stopped_by_other: None,
            oom_at: None,
        };
        let mut store = Store::default();
        for event in [
            WatchEvent::Connected(Timestamp(1)),
            WatchEvent::Init,
            WatchEvent::Apply(Object::Container(Arc::new(container))),
            WatchEvent::InitDone,
        ] {
            store.apply(event);
        }
        store
    }

    #[test]
    fn new_image_of_the_same_revision_is_pinned_again() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web: { image: web:1, container: { name: shop-web } }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let accepted = Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: argus_core::desired::key_lines::KeyLines::default(),
            accepted_at: Timestamp(1),
            has_pending_edit: false,
        };
        let (old, new) = (store("sha256:old"), store("sha256:new"));
        let good = pinned(&accepted, &old);
        assert!(runs_as_pinned(&good, &old) && !runs_as_pinned(&good, &new));
        assert!(
            runs_as_pinned(&pinned(&accepted, &new), &new),
            "a second pin changes nothing"
        );
        assert!(
            runs_as_pinned(&good, &Store::default()),
            "services that do not run are ignored"
        );
    }
}
