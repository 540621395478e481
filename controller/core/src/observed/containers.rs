//! Containers of one environment, by id and by service.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::Container;
use crate::ident::{ContainerId, ServiceName};
use crate::labels;

/// Containers by id, with an index of their services: a pass asks for the containers of each service several times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Containers {
    by_id: BTreeMap<ContainerId, Arc<Container>>,
    by_service: BTreeMap<String, BTreeSet<ContainerId>>,
}

impl Containers {
    /// Returns the containers of a service.
    ///
    /// One label is enough here, because [`Store`](super::Store) holds managed objects only; [`Container::owner`] checks
    /// all labels.
    pub fn of(&self, service: &ServiceName) -> impl Iterator<Item = &Arc<Container>> {
        let ids = self.by_service.get(service.as_str()).into_iter().flatten();
        ids.filter_map(|id| self.by_id.get(id))
    }

    pub(crate) fn insert(&mut self, container: Arc<Container>) {
        self.remove(&container.id);
        if let Some(service) = container.labels.get(labels::SERVICE) {
            let ids = self.by_service.entry(service.clone()).or_default();
            ids.insert(container.id.clone());
        }
        self.by_id.insert(container.id.clone(), container);
    }

    pub(super) fn remove(&mut self, id: &ContainerId) {
        let Some(container) = self.by_id.remove(id) else {
            return;
        };
        let service = container.labels.get(labels::SERVICE);
        if let Some((service, ids)) =
            service.and_then(|service| Some((service, self.by_service.get_mut(service)?)))
        {
            ids.remove(id);
            if ids.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Returns a container to change anything but its labels.
    pub(super) fn get_mut(&mut self, id: &ContainerId) -> Option<&mut Arc<Container>> {
        self.by_id.get_mut(id)
    }
}

impl Deref for Containers {
    type Target = BTreeMap<ContainerId, Arc<Container>>;

    fn deref(&self) -> &Self::Target {
        &self.by_id
    }
}

impl FromIterator<Arc<Container>> for Containers {
    fn from_iter<I: IntoIterator<Item = Arc<Container>>>(containers: I) -> Self {
        let mut all = Self::default();
        containers.into_iter().for_each(|container| all.insert(container));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::ContainerState;
    use crate::time::Timestamp;

    fn container(id: &str, service: Option<&str>) -> Arc<Container> {
        let label = service.map(|name| (labels::SERVICE.to_owned(), name.to_owned()));
        Arc::new(Container {
            id: ContainerId::new(id).unwrap(),
            name: id.to_owned(),
            labels: label.into_iter().collect(),
            image: "web:1".to_owned(),
            state: ContainerState::Running,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: None,
            stopped_by_other: None,
            oom_at: None,
        })
    }

    #[test]
    fn index_follows_every_change() {
        let of = |all: &Containers, name: &str| -> Vec<String> {
            let service = ServiceName::new(name).unwrap();
            all.of(&service)
                .map(|container| container.id.to_string())
                .collect()
        };
        let mut all: Containers = [
            container("1", Some("web")),
            container("2", Some("web")),
            container("3", None),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            (of(&all, "web"), of(&all, "db")),
            (vec!["1".to_owned(), "2".to_owned()], vec![])
        );
        all.insert(container("1", Some("db")));
        assert_eq!(
            (of(&all, "web"), of(&all, "db")),
            (vec!["2".to_owned()], vec!["1".to_owned()])
        );
        all.remove(&ContainerId::new("1").unwrap());
        all.remove(&ContainerId::new("1").unwrap());
        assert_eq!((of(&all, "web"), of(&all, "db")), (vec!["2".to_owned()], vec![]));
        let two = all.get_mut(&ContainerId::new("2").unwrap()).unwrap();
        Arc::make_mut(two).state = ContainerState::Exited;
        let web = ServiceName::new("web").unwrap();
        assert!(
            all.of(&web)
                .all(|container| container.state == ContainerState::Exited)
        );
        all.remove(&ContainerId::new("2").unwrap());
        all.remove(&ContainerId::new("3").unwrap());
        assert_eq!(all, Containers::default());
    }
}
