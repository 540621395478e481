//! Counters and histograms, derived from the records of the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::action::ActionKind;
use argus_core::ident::EnvName;
use argus_core::journal::Outcome;
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{BreakerScope, BreakerState};
use argus_reconciler::metrics::make;
use argus_reconciler::{Command, metric_set};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::gauges::{KINDS, enum_label};
use crate::view::Statuses;

mod record;

/// Codes of failed runs; they label the times to detect and to recover.
const FAILURES: [Code; 4] = [
    Code::ContainerOom,
    Code::ContainerCrash,
    Code::EntrypointNotFound,
    Code::HealthCheckTimeout,
];

/// Names of the actions that change something on an engine. The journal has no record of the others.
pub(super) fn action_verbs() -> impl Iterator<Item = &'static str> {
    let kinds = ActionKind::ALL.iter().map(|kind| kind.as_str());
    kinds.filter(|verb| *verb != ActionKind::CollectEvidence.as_str())
}

metric_set! {
    /// The counters and histograms.
    pub(crate) struct Counters {
        actions: IntCounterVec = counters("argus_actions_total",
            "Completed actions on the engine, by verb and result.", &["verb", "result"]);
        action_seconds: HistogramVec = histograms("argus_action_duration_seconds",
            "Time of an action from its intent in the journal to its end, including the wait for a permit.", &["verb"], make::CALLS);
        records: IntCounterVec = counters("argus_journal_records_total",
            "Records written to the journal, by kind.", &["kind"]);
        restarts: IntCounterVec = counters("argus_container_restarts_total",
            "Restarts of services, by the error code of the failure (`NONE` without one).", &["environment", "service", "reason"]);
        recovered: IntCounter = counter("argus_recoveries_total", "Services that recovered after a restart.");
        given_up: IntCounter = counter("argus_services_given_up_total",
            "Services given up until a retry or a new revision.");
        errors: IntCounterVec = counters("argus_errors_total",
            "Errors reported in a status, each once, by code.", &["code"]);
        ports: IntCounter = counter("argus_ports_moved_total",
            "Published ports that moved away from their previous or requested host port.");
        breakers: IntCounterVec = counters("argus_circuit_breaker_transitions_total",
            "State changes of circuit breakers, by scope and new state.", &["scope", "state"]);
        orphans_found: IntCounterVec = counters("argus_orphans_found_total",
            "Orphaned resources found, by kind.", &["kind"]);
        orphans_removed: IntCounterVec = counters("argus_orphans_removed_total",
            "Orphaned resources removed, by kind.", &["kind"]);
        commands: IntCounterVec = counters("argus_commands_total",
            "Commands of people and agents, by verb and result.", &["verb", "result"]);
        tasks: IntCounterVec = counters("argus_task_ends_total",
            "Ends of internal tasks while the controller ran, by task.", &["task"]);
        detect_seconds: HistogramVec = histograms("argus_time_to_detect_seconds",
            "Time from a failure until its error is in the status, by error code. A failure is the end of a container (engine clock) or the first failed probe.", &["reason"], make::LONG);
        recover_seconds: HistogramVec = histograms("argus_time_to_recover_seconds",
            "Time from the first failure of a service until a restart recovers it, by error code.", &["reason"], make::LONG);
        ready_seconds: Histogram = histogram("argus_time_to_ready_seconds",
            "Time from the acceptance of a revision until its environment is first ready.", make::LONG);
    }
    and { history: Arc<Mutex<History>> }
}

/// State between records.
#[derive(Debug, Default)]
struct History {
    /// Number of the last counted record.
    last: u64,
    /// Start and first error code of each unresolved failure, by service.
    unhealthy: BTreeMap<(EnvName, String), (Timestamp, Code)>,
    /// Time at which each environment became ready last; it resolves earlier failures.
    ready: BTreeMap<EnvName, Timestamp>,
    /// Labels of all series with a service.
    restarts: BTreeSet<[String; 3]>,
}

impl Default for Counters {
    fn default() -> Self {
        let counters = Self::create();
        counters.create_series();
        counters
    }
}

impl Counters {
    /// Creates all series with known labels at zero.
    fn create_series(&self) {
        for verb in action_verbs() {
            self.action_seconds.with_label_values(&[verb]);
            for result in [
                Outcome::Done,
                Outcome::Failed,
                Outcome::Unknown,
                Outcome::Cancelled,
            ] {
                self.actions.with_label_values(&[verb, &enum_label(result)]);
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
                self.breakers
                    .with_label_values(&[&enum_label(scope), &enum_label(state)]);
            }
        }
        // The journal has no record of `sync`, which changes nothing.
        for verb in Command::VERBS.iter().copied().filter(|verb| *verb != "sync") {
            for result in ["accepted", "rejected"] {
                self.commands.with_label_values(&[verb, result]);
            }
        }
        for kind in KINDS {
            self.orphans_found.with_label_values(&[kind]);
            self.orphans_removed.with_label_values(&[kind]);
        }
    }

    pub(super) fn start_after(&self, seq: u64) {
        self.lock_history().last = seq;
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.lock_history().last
    }

    /// Removes the series and the state of services that no longer exist.
    pub(super) fn retain_existing(&self, statuses: &Statuses) {
        let exists = |env: &str, service: &str| {
            let status = statuses.environments.get(env);
            status.is_some_and(|status| status.services.iter().any(|row| row.name == service))
        };
        let mut history = self.lock_history();
        history.restarts.retain(|labels| {
            let is_existing = exists(&labels[0], &labels[1]);
            if !is_existing {
                // An error only means that the series is already removed.
                drop(self.restarts.remove_label_values(labels));
            }
            is_existing
        });
        history
            .unhealthy
            .retain(|(env, service), _| exists(env.as_str(), service));
        history
            .ready
            .retain(|env, _| statuses.environments.contains_key(env.as_str()));
    }

    #[cfg(test)]
    pub(super) fn records_counter(&self, kind: &str) -> u64 {
        self.records.with_label_values(&[kind]).get()
    }

    fn lock_history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
