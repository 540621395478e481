//! The table of all rules, and the order in which they are tried: first by place of the evidence, then by confidence.

use argus_crds::error::{Confidence, SpecEdit};

use super::case::Case;
use super::{
    EditContext, command, cures, database, defaults, environment, files, host_files, limits, listeners,
    logins, network, privileges, probe, probe_command, process, settings, shell, siblings, signals, tls,
    values, versions,
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
const ANSWERED: &[Phase] = &[Phase::Exit, Phase::Hidden, Phase::Probe, Phase::Check];
const CHECK: &[Phase] = &[Phase::Check];

/// A rule: a pure function from a failed run to a change.
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the page of the rules is generated from these texts")
)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) family: &'static str,
    /// Strength of its evidence: a cause with its own observation comes before a likely one.
    pub(super) confidence: Confidence,
    pub(super) scope: Scope,
    pub(super) phases: &'static [Phase],
    /// Observation that the rule requires, for the documentation.
    pub(super) evidence: &'static str,
    /// Change that the rule derives, for the documentation.
    pub(super) edit: &'static str,
    pub(super) of: fn(&Case<'_>) -> Option<SpecEdit>,
}

/// One rule per entry: name, family, confidence, scope, phases, function, evidence and edit.
macro_rules! rules {
    ($($name:literal $family:literal $confidence:ident $scope:ident $phases:ident $of:expr, $evidence:literal => $edit:literal;)*) => {
        /// All rules, best first within a scope and a confidence.
        pub(super) const RULES: &[Rule] = &[$(Rule {
            name: $name,
            family: $family,
            confidence: Confidence::$confidence,
            scope: Scope::$scope,
            phases: $phases,
            evidence: $evidence,
            edit: $edit,
            of: $of,
        }),*];
    };
}

rules! {
    "misspelled-host" "network" Certain Facts NO_CRASH |case| case.context.misspelled_host(),
        "a variable contains a name that is similar to the name of a sibling" => "the name of the sibling in the variable";
    "memory" "limits" Certain Facts MEMORY |case| case.context.memory(case.run),
        "the kernel ended a process because memory ran out" => "a larger `memory`, from the measured peak";
    "one-element" "command" Certain Facts NOT_RUNNABLE shell::one_element,
        "exit code 126 or 127, and the command is one element with spaces" => "`[\"sh\", \"-c\", …]`";
    "shell-words" "command" Certain Facts ANY_END shell::shell_words,
        "an element of the command is `&&`, `|` or another operator of a shell, or the first one sets a variable, and the program is no shell" => "`[\"sh\", \"-c\", …]`";
    "script-mode" "command" Certain Cause NOT_RUNNABLE host_files::script_mode,
        "exit code 126, and the mode of the script does not permit it: of a mounted file, a file of the build context, or `container.files`" => "`chmod +x` of the host file, or `mode`";
    "script-line-ends" "command" Certain Cause ANY_END host_files::script_line_ends,
        "the script, from the same places, ends its lines with CRLF, and could not run, or ended under a shell" => "LF line ends in the host file or in `content`";
    "script-interpreter" "command" Certain Cause NOT_RUNNABLE host_files::script_interpreter,
        "exit code 127, and the script, from the same places, names an interpreter that the image does not have" => "the interpreter in line 1 of the host file or of `content`";
    "platform" "command" Certain Facts NOT_RUNNABLE command::platform,
        "`exec format error`, and image and engine have different platforms" => "an image for this platform, or `build.platform`";
    "mounted-script" "command" Certain All NOT_RUNNABLE command::mounted_script,
        "exit code 126 or 127 of a mounted file, without facts of the host" => "mode, line ends or interpreter of the host file, then a retry";
    "built-script" "command" Certain All NOT_RUNNABLE command::built_script,
        "exit code 127 of a script in an image that Argus builds" => "line ends or interpreter in the build context";
    "shell-variable" "command" Certain Cause ENDED shell::shell_variable,
        "the cause contains `$NAME` as the command writes it, and the program is no shell" => "`[\"sh\", \"-c\", …]`";
    "shell-syntax" "command" Certain Cause ENDED shell::shell_syntax,
        "the shell of the command reports an error in the syntax of its text" => "the quotes or operators of the text";
    "unknown-option" "command" Certain Cause ENDED command::unknown_option,
        "the program does not know an option of the command or of a variable such as `NODE_OPTIONS`, or reads it as a file" => "the similar option in the output, or the option at its line";
    "required-option" "command" Certain Cause ENDED command::required_option,
        "the program requires an option, argument or place that the command does not have" => "`command` with this option";
    "unknown-command" "command" Certain Cause ENDED command::unknown_command,
        "the program does not know a subcommand of the command" => "the similar subcommand in the output";
    "pids" "limits" Certain All PROCESSES limits::pids,
        "the program or its health check cannot create a process or thread" => "a larger `argus.policy.pidsLimit`";
    "read-only-mount" "files" Certain Last ANY_END files::read_only_mount,
        "a write below a mount with `:ro` fails" => "the mount without `:ro`";
    "read-only-folder" "files" Certain Last ANY_END files::read_only_folder,
        "a write to a folder that is read-only and not mounted fails" => "`tmpfs` for this folder";
    "folder-for-file" "files" Certain Last ANY_END host_files::folder_for_file,
        "the program expects a file, and the source of its mount is a folder" => "the source of the mount";
    "contents" "files" Certain Last ANY_END files::contents,
        "an error in the contents of a mounted file, often with its line" => "the host file at this line, then a retry";
    "stale-file" "files" Certain Cause ENDED host_files::stale_file,
        "a mounted PID or lock file says that the program already runs" => "remove the host file, then a retry";
    "host-mode" "files" Certain Last ENDED host_files::host_mode,
        "permission denied, and only the owner may read the host file" => "`chmod a+r` of the host file, or the owner of a private key, then a retry";
    "similar-name" "files" Certain Last ANY_END host_files::similar_name,
        "a file below a mount is missing, and its host folder has a similar name" => "the path in the command or variable, or the name on the host";
    "first-process" "privileges" Certain All ANY_END limits::first_process,
        "the program must be the first process" => "`init: false` of the service";
    "privileges" "privileges" Certain All ANY_END limits::privileges,
        "the program needs the privileges of its file, such as `sudo`" => "`noNewPrivileges: false` of the service";
    "root-required" "privileges" Certain Cause ENDED privileges::root_required,
        "the program requires root, and `user` names another user" => "remove `user`";
    "root-refused" "privileges" Certain Cause ENDED privileges::root_refused,
        "the program refuses to run as root" => "a `user` without privileges";
    "shared-memory" "files" Certain All CRASH files::shared_memory,
        "a write to shared memory fails, often with a bus error" => "a `tmpfs` for `/dev/shm`, or a larger one";
    "required-memory" "limits" Certain Cause ENDED limits::required_memory,
        "the program requires more memory than its limit" => "a larger `memory`";
    "heap-option" "limits" Certain All HEAP limits::heap_option,
        "a runtime ran out of its heap before the container reached its `memory`" => "a larger heap in the option of the runtime";
    "heap" "limits" Certain All HEAP limits::heap,
        "a runtime such as Java or Node ran out of its heap" => "a larger `memory`";
    "crash" "signals" Certain Facts CRASHED signals::crash,
        "SIGSEGV, SIGILL, SIGBUS or SIGFPE ended the program before it served" => "another image or platform; a retry does not help";
    "processor" "signals" Certain All CPU signals::processor,
        "the program needs instructions that the processor does not have" => "an earlier version of the image";
    "libraries" "signals" Certain Cause ANY_END signals::libraries,
        "the image does not have a library of the system, or has an earlier version" => "another image";
    "no-space" "files" Certain All ANY_END files::no_space,
        "a `tmpfs` or the shared memory of the service or of its database is full" => "a larger `tmpfs`, or one for `/dev/shm`";
    "low-port" "limits" Certain Last ANY_END limits::low_port,
        "a user without privileges listens on a port below 1024" => "another port, or no `user`";
    "unknown-database" "databases" Certain Last ANY_END database::unknown_database,
        "the database does not exist, and a sibling creates another one or none" => "the name in the variable, or the variable of the sibling";
    "unknown-role" "databases" Certain Last ANY_END database::unknown_role,
        "the role does not exist, and a sibling creates another one" => "the name in the variable";
    "template-variable" "environment" Certain Cause ENDED values::template_variable,
        "a line contains `${NAME}`, and no variable has this name" => "the variable";
    "path-style" "network" Certain Last ENDED defaults::bucket_host,
        "the name of a bucket in front of the name of a sibling cannot be resolved" => "paths for buckets, or an alias";
    "default-host" "network" Certain Last ENDED defaults::default_host,
        "a name cannot be resolved, and neither the command nor a variable contains it" => "the variable of the client, or an alias of the sibling";
    "other-port" "network" Certain Last ENDED defaults::other_port,
        "the port of a sibling speaks another protocol, and the message or its image names another port" => "the port in the variable";
    "advertised-address" "network" Certain Last ENDED siblings::advertised_address,
        "a connection fails, and the sibling sends `localhost` to its clients" => "the variable of the sibling";
    "default-address" "network" Certain Last ENDED defaults::default_address,
        "a connection to the container itself is refused, and a sibling has this port" => "the variable of the client with the sibling";
    "known-cure" "known messages" Certain Last ANSWERED cures::known_cure,
        "a message of a well-known program, with one setting that removes its cause" => "this setting of the service or of its sibling";
    "image-version" "versions" Certain Last ENDED versions::image_version,
        "the output names the version that the program or its server requires" => "the tag of the image";
    "removed-variable" "environment" Certain Cause ENDED environment::removed_variable,
        "the program refuses a variable that it no longer reads" => "remove the variable";
    "open-file" "files" Certain Last ENDED files::open_file,
        "the program refuses a mounted secret that others may read" => "`chmod 600` of the host file, then a retry";
    "capability" "privileges" Certain Last ANY_END process::capability,
        "an operation is not permitted, and `capDrop` removes capabilities" => "`capDrop`";
    "address-form" "environment" Certain Cause ENDED values::address_form,
        "the program cannot read an address that has quotes, or signs that it must encode" => "the address in the variable";
    "mounted-folder" "files" Certain All NOT_RUNNABLE host_files::mounted_folder,
        "the engine cannot mount a folder at the place of a file" => "the source of the mount";
    "working-dir" "command" Certain Last ENDED process::working_dir,
        "a file of the project is missing, and the project is mounted at another folder" => "`workingDir`";
    "missing-job" "start" Likely Last ENDED process::missing_job,
        "a table is missing, and nothing waits for the job that creates it" => "`dependsOn`";
    "image-user" "files" Likely Last ENDED files::image_user,
        "the user of a well-known image may not write a mounted folder" => "the owner of the host folder, then a retry";
    "short-value" "environment" Certain Cause ENDED settings::short_value,
        "the program requires a longer value than that of the only short secret" => "a longer value of the variable";
    "auth-source" "databases" Certain Last ENDED database::auth_source,
        "MongoDB rejects its root user, and the address names a database other than `admin`" => "`authSource=admin` in the address";
    "data-version" "databases" Certain Last ENDED database::data_version,
        "the data is of another version than the program, and the output names both" => "a new volume, or the tag of the image";
    "unknown-host" "network" Certain Last ANY_END network::unknown_host,
        "a name cannot be resolved, and is similar to the name of a sibling, is its image, or is in a mounted file" => "the name in the variable, command or file";
    "scheme" "network" Certain Last ANY_END tls::scheme,
        "a client of the program speaks TLS to a plain port, or the reverse" => "the scheme in the variable";
    "database-tls" "databases" Certain Last ANY_END tls::database_tls,
        "a database does not support TLS, and the client requires it" => "the option of the address in the variable";
    "address-in-use" "network" Certain Last ANY_END listeners::address_in_use,
        "two programs in the container listen on one port" => "the port of one of them";
    "own-tls" "network" Certain Cause ENDED listeners::own_tls,
        "the program has no certificate for its listener with TLS" => "the addresses without TLS in the variable";
    "misspelled-variable" "environment" Certain Cause ENDED environment::misspelled_variable,
        "a variable is missing, and one with a similar name is set" => "the name of the variable";
    "missing-variable" "environment" Certain Cause ENDED environment::missing_variable,
        "the program reports a missing variable" => "the variable, with the value of the siblings or the mounted file that fits";
    "invalid-variable" "environment" Certain Cause ENDED environment::invalid_variable,
        "the program rejects the value of a variable, and names the variable or its value, or a port that is not a number" => "the variable at its line";
    "early-start" "start" Likely Cause EXIT |case| case.context.early_start(case.run),
        "a dependency with the condition `started` was not healthy yet" => "`condition: healthy`";
    "password" "databases" Likely Last ENDED logins::password,
        "a password is refused, and the variables of the sibling have another one" => "the variable that differs, with both places";
    "no-password" "databases" Likely Last ENDED logins::no_password,
        "a sibling with `--requirepass` requires a password" => "the variable with its address";
    "local-sibling" "network" Likely Last ENDED network::local_sibling,
        "a connection is refused, and the sibling listens only inside its container" => "the listen address of the sibling";
    "refused" "network" Likely Last ENDED network::refused,
        "a connection is refused, and the sibling has another port" => "host or port in the variable";
    "missing-dependency" "network" Likely Last ENDED network::missing_dependency,
        "a connection to a sibling that starts later is refused, or its name is not known yet" => "`dependsOn` with `condition: healthy`";
    "no-health-check" "network" Likely Last ENDED siblings::no_health_check,
        "a dependency without a health check does not accept connections yet" => "`healthcheck` of the sibling";
    "killed-worker" "limits" Likely Last WORKER limits::killed_worker,
        "the kernel killed a worker of a server with a memory limit" => "a larger `memory`";
    "named-setting" "files" Likely Cause ENDED settings::named_setting,
        "the message names a setting for the configuration file" => "the mounted file, then a retry";
    "configuration" "files" Likely Cause ENDED settings::configuration,
        "the program cannot read its configuration, and names no file" => "the mounted file, then a retry";
    "permission" "files" Likely Last ENDED files::permission,
        "permission denied for the `user` of the file" => "the owner of the host file, a `tmpfs` with `uid=`, or the user";
    "mount-owner" "files" Likely Last ENDED host_files::mount_owner,
        "permission denied below a mounted folder that others may not write on the host" => "the owner or mode of the host folder, then a retry";
    "hidden-modules" "files" Likely Cause ENDED files::hidden_modules,
        "a module is missing below a mount that replaces the folder of the image" => "a mount that contains only the sources";
    "unmounted" "files" Likely Cause ANY_END host_files::unmounted,
        "a missing file is not below a mount, but is near the target of one, or the project or a mount of a sibling has it" => "the path, or the mount to add";
    "missing-host-file" "files" Likely Cause ANY_END host_files::missing_file,
        "a missing file is below a mount, whose host folder does not have it" => "the host file, then a retry";
    "late-variable" "environment" Likely Last ENDED environment::missing_variable,
        "an earlier line reports a missing variable" => "the variable, with the value of the siblings";
    "unfit-data" "databases" Likely Last ENDED database::unfit_volume,
        "the program cannot read the data in a volume from before the edit" => "a new volume";
    "missing-program" "command" Likely Last ANY_END |case| case.context.missing_program(case),
        "a shell or the engine does not find a program of the command" => "the name in the command";
    "probe-shell" "probe" Certain Facts PROBE probe_command::shell,
        "the command of the health check has an operator of a shell, or is one element with spaces, and its program is no shell" => "`[\"sh\", \"-c\", …]`";
    "probe-script" "probe" Certain Facts PROBE probe_command::script,
        "the command of the health check names a script that is mounted at another place, or that the container cannot run" => "the path in the command, or the host file";
    "probe-program" "probe" Certain Facts PROBE |case| probe::missing_program(&case.context, case.run),
        "the image does not have the program of the health check" => "`type: http` or `tcp`";
    "probe-host" "probe" Certain Facts PROBE probe_command::host,
        "the command of the health check names a host that DNS does not know" => "`localhost`, or the similar name";
    "probe-scheme" "probe" Certain Facts PROBE probe_command::scheme,
        "the command of the health check sends plain requests to a port with TLS, or the reverse, or does not trust its certificate" => "the scheme in the command, or the option `-k`";
    "probe-login" "probe" Certain Facts PROBE probe_command::login,
        "the server in the container does not have the role or the database of the command, or refuses its login" => "the role or database that its variables create";
    "probe-tls" "probe" Certain Facts PROBE |case| probe::tls(&case.context, case.run),
        "a port with TLS receives plain requests, or the reverse" => "`scheme` of the health check";
    "allowed-hosts" "probe" Certain Facts PROBE |case| probe::allowed_hosts(&case.context, case.run),
        "the program refuses the host of the health check" => "the variable with the hosts that it accepts";
    "probe-credentials" "probe" Certain Facts PROBE |case| probe::credentials(&case.context, case.run),
        "the health check gets status 401 or 403, and the service was never healthy" => "another path, or `status` with this one";
    "probe-from-outside" "probe" Certain Facts PROBE |case| probe::from_outside(&case.context, case.run),
        "the command of the health check uses a loopback address, on which the process does not listen" => "`type: http`";
    "probe-port" "probe" Likely Facts CHECK probe_command::port,
        "the command of the health check reaches no listener: the container listens on another port, only on another version of IP, or not yet" => "the port or address in the command, or a longer `startPeriod`";
    "probe-path" "probe" Likely Facts PROBE probe_command::path,
        "the command of the health check gets status 404, 401 or 403" => "a path that succeeds";
    "local-file" "probe" Likely Facts CHECK settings::local_listener,
        "the process listens only inside its container, and its address is in a mounted file" => "the host file, then a retry";
    "slow-start" "probe" Certain Facts CHECK |case| case.context.slow_start(case.run),
        "a later probe of the same run succeeded" => "a longer `startPeriod`";
    "health-check" "probe" Likely Facts CHECK |case| case.context.healthcheck(case.run),
        "port, path, address or delay of the health check do not fit the program" => "the key of the health check";
}

/// Change of the first rule that fits a run: the nearest evidence first, then certain rules before likely ones.
pub(super) fn first_edit(context: &EditContext<'_>, run: &FailedRun, phase: Phase) -> Option<SpecEdit> {
    let scopes = [Scope::Facts, Scope::Cause, Scope::Last, Scope::All];
    scopes.into_iter().find_map(|scope| {
        let case = Case::of(*context, run, scope);
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
