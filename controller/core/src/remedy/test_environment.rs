//! Environment with a failed run, for the tests of the rules.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use argus_crds::error::SpecEdit;

use super::EditContext;
use crate::desired::Accepted;
use crate::desired::admit::{SpecContext, admit};
use crate::desired::key_lines::KeyLines;
use crate::failed_run::{FailedRun, FailureCause};
use crate::ident::{ContainerId, ServiceName};
use crate::observed::Volume;
use crate::outcome::Evidence;
use crate::state::{EnvHistory, HealthyRun};
use crate::time::Timestamp;

/// Context of a file in the folder of a project, with the other folders of the host that an operator permits.
pub(super) fn context() -> SpecContext {
    SpecContext {
        directory: "/p".to_owned(),
        allow_mounts: ["/mnt", "/dev/shm"].map(str::to_owned).to_vec(),
        ..SpecContext::default()
    }
}

/// Accepted file with this text.
pub(super) fn accept(text: &str) -> Accepted {
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let spec = read.spec.unwrap_or_else(|| panic!("{:?}", read.diagnostics));
    let admission = admit(&spec, &context());
    Accepted {
        desired: admission
            .desired
            .unwrap_or_else(|| panic!("{:?}", admission.diagnostics)),
        spec_path: "e2e.yaml".to_owned(),
        lines: KeyLines::from_spec(&spec, &read.source),
        accepted_at: Timestamp(1_000),
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: BTreeMap::new(),
    }
}

/// A failed run of the service `web`, which ended at second 5.
pub(super) struct TestEnvironment {
    accepted: Accepted,
    history: EnvHistory,
    pub(super) volumes: BTreeMap<String, Arc<Volume>>,
    pub(super) run: FailedRun,
}

impl TestEnvironment {
    /// `services` are the lines below `services:`.
    pub(super) fn new(services: &str) -> Self {
        let accepted = accept(&format!("project: {{ name: shop }}\nservices:\n{services}"));
        let run = FailedRun {
            exit_code: 1,
            started_at: Some(Timestamp(1_000)),
            evidence: Some(Evidence::default()),
            ..FailedRun::new(ContainerId::new("c1").unwrap(), Timestamp(5_000))
        };
        Self {
            accepted,
            history: EnvHistory::default(),
            volumes: BTreeMap::new(),
            run,
        }
    }

    /// The same for a Compose file, whose translation has these services.
    pub(super) fn compose(services: &str) -> Self {
        Self::compose_with(services, services)
    }

    /// The same for a translation that `written` has with its templates.
    pub(super) fn compose_with(services: &str, written: &str) -> Self {
        let text = format!("project: {{ name: shop }}\nservices:\n{written}");
        let first = argus_crds::Location {
            line: 1,
            column: 1,
            length: 1,
        };
        let read = argus_crds::yaml::read_translated("compose.yaml", &text, &|_: &str| Some(first));
        let mut environment = Self::new(services);
        environment.accepted.lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
        environment
    }

    /// The program wrote this line between others and ended.
    pub(super) fn wrote(mut self, line: &str) -> Self {
        self.evidence().stderr = ["starting", line, "bye"].map(str::to_owned).to_vec();
        self
    }

    /// The health check failed with this result, while the container listened on these addresses.
    pub(super) fn unhealthy(mut self, output: &str, listening: &[&str]) -> Self {
        self.run.cause = FailureCause::Unhealthy;
        self.run.exit_code = 0;
        self.run.probe_output = vec![output.to_owned(); 3];
        let parse = |address: &&str| address.parse::<SocketAddr>().unwrap();
        self.evidence().listening = Some(listening.iter().map(parse).collect());
        self
    }

    /// The service is healthy since this time.
    pub(super) fn healthy(mut self, service: &str, since: i64) -> Self {
        let name = ServiceName::new(service).unwrap();
        let history = self.history.service_mut(&name);
        history.healthy_run = Some(HealthyRun {
            container: ContainerId::new("c2").unwrap(),
            started_at: None,
            since: Timestamp(since),
            probe: None,
        });
        self
    }

    /// The service was healthy in an earlier run.
    pub(super) fn was_healthy(mut self) -> Self {
        let name = ServiceName::new("web").unwrap();
        let history = self.history.service_mut(&name);
        history.health_transitions.push(Timestamp(500));
        self
    }

    pub(super) fn evidence(&mut self) -> &mut Evidence {
        self.run.evidence.as_mut().unwrap()
    }

    pub(super) fn edit(&self) -> Option<SpecEdit> {
        let context = EditContext {
            accepted: &self.accepted,
            service: &self.accepted.desired.services["web"],
            history: &self.history,
            volumes: &self.volumes,
        };
        context.of_run(&self.run)
    }

    /// End of the key of the edit, and its text.
    pub(super) fn text(&self) -> String {
        match self.edit() {
            Some(edit) => format!("{}: {edit}", edit.key),
            None => "none".to_owned(),
        }
    }

    /// Asserts that the edit has this key, relative to the services, and this text.
    pub(super) fn assert_edit(&self, key: &str, text: &str) {
        let edit = self
            .edit()
            .unwrap_or_else(|| panic!("no edit for {:?}", self.run));
        assert_eq!(edit.key, format!("services.{key}"), "{edit}");
        assert!(edit.to_string().contains(text), "{edit}");
        assert!(edit.line.is_some(), "{edit:?}");
    }
}
