//! Texts, commands and MCP calls of the actions.

use super::ActionId;

/// Text and calls of an action. [`ActionId::remedy`] replaces `{env}` and `{service}`.
pub(super) struct Template {
    /// Imperative clause that describes the action.
    pub(super) action: &'static str,
    /// Imperative clause for the calls, if they only inspect the problem; otherwise empty.
    pub(super) then_verify: &'static str,
    pub(super) command: &'static str,
    pub(super) tool: &'static str,
    pub(super) arguments: Arguments,
}

/// Names and values of tool arguments.
pub(super) type Arguments = &'static [(&'static str, &'static str)];

const ENV: Arguments = &[("environment", "{env}")];
const SERVICE: Arguments = &[("environment", "{env}"), ("service", "{service}")];
/// Arguments that request the complete status with call traces, for a bug report.
const EVERYTHING: Arguments = &[("detail", "full"), ("debug", "true")];

/// Creates the template of an action that the calls perform.
const fn call(
    action: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    manual(action, "", command, tool, arguments)
}

/// Creates the template of manual work outside of Argus; the calls inspect the problem.
const fn manual(
    action: &'static str,
    then_verify: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    Template {
        action,
        then_verify,
        command,
        tool,
        arguments,
    }
}

/// Creates the template of a change of the spec file.
const fn edit(action: &'static str) -> Template {
    manual(action, "check the file", "argus validate", "argus_validate", &[])
}

/// Creates the template of a change of the host.
const fn host_fix(action: &'static str, then_verify: &'static str) -> Template {
    manual(
        action,
        then_verify,
        "argus preflight",
        "argus_preflight_check",
        &[],
    )
}

impl ActionId {
    #[allow(clippy::too_many_lines, reason = "one table shows that no action is missing")]
    pub(super) const fn template(self) -> Template {
        match self {
            Self::StartEngine => host_fix(
                "start or restart the Docker engine, for example with `systemctl restart docker`",
                "check it",
            ),
            Self::FreeDiskSpace => call(
                "remove unused images that Argus built, or free space on the engine's disk",
                "argus prune",
                "argus_preflight_check",
                &[],
            ),
            Self::FreePort => call(
                "free the port, then retry",
                "argus retry {env}",
                "argus_retry",
                ENV,
            ),
            Self::UseAutoPorts => {
                edit("set `resilience.network.portConflictStrategy: auto` to move the port")
            }
            Self::WidenPortRange => edit("widen `isolation.portRange`"),
            Self::RaiseMemoryLimit => {
                edit("raise the service's `memory`, or reduce the memory use of its process")
            }
            Self::InspectLogs => call(
                "read the container's log",
                "argus logs {env} {service}",
                "argus_logs",
                SERVICE,
            ),
            Self::FixContainer => manual(
                "fix the program or its image",
                "see the last failure",
                "argus evidence {env} {service}",
                "argus_evidence",
                SERVICE,
            ),
            Self::FixHealthcheck => edit("fix path, port and type under `container.healthcheck`"),
            Self::RaiseTimeout => edit(
                "raise `startPeriod` or `retries` of the health check, or `ARGUS_TIMEOUT_LONG` for pulls and builds",
            ),
            Self::Retry => call(
                "retry with the same inputs",
                "argus retry {env}",
                "argus_retry",
                ENV,
            ),
            Self::Wait => call(
                "wait for the environment to become ready",
                "argus wait {env}",
                "argus_wait",
                ENV,
            ),
            Self::ResetCircuit => call(
                "retry now instead of waiting for `retryAfter`",
                "argus breaker reset",
                "argus_reset_circuit",
                &[],
            ),
            Self::RunPreflight => call(
                "check the engine, the disk and other prerequisites",
                "argus preflight",
                "argus_preflight_check",
                &[],
            ),
            Self::CleanOrphans => call(
                "list orphans of dead controllers, or remove them with `--clean` (`clean: true`)",
                "argus orphans",
                "argus_orphans",
                &[],
            ),
            Self::VerifyNetwork => call(
                "check the connections inside the environment",
                "argus network {env} --verify",
                "argus_network",
                &[("environment", "{env}"), ("verify", "true")],
            ),
            Self::FixSpec => edit("fix the file, Argus reloads it automatically"),
            Self::AllowInPolicy => edit(
                "remove the denied setting, or allow an outside mount with `argus run --allow-mount FOLDER`",
            ),
            Self::InstallPrerequisite => host_fix("install the missing prerequisite", "check it"),
            Self::UpgradeEngine => host_fix("upgrade the Docker engine", "check its API version"),
            Self::FixImage => edit("fix the name or tag of the image"),
            Self::PullImage => call("retry the pull", "argus retry {env}", "argus_retry", ENV),
            Self::LogIn => call(
                "log in to the registry as the controller's user, then retry",
                "docker login",
                "argus_retry",
                ENV,
            ),
            Self::FixBuild => edit("fix the Dockerfile or its context (see the build output in `details`)"),
            Self::ResolveNameConflict => manual(
                "remove or rename the conflicting resource",
                "show it",
                "argus describe {env}",
                "argus_status",
                ENV,
            ),
            Self::Rollback => call(
                "roll back to the last good revision",
                "argus rollback {env}",
                "argus_rollback",
                ENV,
            ),
            Self::Fork => call(
                "fork the environment under another name",
                "argus fork {env}",
                "argus_fork",
                ENV,
            ),
            Self::Resume => call("end the hold", "argus resume {env}", "argus_resume", ENV),
            Self::StopOtherController => manual(
                "stop the other controller, or give this one its own state directory or namespace",
                "show the owner",
                "argus describe {env}",
                "argus_status",
                ENV,
            ),
            Self::FixStateDirectory => host_fix(
                "make the state directory writable and free space on its disk",
                "check it",
            ),
            Self::ResumeController => call(
                "resume the controller after the fix",
                "argus resume",
                "argus_resume",
                &[],
            ),
            Self::InspectTests => call(
                "inspect the state and events of the environment",
                "argus describe {env}",
                "argus_events",
                ENV,
            ),
            Self::ReportBug => call(
                "report the bug with a support bundle",
                "argus doctor --out argus-report.tar",
                "argus_status",
                EVERYTHING,
            ),
        }
    }
}
