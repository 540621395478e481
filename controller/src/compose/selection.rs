//! Services of a project that start: those with an active profile, or only the selected ones with their dependencies.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::deploy::has_no_replicas;
use super::variables::Variables;
use super::{Document, Note, PROFILES};

/// Variable with the selected services.
pub(crate) const SERVICES: &str = "ARGUS_SERVICES";

/// End of a selected name that the file need not have: the service exists.
pub(crate) const OPTIONAL: char = '?';

/// Services that do not start.
pub(super) struct Omitted<'a> {
    /// All of them.
    pub(super) names: BTreeSet<&'a str>,
    /// Those that no selected service needs, which need no note.
    unselected: BTreeSet<&'a str>,
}

impl<'a> Omitted<'a> {
    /// Finds the services that do not start. Notes the selected ones that the file does not have. As in Compose, a selected service
    /// starts without its profile.
    pub(super) fn find(
        services: &'a Map<String, Value>,
        variables: &mut Variables,
        document: &Document,
        notes: &mut Vec<Note>,
    ) -> Self {
        let active = list(variables, PROFILES);
        let selected = list(variables, SERVICES).into_iter();
        let selected = selected.filter_map(|name| match name.strip_suffix(OPTIONAL) {
            Some(kept) => services.contains_key(kept).then(|| kept.to_owned()),
            None => Some(name),
        });
        let selected: Vec<String> = selected.collect();
        for name in selected.iter().filter(|name| !services.contains_key(*name)) {
            let what = format!("the file has no service `{name}`, which is selected");
            notes.push(Note::error(what, document.place_of("services")));
        }
        let needed = find_needed(services, &selected);
        let is_unselected = |name: &str| !selected.is_empty() && !needed.contains(name);
        let mut is_omitted = |name: &String, service: &Value| {
            let profiles = service["profiles"].as_array().filter(|all| !all.is_empty());
            let is_inactive = profiles.is_some_and(|profiles| {
                let mut names = profiles.iter().filter_map(Value::as_str);
                !names.any(|name| active.iter().any(|active| active == name || active == "*"))
            });
            is_unselected(name)
                || (is_inactive && !selected.contains(name))
                || has_no_replicas(service, variables)
        };
        let names = services
            .iter()
            .filter(|(name, service)| is_omitted(name, service));
        let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
        let unselected = names.iter().copied().filter(|name| is_unselected(name)).collect();
        Self { names, unselected }
    }

    /// Returns the note about a service that does not start; `None` for one that is not selected.
    pub(super) fn note(
        &self,
        name: &str,
        service: &Value,
        variables: &mut Variables,
        document: &Document,
    ) -> Option<Note> {
        if self.unselected.contains(name) {
            return None;
        }
        let (key, why) = if has_no_replicas(service, variables) {
            ("scale", "no replicas")
        } else {
            ("profiles", "`profiles`")
        };
        let what = format!("left out: service `{name}`, which has {why}");
        Some(Note::omission(what, document.place(name, key)))
    }
}

/// Names in a variable of the project.
fn list(variables: &Variables, name: &str) -> Vec<String> {
    let text = variables.project.get(name).map_or("", String::as_str);
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Returns services with those that they depend on, directly or through others.
fn find_needed<'a>(services: &'a Map<String, Value>, selected: &'a [String]) -> BTreeSet<&'a str> {
    let mut next: Vec<&str> = selected.iter().map(String::as_str).collect();
    let mut needed = BTreeSet::new();
    while let Some(name) = next.pop() {
        let Some(service) = services.get(name).filter(|_| needed.insert(name)) else {
            continue;
        };
        let dependencies = service["depends_on"].as_object().into_iter().flat_map(Map::keys);
        next.extend(dependencies.map(String::as_str));
        let links = service["links"].as_array().into_iter().flatten();
        let links = links.filter_map(|link| link.as_str()?.split(':').next());
        let network = service["network_mode"].as_str();
        next.extend(links.chain(network.and_then(|mode| mode.strip_prefix("service:"))));
    }
    needed
}
