//! Effects of journal records on the counters.

use std::time::Duration;

use argus_core::ident::EnvName;
use argus_core::journal::{Entry, Event, Outcome, Record};
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{BreakerScope, Phase};

use super::super::gauges::enum_label;
use super::{Counters, History};

impl Counters {
    /// Counts a record.
    pub(in crate::metrics) fn count_record(&self, record: &Record) {
        self.lock_history().last = record.seq;
        let kind = match &record.entry {
            Entry::Intent(_) => "intent",
            Entry::Result {
                verb, outcome, ms, ..
            } => {
                self.actions
                    .with_label_values(&[verb.as_str(), &enum_label(outcome)])
                    .inc();
                self.action_seconds
                    .with_label_values(&[verb.as_str()])
                    .observe(to_seconds(*ms));
                "result"
            }
            Entry::Event(event) => {
                self.count_event(event, Timestamp::parse(&record.at).unwrap_or_default());
                "event"
            }
        };
        self.records.with_label_values(&[kind]).inc();
    }

    #[allow(clippy::too_many_lines, reason = "one arm per kind of event")]
    fn count_event(&self, event: &Event, at: Timestamp) {
        match event {
            Event::Error {
                environment,
                service,
                code,
                after_ms,
                ..
            } => {
                self.errors.with_label_values(&[&code.to_string()]).inc();
                let Some(after) = after_ms else { return };
                self.detect_seconds
                    .with_label_values(&[code.as_str()])
                    .observe(to_seconds(*after));
                if let (Some(env), Some(service)) = (environment, service) {
                    let since = at - Duration::from_millis(*after);
                    self.lock_history().record_failure(env, service, (since, *code));
                }
            }
            Event::Restart {
                environment,
                service,
                times,
                code,
                ..
            } => {
                let reason = code.map_or_else(|| "NONE".to_owned(), |code| code.to_string());
                let labels = [environment.to_string(), service.clone(), reason];
                let count = self.restarts.with_label_values(&labels);
                count.inc_by(u64::from(*times));
                self.lock_history().restarts.insert(labels);
            }
            Event::Recovered { environment, service } => {
                self.recovered.inc();
                let since = self
                    .lock_history()
                    .unhealthy
                    .remove(&(environment.clone(), service.clone()));
                if let Some((since, code)) = since {
                    self.recover_seconds
                        .with_label_values(&[code.as_str()])
                        .observe(at.since(since).as_secs_f64());
                }
            }
            Event::RestartsExhausted {
                environment, service, ..
            } => {
                self.given_up.inc();
                // The recovery then depends on a person, so its time is not measured.
                self.lock_history()
                    .unhealthy
                    .remove(&(environment.clone(), service.clone()));
            }
            Event::Phase {
                environment,
                to,
                after_ms,
                ..
            } => {
                if *to == enum_label(Phase::Ready) {
                    self.lock_history().ready.insert(environment.clone(), at);
                }
                if let Some(after) = after_ms {
                    self.ready_seconds.observe(to_seconds(*after));
                }
            }
            Event::PortMoved { .. } => self.ports.inc(),
            Event::TaskEnded { task, .. } => self.tasks.with_label_values(&[task.as_str()]).inc(),
            Event::Circuit { environment, to, .. } => {
                let scope = match environment {
                    Some(_) => BreakerScope::Environment,
                    None => BreakerScope::Engine,
                };
                self.breakers
                    .with_label_values(&[&enum_label(scope), &enum_label(to)])
                    .inc();
            }
            Event::OrphanFound { what, .. } => self.orphans_found.with_label_values(&[what]).inc(),
            Event::OrphanRemoved(removal) if removal.outcome == Outcome::Done => {
                self.orphans_removed.with_label_values(&[&removal.what]).inc();
            }
            Event::Command { verb, accepted, .. } => {
                let result = if *accepted { "accepted" } else { "rejected" };
                self.commands.with_label_values(&[verb.as_str(), result]).inc();
            }
            Event::OrphanRemoved(_)
            | Event::RestartAttempt(_)
            | Event::WatchDegraded(_)
            | Event::LeaseEnded { .. }
            | Event::Start { .. }
            | Event::Stop
            | Event::Mode { .. }
            | Event::Cleanup { .. }
            | Event::PortConflict { .. }
            | Event::MemoryHigh { .. }
            | Event::PreflightStart { .. }
            | Event::PreflightCheck { .. }
            | Event::PreflightEnd { .. }
            | Event::Connectivity { .. }
            | Event::IntentResolved { .. }
            | Event::EngineChange(_)
            | Event::Writable
            | Event::Resumed => {}
        }
    }
}

impl History {
    /// Records the start of a failure, if none is open. A failure from before the last ready time is replaced.
    fn record_failure(&mut self, env: &EnvName, service: &str, failure: (Timestamp, Code)) {
        let ready = self.ready.get(env).copied();
        let first = self
            .unhealthy
            .entry((env.clone(), service.to_owned()))
            .or_insert(failure);
        if ready.is_some_and(|ready| first.0 < ready) {
            *first = failure;
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "nothing takes 285,000 years")]
fn to_seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
