//! Changes of the spec file that fix a failed run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::SpecEdit;
use argus_crds::{ByteSize, HumanDuration};

use crate::desired::hosts::{dns_names, misspelled_hosts};
use crate::desired::{Accepted, Condition, Dependency, Mount, Probe, ProbeHandler, Service};
use crate::failed_run::{self, FailedRun, FailureKind};
use crate::ident::{Protocol, ResourceName};
use crate::observed::Volume;
use crate::outcome::Evidence;
use crate::state::EnvHistory;

use super::name_conflict::next_name;

mod program;

pub(super) use program::program_in;

/// A shorter run ends immediately: it says nothing about the memory that it needs.
const IMMEDIATE: Duration = Duration::from_secs(2);

/// Minimum suggested `startPeriod`.
const MIN_START_PERIOD: Duration = Duration::from_secs(10);

/// A program that did not listen for this long is not only slow, so a longer `startPeriod` is no longer the first remedy.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Service with the facts behind its edits.
#[derive(Clone, Copy)]
pub(super) struct EditContext<'a> {
    pub(super) accepted: &'a Accepted,
    pub(super) service: &'a Service,
    pub(super) history: &'a EnvHistory,
    pub(super) volumes: &'a BTreeMap<String, Arc<Volume>>,
}

impl EditContext<'_> {
    /// Change that fixes the cause of a failed run; `None` if the file is not known to be the cause.
    pub(super) fn of_run(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        // A wrapper can outlive the process that the kernel killed, or end with an exit code of its own.
        let is_out_of_memory =
            failed_run.oom_killed || failed_run.oom_event || failed_run::oom_suspected(failed_run);
        self.misspelled_host()
            .or_else(|| is_out_of_memory.then(|| self.memory(failed_run)).flatten())
            .or_else(|| match failed_run::kind(failed_run) {
                FailureKind::Unhealthy => self
                    .hidden_crash(failed_run)
                    .or_else(|| self.healthcheck(failed_run)),
                FailureKind::Exit => self.early_start(failed_run).or_else(|| self.reported(failed_run)),
                FailureKind::NotRunnable => self.missing_program(failed_run),
                FailureKind::Signal | FailureKind::OutOfMemory => None,
            })
    }

    /// Change for a service that is unhealthy because its program ended behind a wrapper that still runs.
    fn hidden_crash(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let listening = failed_run.evidence.as_ref()?.listening.as_ref()?;
        let is_crash = listening.is_empty() && recovery_time(failed_run).is_none() && !self.was_healthy();
        is_crash.then(|| self.reported(failed_run)).flatten()
    }

    /// Change that the program requests by its output.
    fn reported(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        self.missing_variable(failed_run)
            .or_else(|| self.unfit_volume(failed_run))
            .or_else(|| self.missing_program(failed_run))
    }

    fn missing_program(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let name = program::missing_program(failed_run.evidence.as_ref()?)?;
        command_edit(self.accepted, self.service, name)
    }

    /// Volume with data from before this revision that the program cannot read. Its data stays in the old volume.
    fn unfit_volume(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let line = program::unfit_data(failed_run.evidence.as_ref()?)?;
        let is_old = |name: &ResourceName| {
            let created = self
                .volumes
                .get(name.as_str())
                .and_then(|volume| volume.created_at());
            created.is_some_and(|at| at < self.accepted.accepted_at)
        };
        let mut old = self
            .service
            .mounts
            .iter()
            .enumerate()
            .filter_map(|(index, mount)| match mount {
                Mount::Volume {
                    name,
                    target,
                    read_only: false,
                } if is_old(name) => Some((index, name, target)),
                Mount::Volume { .. } | Mount::Bind { .. } => None,
            });
        let named = old.clone().find(|(_, _, target)| line.contains(target.as_str()));
        // Without a path in the message, the only volume is meant.
        let only = || old.next().filter(|_| old.next().is_none());
        let (index, name, _) = named.or_else(only)?;
        let reason = format!("the process cannot use the earlier data in the volume `{name}`");
        let edit = self.edit(&format!("container.volumes[{index}]"), reason);
        let (source, rest) = edit.now.as_ref()?.split_once(':')?;
        let fresh = format!("{}:{rest}", next_name(source));
        Some(edit.suggest(fresh))
    }

    fn misspelled_host(&self) -> Option<SpecEdit> {
        let desired = &self.accepted.desired;
        let found = misspelled_hosts(
            self.service,
            &dns_names(desired.services.values()),
            &desired.secrets,
        )
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
            let history = self.history.service(&dependency.service);
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
        let key = format!("dependsOn[{index}].condition");
        let healthy = self.accepted.lines.write_value(&key, "healthy");
        Some(self.edit(&key, reason).suggest(healthy))
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
            ProbeHandler::Http { path, port } => (Some(path.as_str()), *port),
            ProbeHandler::Tcp { port } => (None, *port),
            ProbeHandler::Exec { .. } | ProbeHandler::Docker => return None,
        };
        match evidence.listening.as_deref() {
            Some([]) => {
                let ran = failed_run.run_duration();
                if ran >= MAX_SILENCE {
                    return None;
                }
                let reason = format!("no process listened on a TCP port after {} s", seconds(ran));
                Some(self.start_period(probe, ran * 2, reason))
            }
            Some(listening) if listening.iter().all(|address| address.port() != port) => {
                self.probe_port(port, listening)
            }
            Some(listening) if is_local_only(port, listening) => self.local_address(port),
            Some(_) | None => self.probe_path(path?, evidence, failed_run),
        }
    }

    /// Address of the command or of a variable that makes the process listen on the loopback interface only.
    fn local_address(&self, port: u16) -> Option<SpecEdit> {
        const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
        const LISTENING: [&str; 4] = ["HOST", "ADDR", "BIND", "LISTEN"];
        let mut words = self.service.command.iter().flatten();
        let in_command = words.find_map(|word| LOCAL.into_iter().find(|local| word.contains(local)));
        let in_variable = |(name, value): (&String, &String)| {
            let is_of_listener = LISTENING.iter().any(|word| name.to_uppercase().contains(word));
            let local = LOCAL.into_iter().find(|local| value.starts_with(local))?;
            is_of_listener.then(|| (format!("container.environment.{name}"), local))
        };
        let (key, local) = match in_command {
            Some(local) => ("command".to_owned(), local),
            None => self.service.env_vars.iter().find_map(in_variable)?,
        };
        let reason = format!("the process listens on port {port} only inside its container");
        Some(self.edit(&key, reason).now(local).suggest("0.0.0.0"))
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
        self.history.service(&self.service.name).is_some_and(|history| {
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
            .filter(|address| !is_loopback(address))
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

/// Change of the command that names a missing program; `None` if the image names it.
pub(super) fn command_edit(accepted: &Accepted, service: &Service, name: &str) -> Option<SpecEdit> {
    let names = |words: &Option<Vec<String>>| {
        let mut words = words.iter().flatten();
        words.any(|word| word.contains(name))
    };
    let key = match (names(&service.command), names(&service.entrypoint)) {
        (true, _) => "command",
        (false, true) => "entrypoint",
        (false, false) => return None,
    };
    let reason = format!("the image has no program `{name}`");
    let edit = accepted
        .lines
        .edit_service(&accepted.spec_path, service.name.as_str(), key, reason);
    Some(edit.now(name))
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// True if all listeners of a port refuse connections from outside.
fn is_local_only(port: u16, listening: &[SocketAddr]) -> bool {
    let mut of_port = listening.iter().filter(|address| address.port() == port);
    of_port.all(is_loopback)
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
