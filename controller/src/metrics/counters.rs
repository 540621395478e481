//! What happened, added up from the records of the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::ident::EnvName;
use argus_core::journal::Outcome;
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{BreakerScope, BreakerState};
use argus_reconciler::metrics::make;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::gauges::{KINDS, word};
use crate::view::StatusDocuments;

mod record;

/// The acts that change something on an engine.
pub(super) const VERBS: [&str; 15] = [
    "create-network",
    "remove-network",
    "create-volume",
    "remove-volume",
    "pull-image",
    "build-image",
    "create-container",
    "start-container",
    "stop-container",
    "unpause-container",
    "rename-container",
    "remove-container",
    "copy-file",
    "connect-network",
    "disconnect-network",
];
/// What people and agents can command.
pub(super) const COMMANDS: [&str; 12] = [
    "down",
    "retry",
    "hold",
    "resume",
    "cancel",
    "beginTest",
    "endTest",
    "rollback",
    "fork",
    "cleanOrphans",
    "resetBreaker",
    "resumeController",
];

/// How a run of a container fails: by these, times to detect and to recover are told apart.
const FAILURES: [Code; 4] = [
    Code::ContainerOom,
    Code::ContainerCrash,
    Code::EntrypointNotFound,
    Code::HealthCheckTimeout,
];

/// The counters; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    actions: IntCounterVec,
    action_seconds: HistogramVec,
    records: IntCounterVec,
    restarts: IntCounterVec,
    recovered: IntCounter,
    given_up: IntCounter,
    errors: IntCounterVec,
    ports: IntCounter,
    breakers: IntCounterVec,
    orphans_found: IntCounterVec,
    orphans_removed: IntCounterVec,
    commands: IntCounterVec,
    detect_seconds: HistogramVec,
    recover_seconds: HistogramVec,
    ready_seconds: Histogram,
    past: Arc<Mutex<Past>>,
}

/// What is kept between records.
#[derive(Debug, Default)]
struct Past {
    /// The last record that was entered.
    last: u64,
    /// Since when services are not well, and what was first wrong with them.
    unhealthy: BTreeMap<(EnvName, String), (Timestamp, Code)>,
    /// When environments became ready last: what was unwell before is not any more.
    ready: BTreeMap<EnvName, Timestamp>,
    /// Every series with a service in it.
    restarts: BTreeSet<[String; 3]>,
}

impl Default for Counters {
    fn default() -> Self {
        let counters = Self {
            actions: make::counters(
                "argus_actions_total",
                "Acts on the engine that came back, by verb and how they ended.",
                &["verb", "result"],
            ),
            action_seconds: make::histograms(
                "argus_action_duration_seconds",
                "From the intent of an act on disk to its end, the wait for a permit included.",
                &["verb"],
                make::CALLS,
            ),
            records: make::counters(
                "argus_journal_records_total",
                "Records that were written to the journal.",
                &["kind"],
            ),
            restarts: make::counters(
                "argus_container_restarts_total",
                "Restarts of services that failed, by the code of the failure.",
                &["environment", "service", "reason"],
            ),
            recovered: make::counter(
                "argus_recoveries_total",
                "Services that were well again after a restart.",
            ),
            given_up: make::counter(
                "argus_services_given_up_total",
                "Services that are not tried any more until a person or a new revision comes.",
            ),
            errors: make::counters(
                "argus_errors_total",
                "Errors that were told in a status, each once, by code.",
                &["code"],
            ),
            ports: make::counter(
                "argus_ports_moved_total",
                "Published ports that got another place on the host than before, or than was wanted.",
            ),
            breakers: make::counters(
                "argus_circuit_breaker_transitions_total",
                "Changes of circuit breakers, by whose they are and what they changed to.",
                &["scope", "state"],
            ),
            orphans_found: make::counters(
                "argus_orphans_found_total",
                "Things that dead controllers left and that were found, by kind.",
                &["kind"],
            ),
            orphans_removed: make::counters(
                "argus_orphans_removed_total",
                "Things that dead controllers left and that are gone, by kind.",
                &["kind"],
            ),
            commands: make::counters(
                "argus_commands_total",
                "Commands of people and agents, by verb and what became of them.",
                &["verb", "result"],
            ),
            detect_seconds: make::histograms(
                "argus_time_to_detect_seconds",
                "From the end of a container, by the engine's clock, or from the first of the probes that failed, until its error is in the status; by its code.",
                &["reason"],
                make::LONG,
            ),
            recover_seconds: make::histograms(
                "argus_time_to_recover_seconds",
                "From the first failure of a service until it is well again by a restart; by the code of that failure.",
                &["reason"],
                make::LONG,
            ),
            ready_seconds: make::histogram(
                "argus_time_to_ready_seconds",
                "From the acceptance of a revision until its environment is ready for the first time.",
                make::LONG,
            ),
            past: Arc::default(),
        };
        counters.touch();
        counters
    }
}

impl Counters {
    /// Everything in it, for a registry.
    pub(super) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let all = self.clone();
        vec![
            Box::new(all.actions),
            Box::new(all.action_seconds),
            Box::new(all.records),
            Box::new(all.restarts),
            Box::new(all.recovered),
            Box::new(all.given_up),
            Box::new(all.errors),
            Box::new(all.ports),
            Box::new(all.breakers),
            Box::new(all.orphans_found),
            Box::new(all.orphans_removed),
            Box::new(all.commands),
            Box::new(all.detect_seconds),
            Box::new(all.recover_seconds),
            Box::new(all.ready_seconds),
        ]
    }

    /// What can be counted is there from the start, at zero.
    fn touch(&self) {
        for verb in VERBS {
            self.action_seconds.with_label_values(&[verb]);
            for end in [Outcome::Done, Outcome::Failed, Outcome::Unknown] {
                self.actions.with_label_values(&[verb, &word(end)]);
            }
        }
        for kind in ["intent", "result", "event"] {
            self.records.with_label_values(&[kind]);
        }
        for code in Code::ALL {
            self.errors.with_label_values(&[&code.to_string()]);
        }
        for code in FAILURES {
            self.detect_seconds.with_label_values(&[code.as_str()]);
            self.recover_seconds.with_label_values(&[code.as_str()]);
        }
        for scope in BreakerScope::ALL {
            for state in BreakerState::ALL {
                self.breakers.with_label_values(&[&word(scope), &word(state)]);
            }
        }
        for verb in COMMANDS {
            for result in ["taken", "refused"] {
                self.commands.with_label_values(&[verb, result]);
            }
        }
        for kind in KINDS {
            self.orphans_found.with_label_values(&[kind]);
            self.orphans_removed.with_label_values(&[kind]);
        }
    }

    pub(super) fn begin_after(&self, seq: u64) {
        self.past().last = seq;
    }

    pub(super) fn last(&self) -> u64 {
        self.past().last
    }

    /// Series of services that are not there any more go with them.
    pub(super) fn forget_all_but(&self, shown: &StatusDocuments) {
        let is_there = |env: &str, service: &str| {
            let status = shown.environments.get(env);
            status.is_some_and(|status| status.services.iter().any(|row| row.name == service))
        };
        let mut past = self.past();
        past.restarts.retain(|labels| {
            let there = is_there(&labels[0], &labels[1]);
            if !there {
                // One that is not there any more is what is wanted.
                drop(self.restarts.remove_label_values(labels));
            }
            there
        });
        past.unhealthy
            .retain(|(env, service), _| is_there(env.as_str(), service));
        past.ready
            .retain(|env, _| shown.environments.contains_key(env.as_str()));
    }

    #[cfg(test)]
    pub(super) fn records_of(&self, kind: &str) -> u64 {
        self.records.with_label_values(&[kind]).get()
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
