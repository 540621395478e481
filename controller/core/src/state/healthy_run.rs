//! Duration of healthy runs. It resets the restart budget of a service with a health check. Without a health check, the
//! running time resets the budget.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::hash::hash_of;
use crate::desired::{Probe, Service};
use crate::failed_run::{FailedRun, FailureCause};
use crate::ident::{ContainerId, Hash};
use crate::observed::{Container, InspectInfo};
use crate::probe::ProbeStatus;
use crate::state::{PlannerState, ServiceHistory};
use crate::time::Timestamp;

/// A run that is healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthyRun {
    /// Container of the run.
    pub container: ContainerId,
    /// Start of the run.
    pub started_at: Option<Timestamp>,
    /// Time since which it is healthy.
    pub since: Timestamp,
    /// Hash of the kind of the health check of the file that found it, which can contain secrets: other times are the same check. `None`
    /// without one, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Hash>,
}

impl HealthyRun {
    pub(super) fn is_of(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        self.container == container.id && self.started_at == started_at
    }
}

impl PlannerState {
    /// Starts of the runs that are healthy, with the hashes of their health checks. A log probe of such a run needs no search, because the
    /// engine may have dropped the lines by then.
    pub fn healthy_runs(&self) -> BTreeMap<ContainerId, (Option<Timestamp>, Option<Hash>)> {
        let histories = self
            .environments
            .values()
            .flat_map(|history| history.services.values());
        histories
            .filter_map(|history| history.healthy_run.as_ref())
            .map(|run| (run.container.clone(), (run.started_at, run.probe.clone())))
            .collect()
    }
}

impl ServiceHistory {
    /// True if the current run of the container was healthy, even if its probe failed since.
    pub(crate) fn was_healthy(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        let is_healthy = self.healthy_run.as_ref().is_some_and(|run| run.is_of(container));
        let failed = self.failures.last().filter(|last| {
            last.cause == FailureCause::Unhealthy
                && last.container == container.id
                && last.started_at == started_at
        });
        is_healthy
            || failed.is_some_and(|last| last.healthy_duration.is_some_and(|healthy| !healthy.is_zero()))
    }
}

/// Forgets what another health check found: an edit can change the health check of a container that runs on.
pub(super) fn forget_other_probe(history: &mut ServiceHistory, probe: Option<&Probe>) {
    let known = history.healthy_run.as_ref().and_then(|run| run.probe.as_ref());
    if known.is_some_and(|known| hash_of_kind(probe).as_ref() != Some(known)) {
        history.healthy_run = None;
        history.health = None;
    }
}

fn hash_of_kind(probe: Option<&Probe>) -> Option<Hash> {
    probe.map(|probe| hash_of(&probe.kind))
}

/// Records the probe result of a run.
pub(super) fn record(
    history: &mut ServiceHistory,
    (container, probe): (&Container, Option<&Probe>),
    status: ProbeStatus,
    now: Timestamp,
) {
    match status {
        ProbeStatus::Starting => {}
        ProbeStatus::Unhealthy => history.healthy_run = None,
        ProbeStatus::Healthy
            if history
                .healthy_run
                .as_ref()
                .is_some_and(|run| run.is_of(container)) => {}
        ProbeStatus::Healthy => {
            record_recovery(history, container);
            history.healthy_run = Some(HealthyRun {
                container: container.id.clone(),
                started_at: container.inspect.as_ref().and_then(|info| info.started_at),
                since: now,
                probe: hash_of_kind(probe),
            });
        }
    }
}

/// Records if this healthy run follows failures of a health check that had never succeeded. A later start without failures is clean.
/// A container of another specification needed no longer time: the edit fixed it.
fn record_recovery(history: &mut ServiceHistory, container: &Container) {
    let is_late = |last: &&FailedRun| {
        last.cause == FailureCause::Unhealthy
            && last.memory_used.is_none()
            && last.hash.as_ref().is_none_or(|hash| container.carries(hash))
            && last.number > history.failures_before_recovery
            && last.healthy_duration.is_none_or(|time| time.is_zero())
    };
    history.late_recovery = history.failures.last().filter(is_late).map(|last| last.number);
    history.failures_before_recovery = history.failure_count;
}

/// Healthy time of a run before its failure; `None` for a service without a health check.
pub(super) fn healthy_duration_before(
    history: &ServiceHistory,
    service: &Service,
    container: &Container,
    ending: FailureCause,
    now: Timestamp,
) -> Option<Duration> {
    let info = container.inspect.as_ref()?;
    if service.one_shot || (service.probe.is_none() && info.health.is_none()) {
        return None;
    }
    let run = history.healthy_run.as_ref().filter(|run| run.is_of(container));
    let lasted = run.map_or(Duration::ZERO, |run| now.since(run.since));
    Some(match (ending, &service.probe) {
        // The last success of the probe was this long before.
        (FailureCause::Unhealthy, Some(probe)) => {
            lasted.saturating_sub(probe.interval.saturating_mul(probe.retries))
        }
        (FailureCause::Unhealthy, None) => lasted,
        // The last probe may have been a while ago.
        (FailureCause::Exited, _) => lasted.min(run_duration(info)),
    })
}

fn run_duration(info: &InspectInfo) -> Duration {
    match (info.started_at, info.finished_at) {
        (Some(started), Some(finished)) => finished.since(started),
        (_, None) | (None, _) => Duration::MAX,
    }
}
