//! The table of all rules, and the order in which they are tried: first by place of the evidence, then by confidence.

use argus_crds::error::{Confidence, SpecEdit};

use super::case::Case;
use super::{
    EditContext, built, command, cures, database, defaults, environment, files, host_files, limits,
    listeners, logins, modules, network, privileges, probe, probe_command, process, rejected, settings,
    shell, siblings, signals, subcommands, tls, unread, values, versions,
};
use crate::failed_run::FailedRun;

/// Place of the evidence, from the narrowest to the widest. A rule is tried in each place up to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// No line: facts of the run and of the file.
    Facts,
    /// The line with the cause and its neighbours.
    Cause,
    /// The last lines of both streams.
    Last,
    /// All kept lines.
    All,
    /// The same, with warnings about connections; for the rest.
    Warned,
}

/// Part of the examination of a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Memory ran out.
    Memory,
    /// An invalid instruction or memory access ended the program, and its output names the cause.
    Crash,
    /// As before, without such a cause.
    Crashed,
    /// Another signal ended the program.
    Signal,
    /// The command could not run.
    NotRunnable,
    /// The program ended with an exit code.
    Exit,
    /// The health check cannot succeed.
    Probe,
    /// The program ended behind a wrapper that still runs.
    Hidden,
    /// The health check does not fit the program.
    Check,
    /// Nothing before was the cause: a server that the program uses, also if the program still runs or only warns.
    Rest,
}

/// All phases in which the name of a host can be the cause.
const NO_CRASH: &[Phase] = &[
    Phase::Memory,
    Phase::Signal,
    Phase::NotRunnable,
    Phase::Exit,
    Phase::Probe,
];
const MEMORY: &[Phase] = &[Phase::Memory];
const CRASH: &[Phase] = &[Phase::Crash];
const CRASHED: &[Phase] = &[Phase::Crashed];
const NOT_RUNNABLE: &[Phase] = &[Phase::NotRunnable];
const ENDED: &[Phase] = &[Phase::Exit, Phase::Hidden];
const SERVER: &[Phase] = &[Phase::Exit, Phase::Hidden, Phase::Rest];
const ANY_SERVER: &[Phase] = &[Phase::Exit, Phase::Hidden, Phase::NotRunnable, Phase::Rest];
const REST: &[Phase] = &[Phase::Rest];
const EXIT: &[Phase] = &[Phase::Exit];
const ANY_END: &[Phase] = &[Phase::Exit, Phase::Hidden, Phase::NotRunnable];
const PROCESSES: &[Phase] = &[
    Phase::Exit,
    Phase::Hidden,
    Phase::NotRunnable,
    Phase::Signal,
    Phase::Probe,
];
const HEAP: &[Phase] = &[
    Phase::Exit,
    Phase::Hidden,
    Phase::NotRunnable,
    Phase::Signal,
    Phase::Crash,
];
const CPU: &[Phase] = &[Phase::Crash, Phase::NotRunnable];
const WORKER: &[Phase] = &[Phase::Probe, Phase::Exit, Phase::Hidden];
const PROBE: &[Phase] = &[Phase::Probe];
const ANSWERED: &[Phase] = &[
    Phase::Exit,
    Phase::Hidden,
    Phase::NotRunnable,
    Phase::Probe,
    Phase::Check,
];
const CHECK: &[Phase] = &[Phase::Check];

/// A rule: a pure function from a failed run to a change. Its texts for the documentation are in `facts/rules.txt`.
pub(super) struct Rule {
    #[cfg_attr(not(test), allow(dead_code, reason = "the page of the rules contains it"))]
    pub(super) name: &'static str,
    /// Strength of its evidence: a cause with its own observation comes before a likely one.
    pub(super) confidence: Confidence,
    pub(super) scope: Scope,
    pub(super) phases: &'static [Phase],
    pub(super) of: fn(&Case<'_>) -> Option<SpecEdit>,
}

/// One rule per entry: name, confidence, scope, phases and function.
macro_rules! rules {
    ($($name:literal $confidence:ident $scope:ident $phases:ident $of:expr;)*) => {
        /// All rules, best first within a scope and a confidence.
        pub(super) const RULES: &[Rule] = &[$(Rule {
            name: $name,
            confidence: Confidence::$confidence,
            scope: Scope::$scope,
            phases: $phases,
            of: $of,
        }),*];
    };
}

rules! {
    "misspelled-host" Certain Facts NO_CRASH |case| case.context.misspelled_host();
    "memory" Certain Facts MEMORY |case| case.context.memory(case.run);
    "known-memory" Certain Facts MEMORY cures::known_memory;
    "one-element" Certain Facts NOT_RUNNABLE shell::one_element;
    "shell-words" Certain Facts ANY_END shell::shell_words;
    "script-mode" Certain Cause NOT_RUNNABLE host_files::script_mode;
    "script-line-ends" Certain Cause ANY_END host_files::script_line_ends;
    "script-interpreter" Certain Cause NOT_RUNNABLE host_files::script_interpreter;
    "platform" Certain Facts NOT_RUNNABLE command::platform;
    "architecture" Certain Last ANY_END signals::architecture;
    "loader" Certain All NOT_RUNNABLE signals::loader;
    "mounted-script" Certain All NOT_RUNNABLE command::mounted_script;
    "built-script" Certain All NOT_RUNNABLE built::built_script;
    "shell-variable" Certain Cause ENDED shell::shell_variable;
    "shell-syntax" Certain Cause ENDED shell::shell_syntax;
    "renamed-setting" Certain Last ANY_SERVER unread::renamed_setting;
    "unknown-option" Certain Cause ENDED command::unknown_option;
    "required-option" Certain Cause ENDED command::required_option;
    "unknown-command" Certain Cause ENDED subcommands::unknown_command;
    "pids" Certain All PROCESSES limits::pids;
    "read-only-mount" Certain Last ANY_END files::read_only_mount;
    "read-only-folder" Certain Last ANY_END files::read_only_folder;
    "folder-for-file" Certain Last ANY_END host_files::folder_for_file;
    "contents" Certain Last ANY_END files::contents;
    "stale-file" Certain Last ENDED host_files::stale_file;
    "host-mode" Certain Last ENDED host_files::host_mode;
    "similar-name" Certain Last ANY_END host_files::similar_name;
    "first-process" Certain All ANY_END limits::first_process;
    "privileges" Certain All ANY_END limits::privileges;
    "root-required" Certain Cause ANY_END privileges::root_required;
    "root-refused" Certain Cause ENDED privileges::root_refused;
    "shared-memory" Certain All CRASH files::shared_memory;
    "heap-option" Certain All HEAP limits::heap_option;
    "heap" Certain All HEAP limits::heap;
    "crash" Certain Facts CRASHED signals::crash;
    "processor" Certain All CPU signals::processor;
    "libraries" Certain Cause ANY_END signals::libraries;
    "no-space" Certain All ANY_END files::no_space;
    "low-port" Certain Last ANY_END limits::low_port;
    "unknown-database" Certain Last ANY_SERVER database::unknown_database;
    "unknown-role" Certain Last ANY_SERVER database::unknown_role;
    "path-style" Certain Last SERVER defaults::bucket_host;
    "default-host" Certain Last SERVER defaults::default_host;
    "other-network" Certain Last SERVER siblings::other_network;
    "other-port" Certain Last SERVER defaults::other_port;
    "advertised-address" Certain Last SERVER siblings::advertised_address;
    "undefined-listener" Certain Cause ENDED siblings::undefined_listener;
    "default-address" Certain Last SERVER defaults::default_address;
    "default-configuration" Certain Last ANSWERED unread::default_configuration;
    "known-cure" Certain Last ANSWERED cures::known_cure;
    "image-version" Certain Last ENDED versions::image_version;
    "removed-variable" Certain Cause ENDED environment::removed_variable;
    "open-file" Certain Last ENDED privileges::open_file;
    "capability" Certain Last ANY_END process::capability;
    "address-form" Certain Cause ENDED values::address_form;
    "mounted-folder" Certain All NOT_RUNNABLE host_files::mounted_folder;
    "working-dir" Certain Last ENDED process::working_dir;
    "other-value" Certain Last SERVER siblings::other_value;
    "missing-job" Likely Last ENDED process::missing_job;
    "image-user" Likely Last ENDED files::image_user;
    "short-value" Certain Cause ENDED settings::short_value;
    "auth-source" Certain Last SERVER database::auth_source;
    "data-version" Certain Last ENDED database::data_version;
    "unknown-host" Certain Last ANY_SERVER network::unknown_host;
    "scheme" Certain Last ANY_SERVER tls::scheme;
    "database-tls" Certain Last ANY_SERVER tls::database_tls;
    "address-in-use" Certain Last ANY_END listeners::address_in_use;
    "own-tls" Certain Cause ENDED listeners::own_tls;
    "misspelled-variable" Certain Cause ENDED environment::misspelled_variable;
    "missing-variable" Certain Cause ENDED environment::missing_variable;
    "invalid-variable" Certain Cause ENDED rejected::invalid_value;
    "advised-variable" Likely Cause ENDED unread::advised_variable;
    "early-start" Likely Cause EXIT |case| case.context.early_start(case.run);
    "password" Likely Last SERVER logins::password;
    "stored-password" Likely Last SERVER logins::stored_password;
    "no-password" Likely Last SERVER logins::no_password;
    "absent-login" Likely Last SERVER logins::absent_login;
    "local-sibling" Likely Last SERVER network::local_sibling;
    "refused" Likely Last SERVER network::refused;
    "unread-file" Likely Last SERVER unread::unread_file;
    "local-default" Likely Last SERVER cures::local_default;
    "address-in-file" Likely Last SERVER settings::address_in_file;
    "missing-dependency" Likely Last ENDED network::missing_dependency;
    "no-health-check" Likely Last ENDED siblings::no_health_check;
    "volume-user" Likely Last ENDED files::volume_user;
    "folder-elsewhere" Likely Last ENDED files::folder_elsewhere;
    "built-user" Likely Last ENDED files::built_user;
    "killed-worker" Likely Last WORKER limits::killed_worker;
    "named-setting" Likely Cause ENDED settings::named_setting;
    "configuration" Likely Cause ENDED settings::configuration;
    "permission" Likely Last ENDED files::permission;
    "mount-owner" Likely Last ENDED host_files::mount_owner;
    "hidden-modules" Likely Cause ANY_END modules::hidden_modules;
    "unmounted" Likely Cause ANY_END host_files::unmounted;
    "missing-host-file" Likely Cause ANY_END host_files::missing_file;
    "late-variable" Likely Last ENDED environment::missing_variable;
    "advised-option" Likely Cause ENDED unread::advised_option;
    "missing-command" Likely Last EXIT process::missing_command;
    "completed-job" Likely Last EXIT process::completed_job;
    "unfit-data" Likely Last ENDED database::unfit_volume;
    "missing-program" Likely Last ANY_END |case| case.context.missing_program(case);
    "known-warning" Likely Warned REST cures::known_warning;
    "probe-shell" Certain Facts PROBE probe_command::shell;
    "probe-script" Certain Facts PROBE probe_command::script;
    "probe-program" Certain Facts PROBE |case| probe::missing_program(&case.context, case.run);
    "probe-host" Certain Facts PROBE probe_command::host;
    "probe-scheme" Certain Facts PROBE probe_command::scheme;
    "probe-login" Certain Facts PROBE probe_command::login;
    "probe-tls" Certain Facts PROBE |case| probe::tls(&case.context, case.run);
    "allowed-hosts" Certain Facts PROBE |case| probe::allowed_hosts(&case.context, case.run);
    "probe-credentials" Certain Facts PROBE |case| probe::credentials(&case.context, case.run);
    "probe-from-outside" Certain Facts PROBE |case| probe::from_outside(&case.context, case.run);
    "probe-port" Likely Facts CHECK probe_command::port;
    "probe-path" Likely Facts PROBE probe_command::path;
    "image-check" Likely Facts CHECK probe_command::of_image;
    "local-file" Likely Facts CHECK settings::local_listener;
    "slow-start" Certain Facts CHECK |case| case.context.slow_start(case.run);
    "unread-mount" Likely Facts CHECK unread::unread_mount;
    "health-check" Likely Facts CHECK |case| case.context.healthcheck(case.run);
}

/// Change of the first rule that fits a run: the nearest evidence first, then certain rules before likely ones.
pub(super) fn first_edit(context: &EditContext<'_>, run: &FailedRun, phase: Phase) -> Option<SpecEdit> {
    const SCOPES: [Scope; 4] = [Scope::Facts, Scope::Cause, Scope::Last, Scope::All];
    let scopes: &[Scope] = if phase == Phase::Rest {
        &[Scope::Warned]
    } else {
        &SCOPES
    };
    scopes.iter().find_map(|scope| {
        let case = Case::new(*context, run, *scope);
        [Confidence::Certain, Confidence::Likely]
            .into_iter()
            .find_map(|confidence| {
                let mut rules = RULES.iter().filter(|rule| rule.confidence == confidence);
                rules.find_map(|rule| rule.edit_in(&case, phase))
            })
    })
}

impl Rule {
    /// Change for a case, if the rule reads its lines in this phase.
    pub(super) fn edit_in(&self, case: &Case<'_>, phase: Phase) -> Option<SpecEdit> {
        let is_read = match case.scope {
            Scope::Facts => self.scope == Scope::Facts,
            Scope::Warned => true,
            scope => self.scope >= scope,
        };
        let edit = (is_read && self.phases.contains(&phase))
            .then(|| (self.of)(case))
            .flatten()?;
        Some(match self.confidence {
            Confidence::Certain => edit,
            Confidence::Likely => edit.likely(),
        })
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
