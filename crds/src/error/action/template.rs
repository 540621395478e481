//! What each action is, and what does it or shows how it is with it.

use super::ActionId;

/// What an action is and what it is called with; `{env}` and `{service}` are filled in.
pub(super) struct Template {
    /// What is to be done, which may be a person's work.
    pub(super) action: &'static str,
    /// What the calls then show, where they are not the whole of it.
    pub(super) then_verify: &'static str,
    pub(super) command: &'static str,
    pub(super) tool: &'static str,
    pub(super) arguments: Arguments,
}

/// Names of arguments and what they are.
pub(super) type Arguments = &'static [(&'static str, &'static str)];

const ENV: Arguments = &[("environment", "{env}")];
const SERVICE: Arguments = &[("environment", "{env}"), ("service", "{service}")];
/// What is told to whoever looks for a mistake in Argus.
const EVERYTHING: Arguments = &[("detail", "full"), ("debug", "true")];

/// The calls do it.
const fn call(
    does: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    manual(does, "", command, tool, arguments)
}

/// Work outside of Argus, as on a file; the calls show how it is with it.
const fn manual(
    does: &'static str,
    shows: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    Template {
        action: does,
        then_verify: shows,
        command,
        tool,
        arguments,
    }
}

/// Work on the file.
const fn edit(does: &'static str) -> Template {
    manual(
        does,
        "whether the file is right",
        "argus validate",
        "argus_validate",
        &[],
    )
}

/// Work on the machine.
const fn host_fix(does: &'static str, shows: &'static str) -> Template {
    manual(does, shows, "argus preflight", "argus_preflight_check", &[])
}

impl ActionId {
    #[allow(
        clippy::too_many_lines,
        reason = "it is a table; splitting it would hide that every action is there"
    )]
    pub(super) const fn template(self) -> Template {
        match self {
            Self::StartEngine => host_fix(
                "start or restart the Docker engine, as with `systemctl restart docker`",
                "whether it answers",
            ),
            Self::FreeDiskSpace => call(
                "give back what Argus built and nothing needs, or make room on the engine's disk",
                "argus prune",
                "argus_preflight_check",
                &[],
            ),
            Self::FreePort => call(
                "end what holds the port, then try again",
                "argus retry {env}",
                "argus_retry",
                ENV,
            ),
            Self::UseAutoPorts => {
                edit("set `resilience.network.portConflictStrategy: auto`, so that the port moves")
            }
            Self::WidenPortRange => edit("widen `isolation.portRange`"),
            Self::RaiseMemoryLimit => edit("raise `memory` of the service, or let the process use less"),
            Self::InspectLogs => call(
                "read what the container wrote",
                "argus logs {env} {service}",
                "argus_logs",
                SERVICE,
            ),
            Self::FixContainer => manual(
                "mend what the container runs; a new image or revision is taken up by itself",
                "what failed",
                "argus evidence {env} {service}",
                "argus_evidence",
                SERVICE,
            ),
            Self::FixHealthcheck => edit("mend path, port and type under `container.healthcheck`"),
            Self::RaiseTimeout => edit(
                "allow more time: a health check with `startPeriod` and `retries`, pulls and builds with `ARGUS_TIMEOUT_HEAVY`",
            ),
            Self::Retry => call(
                "try again with the same inputs",
                "argus retry {env}",
                "argus_retry",
                ENV,
            ),
            Self::Wait => call("wait until it is ready", "argus wait {env}", "argus_wait", ENV),
            Self::ResetCircuit => call(
                "try the engine at once, which is done by itself after `retryAfter`",
                "argus breaker reset",
                "argus_reset_circuit",
                &[],
            ),
            Self::RunPreflight => call(
                "check engine, disk and the rest",
                "argus preflight",
                "argus_preflight_check",
                &[],
            ),
            Self::CleanOrphans => call(
                "list what dead controllers left; `--clean` (`clean: true`) removes it",
                "argus orphans",
                "argus_orphans",
                &[],
            ),
            Self::VerifyNetwork => call(
                "look who reaches whom inside the environment",
                "argus network {env} --verify",
                "argus_network",
                &[("environment", "{env}"), ("verify", "true")],
            ),
            Self::FixSpec => edit("mend the file; it is read again by itself"),
            Self::AllowInPolicy => edit(
                "take it out of the file; only for a mount from outside its folder there is `argus run --allow-mount FOLDER`",
            ),
            Self::InstallPrerequisite => host_fix("install what is missing", "whether it is there"),
            Self::UpgradeEngine => host_fix("upgrade the Docker engine", "which API it speaks"),
            Self::FixImage => edit("mend the name or the tag of the image"),
            Self::PullImage => call("try to pull again", "argus retry {env}", "argus_retry", ENV),
            Self::LogIn => call(
                "log in at the registry as the controller's user, then try again",
                "docker login",
                "argus_retry",
                ENV,
            ),
            Self::FixBuild => {
                edit("mend the Dockerfile or its context; the end of the build's output is in `details`")
            }
            Self::RemoveRival => manual(
                "remove or rename what is in the way",
                "what that is",
                "argus describe {env}",
                "argus_status",
                ENV,
            ),
            Self::Rollback => call(
                "go back to the last revision that was ready",
                "argus rollback {env}",
                "argus_rollback",
                ENV,
            ),
            Self::Fork => call(
                "run it beside itself under another name",
                "argus fork {env}",
                "argus_fork",
                ENV,
            ),
            Self::Resume => call("let it go on", "argus resume {env}", "argus_resume", ENV),
            Self::StopOtherController => manual(
                "stop the other controller, or give this one a state directory or a namespace of its own",
                "who it is",
                "argus describe {env}",
                "argus_status",
                ENV,
            ),
            Self::FixStateDirectory => host_fix(
                "make the state directory writable and give it space",
                "whether it is so",
            ),
            Self::ResumeController => call("go on, once that is mended", "argus resume", "argus_resume", &[]),
            Self::InspectTests => call(
                "look at what happened during the run",
                "argus describe {env}",
                "argus_events",
                ENV,
            ),
            Self::ReportBug => call(
                "report it, with all that is known of it",
                "argus doctor --out argus-report.tar",
                "argus_status",
                EVERYTHING,
            ),
        }
    }
}
