//! Gauges of the current state, built on each scrape, so that no series is outdated or belongs to a removed resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::status::describe_wait;
use argus_crds::status::{
    BreakerScope, BreakerState, BreakerStatus, CheckResult, ControllerStatus, EnvironmentStatus, Mode, Phase,
    ServiceState, Truth,
};
use argus_reconciler::Snapshot;
use argus_reconciler::metrics::make;
use argus_reconciler::specs::FileState;
use prometheus::IntGaugeVec;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use serde::Serialize;
use tokio::sync::watch;

use crate::view::Statuses;

/// Kinds of orphans.
pub(super) const KINDS: [&str; 3] = ["container", "network", "volume"];
/// Results of orphans.
const ORPHAN_RESULTS: [&str; 4] = ["reported", "waiting", "removing", "failed"];
/// States of spec files.
const FILE_STATES: [&str; 4] = ["unread", "accepted", "rejected", "conflict"];

/// Collector of the gauges.
#[derive(Debug)]
pub(super) struct Gauges {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    statuses: watch::Receiver<Arc<Statuses>>,
    /// Gauges without series, for the descriptions.
    blank: GaugeSet,
}

impl Gauges {
    pub(super) fn new(
        snapshots: watch::Receiver<Arc<Snapshot>>,
        statuses: watch::Receiver<Arc<Statuses>>,
    ) -> Self {
        Self {
            snapshots,
            statuses,
            blank: GaugeSet::default(),
        }
    }
}

impl Collector for Gauges {
    fn desc(&self) -> Vec<&Desc> {
        self.blank.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (snapshot, statuses) = (self.snapshots.borrow().clone(), self.statuses.borrow().clone());
        let set = GaugeSet::default();
        set.set_controller(&snapshot, &statuses.controller);
        set.set_plans(&snapshot);
        set.set_specs(&snapshot);
        set.set_environments(&statuses);
        set.all().into_iter().flat_map(Collector::collect).collect()
    }
}

macro_rules! gauge_set {
    ($($field:ident $name:literal $labels:tt: $help:literal;)+) => {
        /// The gauges of one scrape.
        #[derive(Debug)]
        struct GaugeSet { $($field: IntGaugeVec),+ }

        impl Default for GaugeSet {
            fn default() -> Self {
                Self { $($field: make::gauges($name, $help, &$labels)),+ }
            }
        }

        impl GaugeSet {
            fn all(&self) -> Vec<&IntGaugeVec> {
                vec![$(&self.$field),+]
            }
        }
    };
}

gauge_set! {
    build "argus_build_info" ["version"]:
        "1, with the version of the controller.";
    engine_info "argus_engine_info" ["version", "api_version"]:
        "1, with the version of the engine; no series before the first response.";
    engine "argus_engine_reachable" []:
        "1 while the engine responds.";
    mode "argus_mode" ["mode"]:
        "1 for the mode of the controller, 0 for all others.";
    writable "argus_journal_writable" []:
        "1 while the journal is writable; otherwise Argus performs no actions.";
    breakers "argus_circuit_breaker_state" ["scope", "environment", "state"]:
        "1 for the state of a circuit breaker, 0 for all others. The engine's breaker has no environment label.";
    checks "argus_preflight_check" ["check", "result"]:
        "1 for the result of a preflight check, 0 for all others.";
    orphans "argus_orphans" ["kind", "result"]:
        "Current orphaned resources, by kind and result.";
    in_flight "argus_actions_in_flight" ["verb"]:
        "Actions on the engine that are in progress.";
    waits "argus_waiting" ["environment", "reason"]:
        "Current waits, by environment and reason; no series without a wait.";
    spec_files "argus_spec_files" ["state"]:
        "Files of the specs folder, by state.";
    specs_available "argus_specs_available" []:
        "1 while the specs folder can be read.";
    phases "argus_environments" ["phase"]:
        "Environments, by phase.";
    phase "argus_environment_phase" ["environment", "phase"]:
        "1 for the phase of an environment, 0 for all others.";
    conditions "argus_environment_condition" ["environment", "type", "status"]:
        "1 for the status of a condition of an environment, 0 for all others.";
    services "argus_services" ["environment", "state"]:
        "Services and mocks of an environment, by state.";
    ready "argus_service_ready" ["environment", "service"]:
        "1 while a service is ready or has completed as expected.";
    links "argus_connectivity_links" ["environment", "result"]:
        "Checked links between services, by result; no series before the first connectivity check.";
}

impl GaugeSet {
    fn set_controller(&self, snapshot: &Snapshot, controller: &ControllerStatus) {
        self.build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        if let Some(engine) = &controller.engine
            && let (Some(version), Some(api)) = (&engine.version, &engine.api_version)
        {
            self.engine_info.with_label_values(&[version, api]).set(1);
        }
        set_bool(&self.engine, snapshot.store.is_reachable());
        set_bool(&self.writable, snapshot.problems.unwritable.is_none());
        for mode in Mode::ALL {
            let series = self.mode.with_label_values(&[enum_label(mode)]);
            series.set(i64::from(*mode == snapshot.mode));
        }
        self.set_breaker(BreakerScope::Engine, "", controller.breaker.as_ref());
        for check in controller.preflight.iter().flat_map(|report| &report.checks) {
            for result in CheckResult::ALL {
                let series = self
                    .checks
                    .with_label_values(&[enum_label(check.name), enum_label(result)]);
                series.set(i64::from(*result == check.result));
            }
        }
        for kind in KINDS {
            for result in ORPHAN_RESULTS {
                self.orphans.with_label_values(&[kind, result]);
            }
        }
        for orphan in controller.orphans.iter().filter(|it| !it.is_kept()) {
            let labels = [orphan.kind.as_str(), orphan.result.as_str()];
            self.orphans.with_label_values(&labels).inc();
        }
    }

    fn set_plans(&self, snapshot: &Snapshot) {
        for verb in super::counters::action_verbs() {
            self.in_flight.with_label_values(&[verb]);
        }
        for action in snapshot.state.in_flight.values() {
            self.in_flight.with_label_values(&[action.verb.as_str()]).inc();
        }
        for (env, plan) in snapshot.plans.iter() {
            for wait in &plan.waits {
                let labels = [env.to_string(), describe_wait(&wait.on).reason];
                self.waits.with_label_values(&labels).inc();
            }
        }
    }

    fn set_specs(&self, snapshot: &Snapshot) {
        set_bool(&self.specs_available, snapshot.specs.unavailable.is_none());
        for state in FILE_STATES {
            self.spec_files.with_label_values(&[state]);
        }
        for file in snapshot.specs.files.values() {
            let state = match file.state {
                FileState::Unread => "unread",
                FileState::Accepted => "accepted",
                FileState::Rejected => "rejected",
                FileState::Conflict { .. } => "conflict",
            };
            self.spec_files.with_label_values(&[state]).inc();
        }
    }

    fn set_environments(&self, statuses: &Statuses) {
        let mut phases: BTreeMap<Phase, i64> = Phase::ALL.iter().map(|phase| (*phase, 0)).collect();
        for (name, status) in &statuses.environments {
            *phases.entry(status.phase).or_default() += 1;
            self.set_environment(name, status);
        }
        for (phase, number) in phases {
            self.phases.with_label_values(&[enum_label(phase)]).set(number);
        }
    }

    fn set_environment(&self, name: &str, status: &EnvironmentStatus) {
        for phase in Phase::ALL {
            let series = self.phase.with_label_values(&[name, &enum_label(phase)]);
            series.set(i64::from(*phase == status.phase));
        }
        for condition in &status.conditions {
            for truth in Truth::ALL {
                let labels = [name, &condition.kind, &enum_label(truth)];
                let series = self.conditions.with_label_values(&labels);
                series.set(i64::from(*truth == condition.status));
            }
        }
        for state in ServiceState::ALL {
            self.services.with_label_values(&[name, &enum_label(state)]);
        }
        for service in &status.services {
            self.services
                .with_label_values(&[name, &enum_label(service.state)])
                .inc();
            let ready = matches!(service.state, ServiceState::Ready | ServiceState::Completed);
            let series = self.ready.with_label_values(&[name, &service.name]);
            series.set(i64::from(ready));
        }
        if let Some(connectivity) = &status.connectivity {
            for result in ["working", "broken", "unverified"] {
                self.links.with_label_values(&[name, result]);
            }
            for link in &connectivity.links {
                let result = match (&link.error, &link.unverified) {
                    (Some(_), _) => "broken",
                    (None, Some(_)) => "unverified",
                    (None, None) => "working",
                };
                self.links.with_label_values(&[name, result]).inc();
            }
        }
        let own = |breaker: &&BreakerStatus| breaker.scope == BreakerScope::Environment;
        self.set_breaker(
            BreakerScope::Environment,
            name,
            status.breaker.as_ref().filter(own),
        );
    }

    /// Sets the series of a breaker. A missing breaker is closed.
    fn set_breaker(&self, scope: BreakerScope, name: &str, breaker: Option<&BreakerStatus>) {
        let now = breaker.map_or(BreakerState::Closed, |breaker| breaker.state);
        for state in BreakerState::ALL {
            let labels = [&enum_label(scope), name, &enum_label(state)];
            let series = self.breakers.with_label_values(&labels);
            series.set(i64::from(*state == now));
        }
    }
}

fn set_bool(gauge: &IntGaugeVec, holds: bool) {
    gauge.with_label_values::<&str>(&[]).set(i64::from(holds));
}

/// Returns the same word as the status files.
pub(super) fn enum_label(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unknown").to_owned()
}
