//! Dependencies between services: resolution of names and conditions, and the detection of cycles.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::diagnostic::DiagnosticSeverity;
use argus_crds::suggestion::nearest;
use argus_crds::{DependencyCondition, Diagnostic, Service as ServiceSpec};

use crate::desired::identity::shown;
use crate::desired::referenced_services::ReferencedServices;
use crate::desired::suggest::did_you_mean;
use crate::desired::{Condition, Dependency, Service};
use crate::ident::ServiceName;

/// Returns the dependencies of one service.
///
/// The default condition is `completed` for a one-shot, and `healthy` for other services.
pub(super) fn resolve_dependencies(
    spec: &ServiceSpec,
    name: &ServiceName,
    path: &str,
    referenced_services: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Dependency> {
    let mut dependencies: Vec<Dependency> = Vec::new();
    for (index, dependency) in spec.depends_on.iter().enumerate() {
        let path = format!("{path}.dependsOn[{index}]");
        let other = dependency.service.as_str();
        if other == name.as_str() {
            let message = format!("service `{name}` depends on itself");
            diagnostics.push(Diagnostic::error(path, message).hint("remove it from `dependsOn`"));
            continue;
        }
        let Some(referenced) = referenced_services.get(other) else {
            let mut unknown = unknown_dependency(other, name, path, referenced_services);
            if !dependency.required {
                unknown.severity = DiagnosticSeverity::Warning;
            }
            diagnostics.push(unknown);
            continue;
        };
        let condition = match dependency.condition {
            Some(DependencyCondition::Started) => Condition::Started,
            Some(DependencyCondition::Healthy) if referenced.one_shot => {
                let message = format!("`{other}` is a one-shot service, which never stays `healthy`");
                let diagnostic = Diagnostic::error(format!("{path}.condition"), message);
                diagnostics.push(
                    diagnostic
                        .hint("set `condition: completed`")
                        .replace("healthy", "completed"),
                );
                continue;
            }
            Some(DependencyCondition::Completed) if !referenced.one_shot => {
                let message = format!("`{other}` never completes, because it is not a one-shot service");
                let diagnostic = Diagnostic::error(format!("{path}.condition"), message).hint(format!(
                    "add `oneShot: true` to `{other}`, or set `condition: healthy`"
                ));
                diagnostics.push(if referenced.is_server {
                    diagnostic.replace("completed", "healthy")
                } else {
                    diagnostic
                });
                continue;
            }
            Some(DependencyCondition::Completed) => Condition::Completed,
            None if referenced.one_shot => Condition::Completed,
            Some(DependencyCondition::Healthy) | None => Condition::Healthy,
        };
        // The check of that service reports its invalid name.
        let Ok(service) = ServiceName::new(other) else {
            continue;
        };
        match dependencies
            .iter()
            .find(|dependency| dependency.service == service)
        {
            None => dependencies.push(Dependency {
                service,
                condition,
                optional: !dependency.required,
                restart: dependency.restart,
            }),
            Some(earlier) if earlier.condition == condition => {
                let message = format!("`dependsOn` contains `{other}` twice");
                diagnostics.push(Diagnostic::warning(path, message).hint("remove one of them"));
            }
            Some(_) => {
                let message = format!("`dependsOn` contains `{other}` twice, with different conditions");
                diagnostics.push(Diagnostic::error(path, message).hint("keep one of them"));
            }
        }
    }
    dependencies
}

fn unknown_dependency(
    other: &str,
    name: &ServiceName,
    path: String,
    referenced_services: &ReferencedServices,
) -> Diagnostic {
    let message = format!(
        "`{name}` depends on `{}`, which this file does not define",
        shown(other)
    );
    let diagnostic = Diagnostic::error(path, message).hint(did_you_mean(other, referenced_services.names()));
    match nearest(
        other,
        referenced_services
            .names()
            .filter(|known| *known != name.as_str()),
    ) {
        Some(meant) => diagnostic.replace(other, meant),
        None => diagnostic,
    }
}

/// Reports every cycle of dependencies once, at its first service in the file.
pub(super) fn report_cycles(services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let by_name: BTreeMap<&ServiceName, &(String, Service)> = services
        .iter()
        .map(|service| (&service.1.name, service))
        .collect();
    let mut checked = BTreeSet::new();
    for (path, service) in services {
        let Some(cycle) = find_cycle(&service.name, &by_name, &mut checked) else {
            continue;
        };
        let names: Vec<String> = cycle
            .iter()
            .chain(cycle.first())
            .map(|name| format!("`{name}`"))
            .collect();
        let message = format!("the services form a dependency cycle: {}", names.join(" -> "));
        let diagnostic = Diagnostic::error(format!("{path}.dependsOn"), message)
            .hint("remove one of these dependencies, because none of the services could start");
        let edges = cycle.iter().zip(cycle.iter().skip(1).chain(cycle.first()));
        let diagnostic = edges.fold(diagnostic, |diagnostic, (from, to)| {
            let of = services.iter().find(|(_, service)| service.name == **from);
            let index =
                of.and_then(|(_, service)| service.depends_on.iter().position(|it| it.service == **to));
            let path = of.map_or("", |(path, _)| path);
            let path = format!("{path}.dependsOn[{}]", index.unwrap_or_default());
            diagnostic.relate(path, format!("`{from}` depends on `{to}`"))
        });
        diagnostics.push(diagnostic);
    }
}

/// Returns the first unreported cycle that is reachable from a service.
///
/// The search is iterative, because a chain of 500 services could overflow the stack.
fn find_cycle<'a>(
    from: &'a ServiceName,
    by_name: &BTreeMap<&'a ServiceName, &'a (String, Service)>,
    checked: &mut BTreeSet<&'a ServiceName>,
) -> Option<Vec<&'a ServiceName>> {
    let mut path: Vec<(&ServiceName, usize)> = vec![(from, 0)];
    let mut cycle = None;
    while let Some((name, next)) = path.pop() {
        if checked.contains(name) {
            continue;
        }
        let dependencies = by_name.get(name).map_or(&[][..], |service| &service.1.depends_on);
        let Some(dependency) = dependencies.get(next) else {
            checked.insert(name);
            continue;
        };
        path.push((name, next + 1));
        if let Some(start) = path.iter().position(|(name, _)| **name == dependency.service) {
            cycle.get_or_insert_with(|| path[start..].iter().map(|(name, _)| *name).collect());
        } else if let Some((known, _)) = by_name.get_key_value(&dependency.service) {
            path.push((known, 0));
        }
    }
    cycle
}
