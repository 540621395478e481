//! How long runs are healthy: what has a health check is forgiven by health, not by the time that it took to fail.

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
    /// Which container.
    pub container: ContainerId,
    /// When it had been started.
    pub started_at: Option<Timestamp>,
    /// Since when it is healthy.
    pub since: Timestamp,
}

impl HealthyRun {
    fn is_of(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|facts| facts.started_at);
        self.container == container.id && self.started_at == started_at
    }
}

/// Notes what was decided of a run.
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

/// How long a run was healthy before it failed; `None` where nothing but running is asked of it.
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
        // Its last good answer came so long before.
        (FailureCause::Unhealthy, Some(probe)) => {
            lasted.saturating_sub(probe.interval.saturating_mul(probe.retries))
        }
        (FailureCause::Unhealthy, None) => lasted,
        // Nobody may have looked for a while.
        (FailureCause::Exited, _) => lasted.min(ran_for(facts)),
    })
}

fn ran_for(facts: &InspectInfo) -> Duration {
    match (facts.started_at, facts.finished_at) {
        (Some(started), Some(finished)) => finished.since(started),
        (_, None) | (None, _) => Duration::MAX,
    }
}
