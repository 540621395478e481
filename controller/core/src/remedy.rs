//! Changes of files that fix a failed run: pure rules over its evidence, one file per family.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::SpecEdit;
use argus_crds::{ByteSize, HumanDuration};

use crate::desired::hosts::{dns_names, misspelled_hosts};
use crate::desired::{Accepted, Condition, Dependency, Mount, Probe, Service};
use crate::failed_run::{self, FailedRun, FailureKind};
use crate::ident::ResourceName;
use crate::observed::Volume;
use crate::state::EnvHistory;

mod case;
mod command;
mod database;
mod files;
mod headline;
mod health_check;
mod limits;
mod network;
mod probe;
mod program;

pub(crate) use headline::cause_line;

use case::Case;

/// Strength of the evidence behind a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confidence {
    /// The evidence excludes other causes.
    Certain,
    /// Another cause is possible, so a cause with its own observation is first.
    Likely,
}

/// A rule: its name, its confidence, and the change that it derives.
type Rule = (&'static str, Confidence, fn(&Case<'_>) -> Option<SpecEdit>);

/// Rules for programs that ended, best first.
const RULES: [Rule; 17] = [
    ("one-element", Confidence::Certain, command::one_element),
    ("mounted-script", Confidence::Certain, command::mounted_script),
    ("built-script", Confidence::Certain, command::built_script),
    ("pids", Confidence::Certain, limits::pids),
    ("read-only-mount", Confidence::Certain, files::read_only_mount),
    ("contents", Confidence::Certain, files::contents),
    ("first-process", Confidence::Certain, limits::first_process),
    ("privileges", Confidence::Certain, limits::privileges),
    ("heap", Confidence::Certain, limits::heap),
    ("no-space", Confidence::Certain, files::no_space),
    ("low-port", Confidence::Certain, limits::low_port),
    (
        "unknown-database",
        Confidence::Certain,
        database::unknown_database,
    ),
    ("unknown-role", Confidence::Certain, database::unknown_role),
    ("unknown-host", Confidence::Certain, network::unknown_host),
    ("password", Confidence::Likely, database::password),
    ("refused", Confidence::Likely, network::refused),
    ("permission", Confidence::Likely, files::permission),
];

/// A shorter run ends immediately: it says nothing about the memory that it needs.
const IMMEDIATE: Duration = Duration::from_secs(2);

/// Minimum suggested `startPeriod`.
const MIN_START_PERIOD: Duration = Duration::from_secs(10);

/// Service with the facts behind its edits.
#[derive(Clone, Copy)]
pub(crate) struct EditContext<'a> {
    pub(crate) accepted: &'a Accepted,
    pub(crate) service: &'a Service,
    pub(crate) history: &'a EnvHistory,
    pub(crate) volumes: &'a BTreeMap<String, Arc<Volume>>,
}

impl EditContext<'_> {
    /// Change that fixes the cause of a failed run, without secrets; `None` if the file is not known to be the cause.
    pub(crate) fn of_run(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        self.first_edit(failed_run).map(|edit| self.public(edit))
    }

    /// Without the values that contain a secret.
    fn public(&self, edit: SpecEdit) -> SpecEdit {
        let secrets = &self.accepted.desired.secrets;
        let is_public = |text: &String| secrets.redacted(text) == *text;
        SpecEdit {
            now: edit.now.filter(is_public),
            suggest: edit.suggest.filter(is_public),
            ..edit
        }
    }

    fn first_edit(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        if headline::is_crash(failed_run) {
            return files::shared_memory(&self.case(failed_run));
        }
        // A wrapper can outlive the process that the kernel killed, or end with an exit code of its own.
        let is_out_of_memory =
            failed_run.oom_killed || failed_run.oom_event || failed_run::oom_suspected(failed_run);
        self.misspelled_host()
            .or_else(|| is_out_of_memory.then(|| self.memory(failed_run)).flatten())
            .or_else(|| match failed_run::kind(failed_run) {
                FailureKind::Unhealthy => probe::missing_program(self, failed_run)
                    .or_else(|| probe::tls(self, failed_run))
                    .or_else(|| self.hidden_crash(failed_run))
                    .or_else(|| self.healthcheck(failed_run)),
                FailureKind::Exit => self
                    .of_rules(failed_run, Confidence::Certain)
                    .or_else(|| self.early_start(failed_run))
                    .or_else(|| self.reported(failed_run)),
                FailureKind::NotRunnable => self
                    .of_rules(failed_run, Confidence::Certain)
                    .or_else(|| self.missing_program(failed_run)),
                FailureKind::Signal => {
                    let case = self.case(failed_run);
                    limits::heap(&case).or_else(|| limits::pids(&case))
                }
                FailureKind::OutOfMemory => None,
            })
    }

    /// Change for a service that is unhealthy because its program ended behind a wrapper that still runs.
    fn hidden_crash(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let listening = failed_run.evidence.as_ref()?.listening.as_ref()?;
        let is_crash = listening.is_empty() && recovery_time(failed_run).is_none() && !self.was_healthy();
        is_crash.then(|| self.reported(failed_run)).flatten()
    }

    fn case<'b>(&'b self, run: &'b FailedRun) -> Case<'b> {
        Case::of(*self, run)
    }

    fn of_rules(&self, failed_run: &FailedRun, confidence: Confidence) -> Option<SpecEdit> {
        let case = self.case(failed_run);
        let mut rules = RULES.iter().filter(|(_, known, _)| *known == confidence);
        rules.find_map(|(_, _, edit)| edit(&case))
    }

    /// Change that the program requests by its output.
    fn reported(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        self.of_rules(failed_run, Confidence::Certain)
            .or_else(|| self.of_rules(failed_run, Confidence::Likely))
            .or_else(|| self.missing_variable(failed_run))
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
            let exists = |name: &ResourceName| self.volumes.contains_key(name.as_str());
            let present = self.accepted.desired.present_volume(name, exists);
            let created = self
                .volumes
                .get(present.as_str())
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
        let edit = self.edit(&format!("container.environment.{name}"), reason);
        Some(
            match program::value_of(&name, self.service, &self.accepted.desired) {
                Some(value) => edit.suggest(value),
                None => edit,
            },
        )
    }

    fn edit(&self, key: &str, reason: String) -> SpecEdit {
        let file = &self.accepted.spec_path;
        self.accepted
            .lines
            .edit_service(file, self.service.name.as_str(), key, reason)
    }

    /// Longer `startPeriod` for a service that took this time; `None` without a health check in the file.
    pub(crate) fn start_period_of(&self, took: Duration) -> Option<SpecEdit> {
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

/// Change for a container that the engine could not start.
pub(crate) fn of_start(context: &EditContext<'_>, reason: &str) -> Option<SpecEdit> {
    let edit = command::of_reason(context, reason)
        .or_else(|| command_edit(context.accepted, context.service, program::program_in(reason)?));
    edit.map(|edit| context.public(edit))
}

/// Change of the command that names a missing program; `None` if the image names it.
fn command_edit(accepted: &Accepted, service: &Service, name: &str) -> Option<SpecEdit> {
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

/// Returns the name with the next number at its end.
pub(crate) fn next_name(name: &str) -> String {
    let numbered = name
        .rsplit_once('-')
        .and_then(|(stem, number)| Some((stem, number.parse::<u32>().ok()?)));
    match numbered {
        Some((stem, number)) => format!("{stem}-{}", number.saturating_add(1)),
        None => format!("{name}-2"),
    }
}

#[cfg(test)]
#[path = "remedy/corpus_tests.rs"]
mod tests;
