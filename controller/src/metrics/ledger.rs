//! What happened, added up from the records of the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::ident::EnvName;
use argus_core::record::{End, Entry, Note, Record};
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{BreakerScope, BreakerState, Phase};
use argus_reconciler::metrics::make;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::scene::word;
use crate::view::Shown;

/// The acts that change something on an engine.
pub(super) const VERBS: [&str; 14] = [
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
    "connect-network",
    "disconnect-network",
];
/// What can be left behind.
const KINDS: [&str; 3] = ["container", "network", "volume"];

/// The counters; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    acts: IntCounterVec,
    act_seconds: HistogramVec,
    records: IntCounterVec,
    restarts: IntCounterVec,
    recovered: IntCounter,
    given_up: IntCounter,
    errors: IntCounterVec,
    ports: IntCounter,
    circuits: IntCounterVec,
    orphans_found: IntCounterVec,
    orphans_gone: IntCounterVec,
    commands: IntCounterVec,
    detect_seconds: Histogram,
    recover_seconds: Histogram,
    ready_seconds: Histogram,
    past: Arc<Mutex<Past>>,
}

/// What is kept between records.
#[derive(Debug, Default)]
struct Past {
    /// The last record that was entered.
    last: u64,
    /// Since when services are not well.
    unwell: BTreeMap<(EnvName, String), Timestamp>,
    /// When environments became ready last: what was unwell before is not any more.
    ready: BTreeMap<EnvName, Timestamp>,
    /// Every series with a service in it.
    restarts: BTreeSet<[String; 3]>,
}

impl Default for Ledger {
    fn default() -> Self {
        let ledger = Self {
            acts: make::counters(
                "argus_acts_total",
                "Acts on the engine that came back, by verb and how they ended.",
                &["verb", "result"],
            ),
            act_seconds: make::histograms(
                "argus_act_duration_seconds",
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
            circuits: make::counters(
                "argus_circuit_breaker_transitions_total",
                "Changes of circuit breakers, by whose they are and what they changed to.",
                &["scope", "state"],
            ),
            orphans_found: make::counters(
                "argus_orphans_found_total",
                "Things that dead controllers left and that were found, by kind.",
                &["kind"],
            ),
            orphans_gone: make::counters(
                "argus_orphans_removed_total",
                "Things that dead controllers left and that are gone, by kind.",
                &["kind"],
            ),
            commands: make::counters(
                "argus_commands_total",
                "Commands of people and agents, by verb and what became of them.",
                &["verb", "result"],
            ),
            detect_seconds: make::histogram(
                "argus_time_to_detect_seconds",
                "From the end of a container, by the engine's clock, until its error is in the status.",
                make::LONG,
            ),
            recover_seconds: make::histogram(
                "argus_time_to_recover_seconds",
                "From the first failure of a service until it is well again by a restart.",
                make::LONG,
            ),
            ready_seconds: make::histogram(
                "argus_time_to_ready_seconds",
                "From the acceptance of a revision until its environment is ready for the first time.",
                make::LONG,
            ),
            past: Arc::default(),
        };
        ledger.touch();
        ledger
    }
}

impl Ledger {
    /// Everything in it, for a registry.
    pub(super) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let all = self.clone();
        vec![
            Box::new(all.acts),
            Box::new(all.act_seconds),
            Box::new(all.records),
            Box::new(all.restarts),
            Box::new(all.recovered),
            Box::new(all.given_up),
            Box::new(all.errors),
            Box::new(all.ports),
            Box::new(all.circuits),
            Box::new(all.orphans_found),
            Box::new(all.orphans_gone),
            Box::new(all.commands),
            Box::new(all.detect_seconds),
            Box::new(all.recover_seconds),
            Box::new(all.ready_seconds),
        ]
    }

    /// What can be counted is there from the start, at zero.
    fn touch(&self) {
        for verb in VERBS {
            self.act_seconds.with_label_values(&[verb]);
            for end in [End::Done, End::Failed, End::Unknown] {
                self.acts.with_label_values(&[verb, &word(end)]);
            }
        }
        for kind in ["intent", "result", "note"] {
            self.records.with_label_values(&[kind]);
        }
        for code in Code::ALL {
            self.errors.with_label_values(&[&code.to_string()]);
        }
        for scope in BreakerScope::ALL {
            for state in BreakerState::ALL {
                self.circuits.with_label_values(&[&word(scope), &word(state)]);
            }
        }
        for kind in KINDS {
            self.orphans_found.with_label_values(&[kind]);
            self.orphans_gone.with_label_values(&[kind]);
        }
    }

    pub(super) fn begin_after(&self, seq: u64) {
        self.past().last = seq;
    }

    pub(super) fn last(&self) -> u64 {
        self.past().last
    }

    /// Enters what a record says.
    pub(super) fn enter(&self, record: &Record) {
        self.past().last = record.seq;
        let kind = match &record.entry {
            Entry::Intent(_) => "intent",
            Entry::Result { verb, end, ms, .. } => {
                self.acts.with_label_values(&[verb, &word(end)]).inc();
                self.act_seconds.with_label_values(&[verb]).observe(seconds(*ms));
                "result"
            }
            Entry::Note(note) => {
                self.note(note, Timestamp::parse(&record.at).unwrap_or_default());
                "note"
            }
        };
        self.records.with_label_values(&[kind]).inc();
    }

    fn note(&self, note: &Note, at: Timestamp) {
        match note {
            Note::Error {
                environment,
                service,
                code,
                after_ms,
                ..
            } => {
                self.errors.with_label_values(&[&code.to_string()]).inc();
                let Some(after) = after_ms else { return };
                // A failed health check is a verdict: it is told when it is made.
                if *code != Code::HealthCheckTimeout {
                    self.detect_seconds.observe(seconds(*after));
                }
                if let (Some(env), Some(service)) = (environment, service) {
                    let since = at - std::time::Duration::from_millis(*after);
                    self.past().fell_ill(env, service, since);
                }
            }
            Note::Restart {
                environment,
                service,
                times,
                code,
                ..
            } => {
                let reason = code.map_or_else(|| "UNKNOWN".to_owned(), |code| code.to_string());
                let labels = [environment.to_string(), service.clone(), reason];
                let count = self.restarts.with_label_values(&labels);
                count.inc_by(u64::from(*times));
                self.past().restarts.insert(labels);
            }
            Note::Recovered { environment, service } => {
                self.recovered.inc();
                let since = self.past().unwell.remove(&(environment.clone(), service.clone()));
                if let Some(since) = since {
                    self.recover_seconds.observe(at.since(since).as_secs_f64());
                }
            }
            Note::GaveUp {
                environment, service, ..
            } => {
                self.given_up.inc();
                // How long people take is another question.
                self.past().unwell.remove(&(environment.clone(), service.clone()));
            }
            Note::Phase {
                environment,
                to,
                after_ms,
                ..
            } => {
                if *to == word(Phase::Ready) {
                    self.past().ready.insert(environment.clone(), at);
                }
                if let Some(after) = after_ms {
                    self.ready_seconds.observe(seconds(*after));
                }
            }
            Note::Port { .. } => self.ports.inc(),
            Note::Circuit { environment, to, .. } => {
                let scope = match environment {
                    Some(_) => BreakerScope::Environment,
                    None => BreakerScope::Engine,
                };
                self.circuits.with_label_values(&[&word(scope), &word(to)]).inc();
            }
            Note::Orphan { what, .. } => self.orphans_found.with_label_values(&[what]).inc(),
            Note::OrphanGone { what, .. } => self.orphans_gone.with_label_values(&[what]).inc(),
            Note::Command { verb, taken, .. } => {
                let result = if *taken { "taken" } else { "refused" };
                self.commands.with_label_values(&[verb.as_str(), result]).inc();
            }
            Note::Start { .. }
            | Note::Stop
            | Note::Mode { .. }
            | Note::Cleanup { .. }
            | Note::Check { .. }
            | Note::Preflight { .. }
            | Note::Connectivity { .. }
            | Note::Settled { .. }
            | Note::Writable
            | Note::Resumed => {}
        }
    }

    /// Series of services that are not there any more go with them.
    pub(super) fn forget_all_but(&self, shown: &Shown) {
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
        past.unwell
            .retain(|(env, service), _| is_there(env.as_str(), service));
        past.ready
            .retain(|env, _| shown.environments.contains_key(env.as_str()));
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    /// Counted from the first failure; but whose environment was ready since has begun anew.
    fn fell_ill(&mut self, env: &EnvName, service: &str, since: Timestamp) {
        let ready = self.ready.get(env).copied();
        let first = self
            .unwell
            .entry((env.clone(), service.to_owned()))
            .or_insert(since);
        if ready.is_some_and(|ready| *first < ready) {
            *first = since;
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "nothing takes 285,000 years")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
