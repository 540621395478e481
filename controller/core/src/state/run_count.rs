//! Runs of a service: the number of its restarts for any reason, and the end of its restart budget's use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::{RestartPolicy, Service};
use crate::ident::{ContainerId, ContainerSpecHash};
use crate::observed::Container;
use crate::state::{Interruption, ServiceHistory};
use crate::time::Timestamp;

/// Newest run of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewestRun {
    /// Spec hash of its container.
    pub hash: Option<ContainerSpecHash>,
    /// Start of the run.
    pub started_at: Timestamp,
    /// Its container; `None` if an earlier version recorded the run.
    #[serde(default)]
    pub container: Option<ContainerId>,
    /// Number of failures of the service before the run.
    #[serde(default)]
    pub failures_before: u64,
    /// True if the last observation shows a process in the container.
    #[serde(default)]
    pub is_up: bool,
    /// True if the last observation shows the container on a network of the environment.
    #[serde(default)]
    pub is_attached: bool,
    /// Interruption by another client that ended the run, and its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<(Interruption, Timestamp)>,
}

impl NewestRun {
    /// Returns true if another client ended this run of the container. Later observations may no longer contain the stop.
    pub(super) fn is_ended_by_other(&self, container: &Container, grace: Duration) -> bool {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        let is_this_run =
            self.container.as_ref() == Some(&container.id) && started_at == Some(self.started_at);
        is_this_run
            && matches!(self.interruption, Some((Interruption::Stop, at)) if container.is_ended_by_stop(at, grace))
    }
}

/// Counts a run that follows another run of the same spec hash, whatever ended the earlier one. Returns the earlier run.
pub(super) fn record(history: &mut ServiceHistory, container: &Container) -> Option<NewestRun> {
    let started_at = container.inspect.as_ref()?.started_at?;
    let newest = history.newest_run.as_ref();
    if newest.is_some_and(|newest| newest.started_at >= started_at) {
        return None;
    }
    let run = NewestRun {
        hash: container.owner().and_then(|owner| owner.spec_hash),
        started_at,
        container: Some(container.id.clone()),
        failures_before: history.failure_count,
        is_up: container.state.is_up(),
        is_attached: false,
        interruption: None,
    };
    let ended = newest.filter(|newest| newest.hash == run.hash).cloned();
    if ended.is_none() {
        // The container of another specification has a health of its own.
        history.health = None;
    }
    history.restarts += u32::from(ended.is_some());
    history.newest_run = Some(run);
    ended
}

/// Resets the use of the restart budget once a run has lasted for `resetAfter`. Stores the time of the next reset.
pub(super) fn reset_budget(
    history: &mut ServiceHistory,
    service: &Service,
    policy: &RestartPolicy,
    containers: &[&Container],
    now: Timestamp,
) {
    let running = containers.iter().find(|container| container.state.is_up());
    let healthy_run = history.healthy_run.as_ref();
    let since = running.and_then(|container| {
        let info = container.inspect.as_ref()?;
        if service.probe.is_some() || info.health.is_some() {
            healthy_run
                .filter(|run| run.is_of(container))
                .map(|run| run.since)
        } else {
            info.started_at
        }
    });
    let Some(last) = history.failures.last_mut().filter(|last| !last.budget_reset) else {
        history.budget_resets_at = None;
        return;
    };
    let resets_at = since
        .filter(|_| last.followed_by_run)
        .map(|since| since + policy.reset_after);
    last.budget_reset = resets_at.is_some_and(|at| at <= now);
    history.budget_resets_at = resets_at.filter(|at| *at > now);
}
