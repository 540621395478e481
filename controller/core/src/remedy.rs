//! Changes of files that fix a failed run: pure rules over its evidence, one file per family.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;
use argus_crds::{ByteSize, HumanDuration};

use crate::desired::hosts::{dns_names, misspelled_hosts};
use crate::desired::{Accepted, Condition, Dependency, Desired, Probe, Service};
use crate::failed_run::{self, FailedRun, FailureKind};
use crate::observed::Volume;
use crate::secrets::{REDACTED, Secrets, is_secret};
use crate::state::EnvHistory;

/// Lists of parts of messages and of names.
macro_rules! parts {
    ($($(#[$doc:meta])* $vis:vis $name:ident: $($part:literal)+;)+) => {
        $($(#[$doc])* $vis const $name: &[&str] = &[$($part),+];)+
    };
}

mod built;
mod case;
mod classes;
mod command;
mod cures;
mod database;
mod defaults;
mod environment;
mod files;
mod headline;
mod health_check;
mod host_files;
mod images;
mod limits;
mod listeners;
mod logins;
mod modules;
mod network;
mod privileges;
mod probe;
mod probe_client;
mod probe_command;
mod process;
mod program;
mod rejected;
mod reported;
mod rule;
mod settings;
mod shell;
mod siblings;
mod signals;
mod subcommands;
#[cfg(test)]
mod test_environment;
mod tls;
mod unread;
mod values;
mod versions;

pub(crate) use headline::cause_line;
pub(crate) use probe_client::requested_port;
pub(crate) use program::missing_program;

use case::Case;
use rule::Phase;

/// A shorter run ends immediately: it says nothing about the memory that it needs.
const IMMEDIATE: Duration = Duration::from_secs(2);

/// Exit code of a process that ended itself with `abort`.
const SIGABRT: i64 = 134;

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

impl<'a> EditContext<'a> {
    /// The same facts for another service of the environment.
    fn with_service(&self, service: &'a Service) -> Self {
        Self { service, ..*self }
    }
}

/// Secrets of the values in an edit. Test environments repeat the name of a user or of a database as its password, and such a name is public.
pub(crate) fn edit_secrets(desired: &Desired) -> Secrets {
    let mut secrets = desired.secret_values();
    let known = [images::user_variables(), images::database_variables()].concat();
    let ends = ["USER", "USERNAME", "EMAIL", "LOGIN"];
    let is_account = |name: &str| ends.iter().any(|end| name.ends_with(end)) && !is_secret(name);
    for (name, value) in desired.services.values().flat_map(|service| &service.env_vars) {
        if known.contains(&name.as_str()) || is_account(name) {
            secrets.remove(value);
        }
    }
    secrets
}

impl EditContext<'_> {
    /// Change that fixes the cause of a failed run, without secrets; `None` if the file is not known to be the cause.
    pub(crate) fn of_run(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        self.first_edit(failed_run).map(|edit| self.public(edit))
    }

    /// Without the values that contain a secret. A part of a value means nothing without the other one, so both go.
    fn public(&self, edit: SpecEdit) -> SpecEdit {
        let secrets = edit_secrets(&self.accepted.desired);
        let is_public =
            |text: &Option<String>| text.as_ref().is_none_or(|text| secrets.redacted(text) == *text);
        let present = self.present(&edit.key).map(|(name, value)| {
            if is_secret(name) {
                REDACTED.to_owned()
            } else {
                secrets.redacted(value)
            }
        });
        if is_public(&edit.now) && is_public(&edit.suggest) {
            let has_none = edit.now.is_none() && edit.suggest.is_none();
            let now = edit.now.or_else(|| present.filter(|_| has_none));
            return SpecEdit { now, ..edit };
        }
        SpecEdit {
            now: present,
            suggest: None,
            hint: edit
                .hint
                .or_else(|| Some("write the value yourself, because it contains a secret".to_owned())),
            ..edit
        }
    }

    /// Variable with this key, and its value. The text of an edit without `now` says that it adds the variable.
    fn present(&self, key: &str) -> Option<(&str, &str)> {
        self.accepted.desired.services.values().find_map(|service| {
            let lines = &self.accepted.lines;
            let parent = lines.service_key(service.name.as_str(), "container.environment");
            let name = key.strip_prefix(&parent)?.strip_prefix('.')?;
            let (name, value) = service.env_vars.get_key_value(name)?;
            (!value.is_empty()).then_some((name.as_str(), value.as_str()))
        })
    }

    fn first_edit(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let mut phases = self.phases(failed_run).into_iter();
        phases.find_map(|phase| rule::first_edit(self, failed_run, phase))
    }

    /// Parts of the examination of a run, in order.
    fn phases(&self, failed_run: &FailedRun) -> Vec<Phase> {
        if failed_run.memory_used.is_some() {
            return vec![Phase::Memory];
        }
        if headline::is_crash(failed_run) {
            return vec![Phase::Crash, Phase::Crashed];
        }
        // A wrapper can outlive the process that the kernel killed, or end with an exit code of its own.
        let is_out_of_memory = failed_run.has_oom_proof() || failed_run::oom_suspected(failed_run);
        let of_memory = is_out_of_memory.then_some(Phase::Memory);
        let of_kind = match failed_run::kind(failed_run) {
            FailureKind::Unhealthy if self.is_hidden_crash(failed_run) => {
                vec![Phase::Probe, Phase::Hidden, Phase::Check]
            }
            FailureKind::Unhealthy => vec![Phase::Probe, Phase::Check],
            FailureKind::Exit => vec![Phase::Exit],
            FailureKind::NotRunnable => vec![Phase::NotRunnable],
            // A runtime that aborts reports its error first.
            FailureKind::Signal if failed_run.exit_code == SIGABRT => vec![Phase::Signal, Phase::Exit],
            FailureKind::Signal => vec![Phase::Signal],
            FailureKind::OutOfMemory => Vec::new(),
        };
        let is_failure = [Phase::Exit, Phase::Check]
            .iter()
            .any(|phase| of_kind.contains(phase));
        let is_ended = failed_run.exit_code != 0 || of_kind.contains(&Phase::Check);
        let rest = (is_failure && is_ended && !self.was_healthy()).then_some(Phase::Rest);
        of_memory.into_iter().chain(of_kind).chain(rest).collect()
    }

    /// Returns whether a service is unhealthy because its program ended behind a wrapper that still runs, or answers with errors.
    fn is_hidden_crash(&self, failed_run: &FailedRun) -> bool {
        let evidence = failed_run.evidence.as_ref();
        let listening = evidence.and_then(|evidence| evidence.listening.as_ref());
        let last = failed_run.last_probe_output();
        // A process that loads its program again keeps its socket without it.
        let is_reloaded = evidence.is_some_and(|found| {
            let streams = [&found.stderr, &found.stdout].map(|lines| headline::after_success(lines));
            let mut lines = streams.into_iter().flatten();
            lines.any(|line| case::contains(line, &["error loading asgi app", "process spawnprocess-"]))
        });
        // A status of 500 or more is an error of the program, and its output names the cause.
        let is_reported = is_reloaded
            || listening.is_some_and(Vec::is_empty)
            || last.is_some_and(|last| probe::is_server_error(last));
        is_reported && recovery_time(failed_run).is_none() && !self.was_healthy()
    }

    fn missing_program(&self, case: &Case<'_>) -> Option<SpecEdit> {
        let of_files = [
            shell::one_element,
            shell::shell_words,
            host_files::script_mode,
            host_files::script_line_ends,
            host_files::script_interpreter,
            signals::loader,
            command::mounted_script,
            built::built_script,
        ];
        if of_files.iter().any(|rule| rule(case).is_some()) {
            return None;
        }
        let name = case.lines().find_map(program::program_in)?;
        command_edit(self.accepted, self.service, name)
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
        let value = self.service.env_vars.get(&found.variable)?;
        let (now, meant) = case::unambiguous(value, &found.host, &found.meant);
        Some(edit.now(now).suggest(meant))
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
        let (needed, reason) = if let Some(used) = failed_run.memory_used {
            let used = ByteSize::from_bytes(used.div_ceil(MIB) * MIB);
            (
                limit.saturating_mul(3) / 2,
                format!("it used {used} of its limit"),
            )
        } else if failed_run.run_duration() < IMMEDIATE {
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
    let edit = edit.now(name).likely();
    if let Some(meant) = images::renamed_program(service, name) {
        let mut words = service.command.iter().chain(&service.entrypoint).flatten();
        // An element of a list is one word.
        let is_word = words.any(|word| word == name);
        let first = meant.split(' ').next().filter(|_| is_word);
        return Some(edit.suggest(first.unwrap_or(meant)));
    }
    // Most images with a shell have this one.
    let base = name.rsplit('/').next().unwrap_or(name);
    let is_shell = shell::SHELLS.contains(&base) && base != "sh";
    Some(match name {
        _ if is_shell => edit.suggest(if base == name { "sh" } else { "/bin/sh" }),
        "python" => edit.suggest("python3"),
        "pip" => edit.suggest("pip3"),
        _ => match nearest(name, PROGRAMS.iter().copied()).filter(|meant| *meant != name) {
            Some(meant) => edit.suggest(meant),
            None => edit,
        },
    })
}

parts! {
    /// Programs of commands, for their typing errors.
    PROGRAMS: "python3" "python" "gunicorn" "uvicorn" "celery" "flask" "alembic" "poetry" "pytest" "node" "npm" "npx"
        "yarn" "pnpm" "bundle" "rails" "rake" "puma" "sidekiq" "java" "dotnet" "php" "composer" "nginx" "httpd" "caddy"
        "redis-server" "postgres" "mysqld" "mongod" "rabbitmq-server" "sleep" "echo" "cat" "tail" "bash" "supervisord";
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
