//! The labels that make the engine our database: their keys, and ownership read back from them.

use std::collections::BTreeMap;

use crate::ident::{EnvName, ServiceName, SpecHash};

/// `true` on everything that Argus made.
pub const MANAGED: &str = "argusai.managed";
/// `project.name` of the spec.
pub const PROJECT: &str = "argusai.project";
/// The controller's run (a ULID, new at each start).
pub const RUN_ID: &str = "argusai.run-id";
/// RFC 3339.
pub const CREATED_AT: &str = "argusai.created-at";
/// [`EnvName`].
pub const ENVIRONMENT: &str = "argusai.environment";
/// [`ServiceName`].
pub const SERVICE: &str = "argusai.service";
/// `service`, `mock`, `network` or `volume`.
pub const ROLE: &str = "argusai.role";
/// [`SpecHash`] of the container as it was asked for.
pub const SPEC_HASH: &str = "argusai.spec-hash";
/// The environment's revision when the object was made.
pub const REVISION: &str = "argusai.revision";
/// Identity of the controller (a ULID, kept in its state directory).
pub const CONTROLLER: &str = "argusai.controller";
/// The sticky port map of the container: `CONTAINER/PROTO=HOST@WANTED` joined by commas.
pub const PORTS: &str = "argusai.ports";

/// On a lease: the run that holds it.
pub const LEASE: &str = "argusai.lease";

/// `Delete` on volumes that go when their environment goes.
pub const DELETION: &str = "argusai.deletion";

/// An environment that its file has no name for: of a project that has labels and a run, but no controller.
fn of_the_node_tool(labels: &BTreeMap<String, String>) -> Option<EnvName> {
    let told = |key: &str| labels.get(key).is_some_and(|value| !value.is_empty());
    let all = told(RUN_ID) && told(CREATED_AT) && !told(CONTROLLER);
    EnvName::slug(labels.get(PROJECT).filter(|_| all)?).ok()
}

/// What our labels on an object say about whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The environment it belongs to.
    pub environment: EnvName,
    /// The service, absent on networks and volumes.
    pub service: Option<ServiceName>,
    /// `argusai.project`.
    pub project: String,
    /// `argusai.controller`; empty on what the Node tool made.
    pub controller: String,
    /// `argusai.revision`, as text.
    pub revision: String,
    /// `argusai.spec-hash`.
    pub spec_hash: Option<SpecHash>,
}

impl Owner {
    /// Reads ownership; `None` for whatever is not wholly ours, which is then never touched.
    ///
    /// The Node tool's four labels name no environment: what it made belongs to the one that is called like its project.
    pub fn read(labels: &BTreeMap<String, String>) -> Option<Self> {
        if labels.get(MANAGED).map(String::as_str) != Some("true") {
            return None;
        }
        let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let environment = match labels.get(ENVIRONMENT) {
            Some(name) => EnvName::new(name.clone()).ok()?,
            None => of_the_node_tool(labels)?,
        };
        Some(Self {
            environment,
            service: labels.get(SERVICE).and_then(|s| ServiceName::new(s.clone()).ok()),
            project: text(PROJECT),
            controller: text(CONTROLLER),
            revision: text(REVISION),
            spec_hash: labels.get(SPEC_HASH).and_then(|h| SpecHash::new(h.clone()).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pairs: &[(&str, &str)]) -> Option<Owner> {
        let labels = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Owner::read(&labels.collect())
    }

    #[test]
    fn what_the_node_tool_made_is_known_by_its_four_labels_and_by_nothing_less() {
        let four = [
            (MANAGED, "true"),
            (PROJECT, "My Shop"),
            (RUN_ID, "r1"),
            (CREATED_AT, "2026-01-01T00:00:00Z"),
        ];
        let found = owner(&four).unwrap();
        assert_eq!(
            (
                found.environment.as_str(),
                found.project.as_str(),
                found.controller.as_str()
            ),
            ("my-shop", "My Shop", "")
        );
        for missing in 0..four.len() {
            let some: Vec<_> = four
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != missing)
                .map(|(_, pair)| *pair)
                .collect();
            assert_eq!(owner(&some), None, "without {:?}", four[missing]);
        }
        let half = [
            (MANAGED, "true"),
            (PROJECT, "My Shop"),
            (RUN_ID, "r1"),
            (CREATED_AT, "x"),
            (CONTROLLER, "c"),
        ];
        assert_eq!(owner(&half), None, "ours, and something of it is lost");
    }
}
