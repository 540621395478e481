//! What must be there first: every name known, no circle.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::{DependencyCondition, Diagnostic, Service as Written};

use crate::desired::identity::shown;
use crate::desired::peers::Peers;
use crate::desired::suggest::did_you_mean;
use crate::desired::{Condition, Dependency, Service};
use crate::ident::ServiceName;

/// The dependencies of one service. One without a condition waits for the end of a one-shot, else for health.
pub(super) fn of(
    written: &Written,
    name: &ServiceName,
    path: &str,
    peers: &Peers,
    to: &mut Vec<Diagnostic>,
) -> Vec<Dependency> {
    let mut needs: Vec<Dependency> = Vec::new();
    for (index, dependency) in written.depends_on.iter().enumerate() {
        let path = format!("{path}.dependsOn[{index}]");
        let other = dependency.service.as_str();
        if other == name.as_str() {
            let message = format!("service `{name}` depends on itself");
            to.push(Diagnostic::error(path, message).hint("take it out of `dependsOn`"));
            continue;
        }
        let Some(peer) = peers.get(other) else {
            to.push(missing(other, name, path, peers));
            continue;
        };
        let condition = match dependency.condition {
            Some(DependencyCondition::Started) => Condition::Started,
            Some(DependencyCondition::Healthy) if peer.one_shot => {
                let message = format!("`{other}` runs once and ends, so it is never `healthy` for long");
                to.push(Diagnostic::error(path, message).hint("write `condition: completed`"));
                continue;
            }
            Some(DependencyCondition::Completed) if !peer.one_shot => {
                let message = format!("`{other}` never completes: it is no one-shot");
                to.push(Diagnostic::error(path, message).hint(format!(
                    "add `oneShot: true` to `{other}`, or write `condition: healthy`"
                )));
                continue;
            }
            Some(DependencyCondition::Completed) => Condition::Completed,
            None if peer.one_shot => Condition::Completed,
            Some(DependencyCondition::Healthy) | None => Condition::Healthy,
        };
        // An invalid name of a service is said where the service stands.
        let Ok(service) = ServiceName::new(other) else {
            continue;
        };
        match needs.iter().find(|need| need.service == service) {
            None => needs.push(Dependency { service, condition }),
            Some(before) if before.condition == condition => {
                let message = format!("`{other}` stands in `dependsOn` twice");
                to.push(Diagnostic::warning(path, message).hint("take one of them out"));
            }
            Some(_) => {
                let message = format!("`{other}` stands in `dependsOn` twice, with two conditions");
                to.push(Diagnostic::error(path, message).hint("keep the one that is meant"));
            }
        }
    }
    needs
}

fn missing(other: &str, name: &ServiceName, path: String, peers: &Peers) -> Diagnostic {
    let message = format!(
        "`{name}` depends on `{}`, which is no service or mock of this file",
        shown(other)
    );
    Diagnostic::error(path, message).hint(did_you_mean(other, peers.names()))
}

/// Complains once about every circle of dependencies, at the first of its services in the file.
pub(super) fn circles(services: &[(String, Service)], to: &mut Vec<Diagnostic>) {
    let by_name: BTreeMap<&ServiceName, &(String, Service)> = services
        .iter()
        .map(|service| (&service.1.name, service))
        .collect();
    let mut settled = BTreeSet::new();
    for (path, service) in services {
        let Some(circle) = walk(&service.name, &by_name, &mut settled) else {
            continue;
        };
        let names: Vec<String> = circle
            .iter()
            .chain(circle.first())
            .map(|name| format!("`{name}`"))
            .collect();
        let message = format!(
            "the services wait for each other in a circle: {}",
            names.join(" -> ")
        );
        to.push(
            Diagnostic::error(format!("{path}.dependsOn"), message)
                .hint("take one of these dependencies out: none of them could ever start"),
        );
    }
}

/// The first circle that is reached from a service and not yet known, without recursion: a file may chain 500 services.
fn walk<'a>(
    from: &'a ServiceName,
    by_name: &BTreeMap<&'a ServiceName, &'a (String, Service)>,
    settled: &mut BTreeSet<&'a ServiceName>,
) -> Option<Vec<&'a ServiceName>> {
    let mut road: Vec<(&ServiceName, usize)> = vec![(from, 0)];
    let mut circle = None;
    while let Some((name, next)) = road.pop() {
        if settled.contains(name) {
            continue;
        }
        let needs = by_name.get(name).map_or(&[][..], |service| &service.1.depends_on);
        let Some(need) = needs.get(next) else {
            settled.insert(name);
            continue;
        };
        road.push((name, next + 1));
        if let Some(start) = road.iter().position(|(on_road, _)| **on_road == need.service) {
            circle.get_or_insert_with(|| road[start..].iter().map(|(name, _)| *name).collect());
        } else if let Some((known, _)) = by_name.get_key_value(&need.service) {
            road.push((known, 0));
        }
    }
    circle
}
