//! Changes of the spec file that fix a failed run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use argus_crds::error::SpecEdit;
use argus_crds::{ByteSize, HumanDuration};

use crate::desired::hosts::misspelled_hosts;
use crate::desired::{Accepted, Condition, Dependency, Probe, ProbeKind, Service};
use crate::failed_run::{self, FailedRun, FailureKind};
use crate::ident::{Protocol, ServiceName};
use crate::outcome::Evidence;
use crate::state::ServiceHistory;

mod program;

/// A shorter run ends immediately: it says nothing about the memory that it needs.
const IMMEDIATE: Duration = Duration::from_secs(2);

/// Minimum suggested `startPeriod`.
const MIN_START_PERIOD: Duration = Duration::from_secs(10);

/// Service with the facts behind its edits.
#[derive(Clone, Copy)]
pub(super) struct EditContext<'a> {
    pub(super) accepted: &'a Accepted,
    pub(super) service: &'a Service,
    pub(super) histories: &'a BTreeMap<ServiceName, ServiceHistory>,
}

impl EditContext<'_> {
    /// Change that fixes the cause of a failed run; `None` if the file is not known to be the cause.
    pub(super) fn of_run(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        if let Some(edit) = self.misspelled_host() {
            return Some(edit);
        }
        match failed_run::kind(failed_run) {
            FailureKind::Unhealthy => self.healthcheck(failed_run),
            FailureKind::OutOfMemory => self.memory(failed_run),
            FailureKind::Exit | FailureKind::Signal if failed_run::oom_suspected(failed_run) => {
                self.memory(failed_run)
            }
            FailureKind::Exit => self
                .early_start(failed_run)
                .or_else(|| self.missing_variable(failed_run)),
            FailureKind::Signal | FailureKind::NotRunnable => None,
        }
    }

    fn misspelled_host(&self) -> Option<SpecEdit> {
        let desired = &self.accepted.desired;
        let found = misspelled_hosts(self.service, desired.services.values(), &desired.secrets)
            .into_iter()
            .next()?;
        let reason = format!("`{}` is not a name of this environment", found.host);
        let edit = self.edit(&format!("container.environment.{}", found.variable), reason);
        Some(edit.now(found.host).suggest(found.meant))
    }

    /// Dependency with the condition `started` that was not healthy yet when the program ended.
    fn early_start(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let services = &self.accepted.desired.services;
        let is_early = |dependency: &Dependency| {
            let is_probed = services
                .get(&dependency.service)
                .is_some_and(|service| service.probe.is_some());
            let history = self.histories.get(&dependency.service);
            let healthy_since = history
                .and_then(|history| history.healthy_run.as_ref())
                .map(|run| run.since);
            dependency.condition == Condition::Started
                && is_probed
                && healthy_since.is_none_or(|since| since > failed_run.at)
        };
        let index = self.service.depends_on.iter().position(is_early)?;
        let name = &self.service.depends_on[index].service;
        let reason = format!("`{name}` was not healthy yet when the process ended");
        let edit = self.edit(&format!("dependsOn[{index}].condition"), reason);
        Some(edit.suggest("healthy"))
    }

    fn missing_variable(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let name = program::missing_variable(failed_run.evidence.as_ref()?, &self.service.env_vars)?;
        let reason = format!("the process reports that `{name}` is missing");
        Some(self.edit(&format!("container.environment.{name}"), reason))
    }

    fn edit(&self, key: &str, reason: String) -> SpecEdit {
        let file = &self.accepted.spec_path;
        self.accepted
            .lines
            .edit_service(file, self.service.name.as_str(), key, reason)
    }

    fn healthcheck(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let probe = self.service.probe.as_ref()?;
        if let Some(took) = recovery_time(failed_run) {
            let reason = format!("the service was healthy {} s after its start", seconds(took));
            return Some(self.start_period(probe, took * 3 / 2, reason));
        }
        if self.was_healthy() {
            return None;
        }
        let evidence = failed_run.evidence.as_ref()?;
        let (path, port) = match &probe.kind {
            ProbeKind::Http { path, port } => (Some(path.as_str()), *port),
            ProbeKind::Tcp { port } => (None, *port),
            ProbeKind::Exec { .. } | ProbeKind::Docker => return None,
        };
        match evidence.listening.as_deref() {
            Some([]) => {
                let ran = failed_run.run_duration();
                let reason = format!("no process listened on a TCP port after {} s", seconds(ran));
                Some(self.start_period(probe, ran * 2, reason))
            }
            Some(listening) if listening.iter().all(|address| address.port() != port) => {
                self.probe_port(port, listening)
            }
            Some(_) | None => self.probe_path(path?, evidence, failed_run),
        }
    }

    /// Longer `startPeriod` for a service that took this time; `None` without a health check in the file.
    pub(super) fn start_period_of(&self, took: Duration) -> Option<SpecEdit> {
        let probe = self.service.probe.as_ref()?;
        let reason = format!("the service needed {} s to become healthy", seconds(took));
        Some(self.start_period(probe, took * 3 / 2, reason))
    }

    /// True if a probe of this service ever succeeded: the file was right then.
    fn was_healthy(&self) -> bool {
        let was_healthy = |run: &FailedRun| {
            run.healthy_duration.is_some_and(|time| !time.is_zero()) || run.recovered_at.is_some()
        };
        self.histories.get(&self.service.name).is_some_and(|history| {
            !history.health_transitions.is_empty() || history.failures.iter().any(was_healthy)
        })
    }

    fn start_period(&self, probe: &Probe, needed: Duration, reason: String) -> SpecEdit {
        let needed = needed.max(probe.start_period * 2).max(MIN_START_PERIOD);
        let needed = HumanDuration::from_secs(seconds(needed));
        self.edit("container.healthcheck.startPeriod", reason)
            .suggest(needed.to_string())
    }

    fn probe_port(&self, port: u16, listening: &[SocketAddr]) -> Option<SpecEdit> {
        // The probe connects from outside, which a loopback address refuses.
        let reachable: BTreeSet<u16> = listening
            .iter()
            .filter(|address| !address.ip().to_canonical().is_loopback())
            .map(SocketAddr::port)
            .collect();
        let published = self
            .service
            .ports
            .iter()
            .filter(|port| port.protocol == Protocol::Tcp);
        let published = published
            .map(|port| port.container)
            .find(|port| reachable.contains(port));
        let best = published.or_else(|| reachable.first().copied())?;
        let all: Vec<String> = reachable.iter().map(ToString::to_string).collect();
        let reason = format!(
            "no process listens on port {port}, the container listens on {}",
            all.join(", ")
        );
        Some(
            self.edit("container.healthcheck.port", reason)
                .suggest(best.to_string()),
        )
    }

    fn probe_path(&self, path: &str, evidence: &Evidence, failed_run: &FailedRun) -> Option<SpecEdit> {
        let last = failed_run.probe_output.last()?;
        let is_wrong = ["404", "405", "410"]
            .iter()
            .any(|status| last.contains(&format!(": {status}")));
        let without_query = path.split('?').next().unwrap_or(path);
        let best = evidence
            .healthy_paths
            .iter()
            .find(|healthy| *healthy != without_query);
        match best {
            // A path that exists may fail for a good reason.
            Some(best) if is_wrong => {
                let reason = format!("`{without_query}` does not succeed, `{best}` does");
                Some(
                    self.edit("container.healthcheck.path", reason)
                        .suggest(best.clone()),
                )
            }
            None if is_wrong => {
                let reason = format!("`{without_query}` does not exist in the container");
                Some(self.edit("container.healthcheck.path", reason))
            }
            Some(_) | None => None,
        }
    }

    fn memory(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        const MIB: u64 = 1 << 20;
        let limit = failed_run.memory_limit?;
        let peak = failed_run.peak().unwrap_or(limit).max(limit);
        let (needed, reason) = if failed_run.run_duration() < IMMEDIATE {
            (
                limit.saturating_mul(2),
                "it ran out of memory immediately".to_owned(),
            )
        } else {
            let reason = format!(
                "it used {} before it ran out of memory",
                ByteSize::from_bytes(peak.div_ceil(MIB) * MIB)
            );
            (peak.saturating_mul(3) / 2, reason)
        };
        let needed = ByteSize::from_bytes(needed.div_ceil(MIB).saturating_mul(MIB));
        Some(self.edit("memory", reason).suggest(needed.to_string()))
    }
}

/// Time from the start until the first success of a run that recovered without a restart.
fn recovery_time(failed_run: &FailedRun) -> Option<Duration> {
    let recovered = failed_run.recovered_at?;
    let was_healthy = failed_run.healthy_duration.is_some_and(|time| !time.is_zero());
    (!was_healthy).then(|| recovered.since(failed_run.started_at.unwrap_or(recovered)))
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
