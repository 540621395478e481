//! Disruptions of services while a test runs, with their origins, and the reasons of the restarts.
//!
//! A failure of a service is a disruption, and so is an interruption of its run by another client of the engine. The
//! engine's events do not name the user of the other client.

use serde::{Deserialize, Serialize};

use super::observe::RunObserver;
use super::run_count::NewestRun;
use super::{Attribution, EnvHistory, Interruption, Originator, ServiceHistory};
use crate::failed_run::FailedRun;
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState, Outage};
use crate::time::Timestamp;

/// Entries kept per environment and kind; longer reports are useless.
const LIMIT: usize = 100;
/// Share of time, in percent, above which waiting tasks show that the host was starved.
const STARVED_ABOVE: u8 = 40;

/// A disruption while a test held a lease on the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Test case.
    pub case: String,
    /// Disrupted service.
    pub service: ServiceName,
    /// Number of the failure within the service; `None` for an interruption by another client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Time of the disruption.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// Event that disrupted the service.
    #[serde(default)]
    pub cause: Interruption,
    /// Origin of the disruption.
    pub attribution: Attribution,
    /// True if the attribution is not proven.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspected: bool,
    /// Originator, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Originator>,
}

/// A restart of a service while a test held a lease on the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRestart {
    /// Test case.
    pub case: String,
    /// Restarted service.
    pub service: ServiceName,
    /// Start of the new run.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// End of the run before.
    pub reason: Interruption,
    /// Number of the failure that ended the run before; `None` without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Originator, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Originator>,
}

impl Disruption {
    fn set_cause(&mut self, cause: Interruption, host_pressure: Option<u8>) {
        let is_starved = host_pressure.is_some_and(|percent| percent > STARVED_ABOVE);
        self.suspected = cause == Interruption::HealthCheck && is_starved;
        self.attribution = if self.suspected {
            Attribution::Infrastructure
        } else {
            cause.attribution()
        };
        (self.cause, self.by) = (cause, cause.originator());
    }
}

/// Result of comparing a service with the last observation.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Number of failures before the observation.
    pub(super) failures_before: u64,
    /// Interruption by another client, and its time.
    pub(super) interruption: Option<(Interruption, Timestamp)>,
    /// Run that ended before a restart.
    pub(super) ended: Option<NewestRun>,
}

/// Finds an interruption of the newest run by another client since the last observation.
pub(super) fn find_interruption(
    observer: &RunObserver<'_>,
    history: &mut ServiceHistory,
    containers: &[&Container],
) -> Option<(Interruption, Timestamp)> {
    let now = observer.context.now;
    let was_stopped = history.stopped_externally_since.is_some();
    let run = history.newest_run.as_mut()?;
    let id = run.container.clone()?;
    let is_by_us = observer.stopped_by_us.contains_key(&id);
    let (was_up, was_attached) = (run.is_up, run.is_attached);
    let Some(container) = containers.iter().find(|container| container.id == id) else {
        let was_there = was_up || matches!(run.interruption, Some((Interruption::Stop, _)));
        run.is_up = false;
        if !was_there || is_by_us || observer.observed.containers.contains_key(&id) {
            return None;
        }
        run.interruption = Some((Interruption::Removal, now));
        return run.interruption;
    };
    run.is_up = container.state.is_up();
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    if let Some(next) = started_at.filter(|at| *at > run.started_at) {
        // No observation shows the end of the run. Argus starts a container only after it has observed its end.
        if !was_up || is_by_us || history.failure_count > run.failures_before {
            return None;
        }
        run.interruption = Some((Interruption::Stop, next));
        return run.interruption;
    }
    if observer.is_stopped_externally(container) {
        if container.state == ContainerState::Paused {
            return (!was_stopped).then_some((Interruption::Pause, now));
        }
        run.interruption = Some((Interruption::Stop, container.stopped_by_other.unwrap_or(now)));
        return run.interruption.filter(|_| !was_stopped);
    }
    if container.state == ContainerState::Running && container.inspect.is_some() {
        let networks = &observer.observed.networks;
        let is_known = |at: &crate::observed::Attachment| {
            at.network.as_ref().is_some_and(|id| networks.contains_key(id))
        };
        run.is_attached = container.networks.values().any(is_known);
        return (was_attached && !run.is_attached).then_some((Interruption::Detachment, now));
    }
    None
}

/// Records the disruptions and restarts of a service during a test.
pub(super) fn record(observer: &RunObserver<'_>, history: &mut EnvHistory, changes: Changes) {
    let (context, service) = (observer.context, &observer.service.name);
    let Some(service_history) = history.services.get(service) else {
        return;
    };
    if let Some(lease) = context.requests.test_lease(observer.env, context.now) {
        let disruption = |number, at| Disruption {
            case: lease.case.clone(),
            service: service.clone(),
            number,
            at,
            cause: Interruption::default(),
            attribution: Attribution::Service,
            suspected: false,
            by: None,
        };
        if let Some((cause, at)) = changes.interruption {
            let last = history
                .disruptions
                .iter_mut()
                .rfind(|last| last.service == *service);
            let is_continued = |last: &&mut Disruption| {
                cause == Interruption::Removal && last.cause == Interruption::Stop && last.number.is_none()
            };
            // A removal of a running container begins with a kill.
            if let Some(last) = last.filter(is_continued) {
                last.set_cause(cause, None);
            } else {
                let mut found = disruption(None, at);
                found.set_cause(cause, None);
                history.disruptions.push(found);
            }
        }
        let failures = service_history.failures.iter();
        let new_failures = failures.filter(|failed_run| failed_run.number > changes.failures_before);
        history
            .disruptions
            .extend(new_failures.map(|failed_run| disruption(Some(failed_run.number), failed_run.at)));
        if let Some((ended, started)) = changes.ended.zip(service_history.newest_run.as_ref()) {
            let (reason, number) = restart_reason(service_history, &ended, context.outages);
            history.restarts.push(TestRestart {
                case: lease.case.clone(),
                service: service.clone(),
                at: started.started_at,
                reason,
                number,
                by: reason.originator(),
            });
        }
    }
    update_causes(observer, history);
    cut(&mut history.disruptions);
    cut(&mut history.restarts);
}

/// Updates the causes of the failures. Argus learns of an outage, and of the output of a container, after the failure.
fn update_causes(observer: &RunObserver<'_>, history: &mut EnvHistory) {
    let (service, outages) = (&observer.service.name, observer.context.outages);
    let Some(service_history) = history.services.get(service) else {
        return;
    };
    let failure = |number: Option<u64>| {
        let mut failures = service_history.failures.iter();
        failures.find(|failed_run| Some(failed_run.number) == number)
    };
    for found in history
        .disruptions
        .iter_mut()
        .filter(|found| found.service == *service)
    {
        if let Some(failed_run) = failure(found.number) {
            found.set_cause(Interruption::of(failed_run, outages), failed_run.host_pressure);
        } else if let Some(cause) = cause_of_stop(found.cause, found.at, outages) {
            found.set_cause(cause, None);
        }
    }
    for found in history
        .restarts
        .iter_mut()
        .filter(|found| found.service == *service)
    {
        if let Some(failed_run) = failure(found.number) {
            found.reason = Interruption::of(failed_run, outages);
            found.by = found.reason.originator();
        }
    }
}

/// Returns the cause of a stop that Argus did not request: the engine stops containers when it ends, and it reports that like
/// the stop by a client. `None` for other causes, and if no outage is known for that time.
fn cause_of_stop(cause: Interruption, at: Timestamp, outages: &[Outage]) -> Option<Interruption> {
    if !matches!(cause, Interruption::Stop | Interruption::EngineOutage) {
        return None;
    }
    let mut near = outages.iter().filter(|outage| outage.is_near(at)).peekable();
    near.peek()?;
    let by_engine = near.any(|outage| outage.may_stop_containers(at));
    Some(if by_engine {
        Interruption::EngineOutage
    } else {
        Interruption::Stop
    })
}

/// Returns the event that ended a run, and the number of the failure.
fn restart_reason(
    history: &ServiceHistory,
    ended: &NewestRun,
    outages: &[Outage],
) -> (Interruption, Option<u64>) {
    if let Some((interruption, at)) = ended.interruption {
        return (
            cause_of_stop(interruption, at, outages).unwrap_or(interruption),
            None,
        );
    }
    let is_end = |failed_run: &&FailedRun| {
        failed_run.number > ended.failures_before && failed_run.started_at == Some(ended.started_at)
    };
    if let Some(failed_run) = history.failures.iter().rfind(is_end) {
        return (Interruption::of(failed_run, outages), Some(failed_run.number));
    }
    let run = ended.container.clone().map(|id| (id, Some(ended.started_at)));
    if run.is_some() && history.restart_requested == run {
        (Interruption::RestartRequest, None)
    } else {
        (Interruption::Replacement, None)
    }
}

fn cut<T>(entries: &mut Vec<T>) {
    let surplus = entries.len().saturating_sub(LIMIT);
    entries.drain(..surplus);
}

mod rfc3339 {
    //! Serde adapter: a time as text for reports. Earlier versions stored a number of milliseconds.

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::time::Timestamp;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Milliseconds(i64),
        Text(String),
    }

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        match Stored::deserialize(from)? {
            Stored::Milliseconds(at) => Ok(Timestamp(at)),
            Stored::Text(at) => Timestamp::parse(&at).ok_or_else(|| D::Error::custom("not an RFC 3339 time")),
        }
    }
}
