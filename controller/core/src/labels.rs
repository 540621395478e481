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

/// `Delete` on volumes that go when their environment goes.
pub const DELETION: &str = "argusai.deletion";

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
    pub fn read(labels: &BTreeMap<String, String>) -> Option<Self> {
        if labels.get(MANAGED).map(String::as_str) != Some("true") {
            return None;
        }
        let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
        Some(Self {
            environment: EnvName::new(labels.get(ENVIRONMENT)?.clone()).ok()?,
            service: labels.get(SERVICE).and_then(|s| ServiceName::new(s.clone()).ok()),
            project: text(PROJECT),
            controller: text(CONTROLLER),
            revision: text(REVISION),
            spec_hash: labels.get(SPEC_HASH).and_then(|h| SpecHash::new(h.clone()).ok()),
        })
    }
}
