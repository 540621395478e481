//! Duration of healthy runs. It resets the restart budget of services with a health check, instead of the running time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::Service;
use crate::diagnose::FailureCause;
use crate::ident::ContainerId;
use crate::observed::{Container, InspectInfo};
use crate::probe::ProbeStatus;
use crate::state::ServiceHistory;
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
}

impl HealthyRun {
    fn is_of(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|facts| facts.started_at);
        self.container == container.id && self.started_at == started_at
    }
}

/// Records the probe result of a run.
pub(super) fn record(kept: &mut ServiceHistory, container: &Container, verdict: ProbeStatus, now: Timestamp) {
    match verdict {
        ProbeStatus::Starting => {}
        ProbeStatus::Unhealthy => kept.healthy_run = None,
        ProbeStatus::Healthy
            if kept
                .healthy_run
                .as_ref()
                .is_some_and(|well| well.is_of(container)) => {}
        ProbeStatus::Healthy => {
            kept.healthy_run = Some(HealthyRun {
                container: container.id.clone(),
                started_at: container.inspect.as_ref().and_then(|facts| facts.started_at),
                since: now,
            });
        }
    }
}

/// Healthy time of a run before its failure; `None` for a service without a health check.
pub(super) fn before(
    kept: &ServiceHistory,
    service: &Service,
    container: &Container,
    ending: FailureCause,
    now: Timestamp,
) -> Option<Duration> {
    let facts = container.inspect.as_ref()?;
    if service.one_shot || (service.probe.is_none() && facts.health.is_none()) {
        return None;
    }
    let well = kept.healthy_run.as_ref().filter(|well| well.is_of(container));
    let lasted = well.map_or(Duration::ZERO, |well| now.since(well.since));
    Some(match (ending, &service.probe) {
        // The last success of the probe was this long before.
        (FailureCause::Unhealthy, Some(probe)) => {
            lasted.saturating_sub(probe.interval.saturating_mul(probe.retries))
        }
        (FailureCause::Unhealthy, None) => lasted,
        // The last probe may have been a while ago.
        (FailureCause::Exited, _) => lasted.min(ran_for(facts)),
    })
}

fn ran_for(facts: &InspectInfo) -> Duration {
    match (facts.started_at, facts.finished_at) {
        (Some(started), Some(finished)) => finished.since(started),
        (_, None) | (None, _) => Duration::MAX,
    }
}
