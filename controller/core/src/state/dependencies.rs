//! Dependencies of services, recorded for the stops of containers whose file is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::EnvHistory;
use crate::desired::{Desired, Service};
use crate::ident::ServiceName;
use crate::labels;
use crate::observed::{Container, Observed};

/// Direct dependencies by service.
pub type Dependencies = BTreeMap<ServiceName, BTreeSet<ServiceName>>;

/// Records the dependencies of the accepted file. Those of removed services stay while a container of a removed service exists,
/// because a chain can contain services without a container.
pub(super) fn record(history: &mut EnvHistory, desired: &Desired, observed: &Observed) {
    let is_removed = |container: &Arc<Container>| {
        let service = container.labels.get(labels::SERVICE);
        service.is_some_and(|service| !desired.services.contains_key(service.as_str()))
    };
    let keeps_removed = observed.containers.values().any(is_removed);
    let known = &history.depends_on;
    let is_known = |service: &Service| {
        let names = known.get(&service.name);
        let is_same = |names: &BTreeSet<ServiceName>| {
            names.len() == service.depends_on.len()
                && service.depends_on.iter().all(|it| names.contains(&it.service))
        };
        names.is_some_and(is_same)
    };
    let is_complete = keeps_removed || known.len() == desired.services.len();
    if is_complete && desired.services.values().all(is_known) {
        return;
    }
    let known = Arc::make_mut(&mut history.depends_on);
    if !keeps_removed {
        known.clear();
    }
    let names = |service: &Service| service.depends_on.iter().map(|it| it.service.clone()).collect();
    known.extend(desired.services.values().map(|it| (it.name.clone(), names(it))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::ident::ContainerId;
    use crate::observed::ContainerState;
    use crate::time::Timestamp;

    fn desired(services: &str) -> Desired {
        let text = format!("version: '1'\nproject: {{ name: shop }}\nservices:\n{services}");
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        admit(&spec, &SpecContext::default()).desired.unwrap()
    }

    fn observed(service: &str) -> Observed {
        let container = Container {
            id: ContainerId::new("1").unwrap(),
            name: service.to_owned(),
            labels: [(labels::SERVICE.to_owned(), service.to_owned())].into(),
            image: "a".to_owned(),
            state: ContainerState::Running,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: None,
            stopped_by_other: None,
            oom_at: None,
        };
        Observed {
            containers: [Arc::new(container)].into_iter().collect(),
            ..Observed::default()
        }
    }

    fn names(history: &EnvHistory) -> Vec<String> {
        let all = history.depends_on.iter();
        all.map(|(name, on)| {
            let on: Vec<&str> = on.iter().map(ServiceName::as_str).collect();
            format!("{name}:{}", on.join(","))
        })
        .collect()
    }

    #[test]
    fn removed_services_are_known_while_one_has_a_container() {
        let db = "  db: { image: a, container: { name: db } }\n";
        let all = format!(
            "{db}  job: {{ image: a, oneShot: true, dependsOn: [db], container: {{ name: job }} }}\n  \
             app: {{ image: a, dependsOn: [{{ service: job, condition: completed }}], container: {{ name: app }} }}\n"
        );
        let mut history = EnvHistory::default();
        record(&mut history, &desired(&all), &observed("app"));
        assert_eq!(names(&history), ["app:job", "db:", "job:db"]);
        let before = history.depends_on.clone();
        record(&mut history, &desired(&all), &observed("app"));
        assert!(
            Arc::ptr_eq(&before, &history.depends_on),
            "nothing is written again"
        );
        record(&mut history, &desired(db), &observed("app"));
        assert_eq!(names(&history), ["app:job", "db:", "job:db"]);
        record(&mut history, &desired(db), &observed("db"));
        assert_eq!(names(&history), ["db:"]);
    }

    #[test]
    fn history_of_an_earlier_version_has_no_dependencies() {
        let history: EnvHistory = serde_json::from_str("{}").unwrap();
        assert!(history.depends_on.is_empty());
        let text = serde_json::to_string(&history).unwrap();
        assert!(!text.contains("dependsOn"), "{text}");
    }
}
