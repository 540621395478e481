//! Probe results of containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::{Probe, ProbeHandler};
use crate::ident::ContainerId;
use crate::observed::{Container, EngineHealthStatus, InspectInfo, Outage};
use crate::time::Timestamp;

/// Start of the result of a probe whose time is over.
pub const NO_ANSWER: &str = "no answer within ";

/// Probe results by container; a container without an entry has not been probed.
pub type HealthStates = BTreeMap<ContainerId, ProbedHealth>;

/// Probe results of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbedHealth {
    /// Current status.
    pub status: ProbeStatus,
    /// Time of the last status change.
    pub since: Timestamp,
    /// Time of the first failed probe that led to `Unhealthy`; `None` for other statuses and where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Share of time in which tasks waited for a resource of the host during the failed probes, in percent. `None` where it is unknown, and
    /// unless the probes led to `Unhealthy`, or would have on a host that is not starved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_pressure: Option<u8>,
    /// Time of a successful answer to a probe that had ended with its timeout; `None` for other statuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_answer: Option<Duration>,
    /// Start time of the probed run; a result of an earlier run does not count.
    pub started_at: Option<Timestamp>,
    /// Output of the last probe, cut to 4 KiB.
    pub output: String,
    /// Outputs of the last probes before the status change, oldest first.
    pub recent: Vec<String>,
    /// True if the last probe failed although the container counts as healthy, or has been starting for a while.
    pub failing: bool,
    /// True if the container did not respond at all.
    #[serde(rename = "dead")]
    pub unresponsive: bool,
    /// True if more than half of the last probes failed although the container was healthy in between.
    #[serde(rename = "unsteady")]
    pub flapping: bool,
    /// Settings of the probe; a result with other settings does not count. `None` where they are unknown.
    #[serde(skip)]
    pub probe: Option<Arc<Probe>>,
}

impl ProbedHealth {
    /// Output of the last probe that could write it.
    pub(crate) fn last_output(&self) -> &String {
        last_result(&self.recent).unwrap_or(&self.output)
    }
}

/// Status that the probes determined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// Undetermined: too few results so far.
    #[default]
    Starting,
    /// Enough consecutive successes.
    Healthy,
    /// Enough consecutive failures.
    Unhealthy,
}

/// Returns the health of a running container: the result of its probe, or of the image's health check if there is no probe.
/// Returns `None` if the container has neither.
///
/// A failure of Argus' own probe on the way into an outage does not count: the probe runs again after the outage.
pub(crate) fn probe_status(
    probe: Option<&Probe>,
    container: &Container,
    health: &HealthStates,
    outages: &[Outage],
) -> Option<ProbeStatus> {
    let info = container.inspect.as_ref();
    let started_at = info.and_then(|info| info.started_at);
    if !is_by_engine(probe, Some(container)) {
        let seen = health
            .get(&container.id)
            .filter(|seen| seen.started_at == started_at || started_at.is_none())
            .filter(|seen| seen.probe.is_none() || seen.probe.as_deref() == probe)
            .filter(|seen| {
                seen.status != ProbeStatus::Unhealthy
                    || !outages.iter().any(|outage| outage.covers(seen.since))
            });
        return Some(seen.map_or(ProbeStatus::Starting, |seen| seen.status));
    }
    match info.and_then(|info| info.health.as_ref()) {
        // A result from before the start does not belong to this run.
        Some(health_check) if health_check.checked_at.is_some_and(|at| Some(at) < started_at) => {
            Some(ProbeStatus::Starting)
        }
        Some(health_check) => Some(match health_check.status {
            EngineHealthStatus::Starting => ProbeStatus::Starting,
            EngineHealthStatus::Healthy => ProbeStatus::Healthy,
            EngineHealthStatus::Unhealthy => ProbeStatus::Unhealthy,
        }),
        None if probe.is_some() => Some(ProbeStatus::Starting),
        // Only an inspect shows if the image has a health check.
        None if info.is_none() => Some(ProbeStatus::Starting),
        None => None,
    }
}

/// True if the last probe of a container failed, even if the container still counts as healthy.
pub(crate) fn is_failing(probe: Option<&Probe>, container: &Container, health: &HealthStates) -> bool {
    let info = container.inspect.as_ref();
    if is_by_engine(probe, Some(container)) {
        let check = info.and_then(|info| info.health.as_ref());
        return check.is_some_and(|check| check.failing_streak > 0);
    }
    let started_at = info.and_then(|info| info.started_at);
    let seen = health.get(&container.id);
    seen.is_some_and(|seen| seen.failing && seen.started_at == started_at)
}

/// True if the engine probes a container by the health check of its image.
pub(crate) fn is_by_engine(probe: Option<&Probe>, container: Option<&Container>) -> bool {
    probe.is_none_or(|probe| match probe.kind {
        ProbeHandler::Docker => true,
        ProbeHandler::DockerOrTcp { .. } => container.is_some_and(Container::has_health_check),
        ProbeHandler::Http { .. }
        | ProbeHandler::Tcp { .. }
        | ProbeHandler::Exec { .. }
        | ProbeHandler::Log { .. } => false,
    })
}

/// True if the image must provide the health check and has none: the engine would report one from the start on.
pub(crate) fn is_never_probed(probe: Option<&Probe>, container: &Container) -> bool {
    let by_image = probe.is_some_and(|probe| probe.kind == ProbeHandler::Docker);
    let has_none = |info: &InspectInfo| info.started_at.is_some() && info.health.is_none();
    by_image && container.inspect.as_ref().is_some_and(has_none)
}

/// Last outputs of Argus' probe, or of the engine's health check.
pub(crate) fn recent_output(container: &Container, health: &HealthStates) -> Vec<String> {
    let probed = health.get(&container.id);
    let reported = container.inspect.as_ref().and_then(|info| info.health.as_ref());
    match (probed, reported) {
        (Some(probed), _) if !probed.recent.is_empty() => probed.recent.clone(),
        (Some(probed), _) => vec![probed.output.clone()],
        (None, Some(reported)) if !reported.recent.is_empty() => reported.recent.clone(),
        (None, Some(reported)) => vec![reported.output.clone()],
        (None, None) => Vec::new(),
    }
}

/// Returns the last result. On a busy host, a timeout can end a command before it writes: then, an earlier result with the same timeout
/// and output is returned instead.
pub fn last_result(results: &[String]) -> Option<&String> {
    let (last, earlier) = results.split_last()?;
    let end = last.rsplit(": ").next();
    // The engine reports a timeout of its own health check in other words.
    let is_timeout = end
        .is_some_and(|end| end.starts_with(NO_ANSWER) || end.starts_with("Health check exceeded timeout ("));
    let extends = |one: &&String| {
        one.strip_prefix(last.as_str())
            .is_some_and(|more| more.starts_with(": "))
    };
    earlier
        .iter()
        .rev()
        .find(extends)
        .filter(|_| is_timeout)
        .or(Some(last))
}

#[cfg(test)]
mod tests {
    #[test]
    fn timeout_without_output_is_replaced_by_one_with_output() {
        let silent = "exec sh: no answer within 1 s";
        let complete = "exec sh: no answer within 1 s: no queue";
        let of_engine = "HEALTHCHECK of the image: exit code -1: Health check exceeded timeout (1s)";
        let with_output = of_engine.to_owned() + ": no queue";
        let ended = "exec sh: exit code 1: a";
        for (results, last) in [
            ([silent, complete, silent], complete),
            ([silent, complete, ended], ended),
            ([silent; 3], silent),
            (["exec sh: exit code 1: a: b", silent, ended], ended),
            ([of_engine, &with_output, of_engine], &with_output),
        ] {
            assert_eq!(super::last_result(&results.map(str::to_owned)).unwrap(), last);
        }
    }
}
